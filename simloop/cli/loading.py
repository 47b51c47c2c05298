"""The import of a verb's module, without work that only makes the command start later.

Not here: which module a verb has (`VERBS`). The rule to keep: only the command skips this work; a
program that imports simloop keeps its own settings of the garbage collector and of pydantic.
"""

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


def load(name: str) -> ModuleType:
    """Return the module `name`; import it if this has not been done."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    with _without_collections(), _without_plugins():
        return importlib.import_module(name)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Exempt the imported objects from garbage collection, during the import and for ever.

    The objects live as long as the command. The collector would look through all of them a dozen
    times, the last time at the exit: an eighth of the time of `simloop run`.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()


@contextmanager
def _without_plugins() -> Iterator[None]:
    """Build the models of simloop without the plugins of pydantic, which observe a user's models.

    The search for plugins reads the metadata of each installed package. Models that are built later
    have their plugins: pydantic searches at the first model that is built with the variable unset.
    """
    before = os.environ.get(_PLUGINS)
    os.environ[_PLUGINS] = "__all__"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PLUGINS]
        else:
            os.environ[_PLUGINS] = before

"""The process of the command, which alone changes garbage collection, plugins and signals."""

import gc
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


def load(name: str) -> ModuleType:
    """Return the module `name`; import it, without work that only makes the command start later.

    The collector would look through the imported objects a dozen times. The search for plugins of
    pydantic reads the metadata of each installed package: it waits for a model of the user's own.
    """
    if name in sys.modules:
        return sys.modules[name]
    collects, plugins = gc.isenabled(), os.environ.get(_PLUGINS)
    gc.disable()
    os.environ[_PLUGINS] = "__all__"
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        if collects:
            gc.enable()
        if plugins is None:
            del os.environ[_PLUGINS]
        else:
            os.environ[_PLUGINS] = plugins


@contextmanager
def signals_to_stop(tell: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """Yield the signals that come, Ctrl-C and SIGTERM. A second one ends the command."""
    came: list[int] = []

    def note(number: int, _: Any) -> None:
        came.append(number)
        tell()
        if len(came) > 1:
            raise KeyboardInterrupt

    stops = signal.SIGINT, signal.SIGTERM
    before: dict[int, Any] = {number: signal.getsignal(number) for number in stops}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # a shell may make us ignore Ctrl-C
            signal.signal(number, note)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""The import of the user's own code and the calls of it, which cannot end the command.

A scenario or the command line names the module to import, and a trace never does. The imported
code can end only its own scenario, even with `sys.exit`.
"""

import importlib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import PurePath
from typing import Any

from simloop.errors import ScenarioError
from simloop.virtual.border.output import diverted
from simloop.virtual.places import is_of_the_program
from simloop.virtual.real_world import noted_interrupts
from simloop.wire.api_keys import dummy_keys
from simloop.world.user_errors import describe


def imported(name: str) -> Any:
    """Import the object at `name`, of the form `module:attribute`, or the module of that name.

    Some SDKs and frameworks ask for a key when a client is made, which a module may do.
    """
    module, colon, attribute = name.partition(":")
    with dummy_keys(hides_addresses=False), diverted():
        found: Any = importlib.import_module(module)
    for part in attribute.split(".") if colon else ():
        found = getattr(found, part)
    return found


def loaded(name: str, kind: str, form: str, key: str = "loop") -> Any:
    """Return the object at `name`, of the form `module:attribute`. Raises ScenarioError.

    `kind` is what the object is for the user, such as `loop`, and `form` how to write such a name.
    """
    with isolated(f"the {kind} `{name}` cannot be loaded", partial(_advice, name, form), key):
        return imported(name)


def _advice(name: str, form: str, error: BaseException) -> str:
    module, _, attribute = name.partition(":")
    lines = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if is_of_the_program(frame.f_globals)
    ]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append((error.filename, error.lineno or 1))
    if lines:
        file, line = lines[-1]
        place = f"{PurePath(file).name}:{line}"
        return f"importing `{module}` fails at {place}: correct that, or install what is missing"
    if attribute and isinstance(error, AttributeError):
        public = [each for each in dir(error.obj) if each[:1] != "_"]
        close = get_close_matches(attribute.rpartition(".")[2], public, n=1)
        return f"did you mean `{close[0]}`? {form}" if close else form
    return form


@contextmanager
def isolated(
    message: str,
    hint: str | Callable[[BaseException], str],
    key: str = "loop",
    kind: type[ScenarioError] = ScenarioError,
) -> Iterator[None]:
    """Raise ScenarioError, with `message` and the reason, for any exception of the code inside.

    That includes SystemExit and a KeyboardInterrupt that the code raises. A Ctrl-C of the user
    stays a KeyboardInterrupt. `kind` is the class of the error.
    """
    with noted_interrupts() as interrupts:
        try:
            yield
        except BaseException as error:
            if interrupts.pressed and isinstance(error, KeyboardInterrupt):
                raise
            advice = hint if isinstance(hint, str) else hint(error)
            raise kind(f"{message}: {describe(error)}", key=key, hint=advice) from error

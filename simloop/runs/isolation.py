"""The import of the user's own code and the calls of it, which cannot end the command.

Not here: which objects are machines (registry.py). The rules to keep: a scenario or the command
line names the module to import, and a trace never does; the imported code can end only its own
scenario, even with `sys.exit`.
"""

import importlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from simloop.adapters.keys import dummy_keys
from simloop.errors import ScenarioError
from simloop.world.user_errors import describe


def imported(name: str) -> Any:
    """Import the object at `name`, which has the form `module:attribute`.

    Some SDKs and frameworks ask for a key when a client is made, which a module may do.
    """
    module, _, attribute = name.partition(":")
    with dummy_keys(hides_addresses=False):
        found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


@contextmanager
def isolated(message: str, hint: str, key: str = "loop") -> Iterator[None]:
    """Raise ScenarioError, with `message` and the reason, for any exception of the code inside.

    That includes SystemExit and a KeyboardInterrupt that the code raises. A Ctrl-C of the user
    stays a KeyboardInterrupt.
    """
    with _interrupts_noted() as pressed:
        try:
            yield
        except BaseException as error:
            if pressed and isinstance(error, KeyboardInterrupt):
                raise
            raise ScenarioError(f"{message}: {describe(error)}", key=key, hint=hint) from error


@contextmanager
def _interrupts_noted() -> Iterator[list[int]]:
    """Yield a list that is empty until the user presses Ctrl-C."""
    pressed: list[int] = []
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield pressed  # no Python handler turns a Ctrl-C into an exception
        return

    def note(number: int, frame: Any) -> None:
        pressed.append(number)
        handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, handler)

"""The environment of a program in a simulation: keys of providers, and no way around the world.

A key of the machine's stays, because a program may look at it; no address and no proxy does.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

KEY = "simulated"
"""The key of every provider. It is none: no simulation talks to a provider."""

_NAMES = json.loads(Path(__file__).with_name("environment.json").read_text("utf-8"))
KEYS: tuple[str, ...] = tuple(_NAMES["keys"])
# The machine's own clouds are not asked who the program is, and litellm does not look for the
# prices of models in the internet when it is imported.
ADDED: Mapping[str, str] = dict.fromkeys(KEYS, KEY) | _NAMES["added"]
"""The variables that a run sets where they are not set."""
PASSED: tuple[str, ...] = tuple(_NAMES["passed"])
"""The variables that a whole program gets from the environment of the command."""
FIXED: Mapping[str, str] = _NAMES["fixed"]
"""Those that it gets the same on each machine."""


@contextmanager
def dummy_keys(*, hides_addresses: bool = True) -> Iterator[None]:
    """Set the keys that are not set, and put back at the end what nobody has changed since."""
    environ = os.environ
    added = {name: value for name, value in ADDED.items() if name not in environ}
    addresses = _NAMES["addresses"] if hides_addresses else ()
    hidden = {name: environ.pop(name) for name in addresses if name in environ}
    environ.update(added)
    try:
        yield
    finally:
        for name, value in added.items():
            if environ.get(name) == value:
                del environ[name]
        for name, value in hidden.items():
            environ.setdefault(name, value)

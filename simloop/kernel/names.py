"""What traces and reports call a state, a signal or an effect: its class name in kebab case."""

import re

from msgspec import Struct

_NAMES: dict[type[Struct], str] = {}


def name_of(kind: type[Struct]) -> str:
    """`ModelReplied` is `model-replied`."""
    name = _NAMES.get(kind)
    if name is None:
        name = _NAMES[kind] = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()
    return name

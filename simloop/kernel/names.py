"""The names of states, signals and effects in traces and reports."""

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import fields


def kebab(name: str) -> str:
    """Return the name of a class in traces and reports: `ModelReplied` is `model-replied`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


class _Names(dict[type[Struct], str]):
    """The names of classes, made on first use; a plain dict, as each transition looks one up."""

    def __missing__(self, kind: type[Struct]) -> str:
        self[kind] = kebab(kind.__name__)
        return self[kind]


NAMES = _Names()


@lru_cache(maxsize=1_000)
def describe(value: Struct) -> str:
    """Return a signal or a state in words, without defaults: `model-replied: stop, text`."""
    words = []
    for field in fields(value):
        given = getattr(value, field.name)
        if isinstance(given, bool):
            words += [field.name] if given else []
        elif isinstance(given, int):
            words += [f"{given} {field.name}"] if given != field.default else []
        elif isinstance(given, str) and given:
            words.append(str(given))
    name = NAMES[type(value)]
    return f"{name}: {', '.join(words)}" if words else name

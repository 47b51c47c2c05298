"""What traces and reports call a state, a signal or an effect."""

import re

from msgspec import Struct
from msgspec.structs import fields


def kebab(name: str) -> str:
    """The name of a class as traces and reports have it: `ModelReplied` is `model-replied`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


class _Names(dict[type[Struct], str]):
    """Made when they are first asked for; looked up in every transition, so a plain lookup."""

    def __missing__(self, kind: type[Struct]) -> str:
        self[kind] = kebab(kind.__name__)
        return self[kind]


NAMES = _Names()
"""What each class is called."""


def told(value: Struct) -> str:
    """A signal or a state in words: `model-replied: tool-calls, text, calls`.

    False flags and default numbers are omitted.
    """
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


def is_told_by(value: Struct, words: str) -> bool:
    """Whether each of `words` is said of `value`: `model-replied other`, or `context-compacted`."""
    return set(_WORD.findall(words)) <= set(_WORD.findall(told(value)))


_WORD = re.compile(r"[\w-]+")

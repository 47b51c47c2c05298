"""The removal of secrets from what a recording becomes: keys, tokens and e-mail addresses."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

_KINDS: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_SECRETS = tuple((kind, re.compile(words, re.DOTALL), signs) for kind, words, *signs in _KINDS)
"""Each kind of secret with its pattern, and the texts of which it has at least one."""
_ADDRESS = r"\b[\w.+-]{1,64}@(?:[\w-]{1,64}\.){1,5}[^\W\d_]{2,63}\b"
_EMAIL = ("e-mail address", re.compile(_ADDRESS), ["@"])
_SHORTEST = 6  # an e-mail address: a@b.cd
_REMOVED = "REMOVED"
_COOKIES = frozenset({"cookie", "set-cookie", "authorization", "x-api-key", "api-key"})


def without_secrets(value: Any, removed: Counter[str], *, emails: bool = False) -> Any:
    """Return a value of JSON without secrets, and count what was removed by its kind."""
    patterns = (*_SECRETS, _EMAIL) if emails else _SECRETS
    signs = [sign for _, _, several in patterns for sign in several]

    def cleaned(value: Any) -> Any:
        told = value
        if isinstance(value, str):
            if len(value) >= _SHORTEST and any(map(value.__contains__, signs)):
                for kind, pattern, _ in patterns:
                    told, times = pattern.subn(_mark, told)
                    removed.update([kind] * times)
            return told
        if isinstance(value, dict):
            named = {k for k in value if str(k).lower() in _COOKIES}
            if hidden := {k for k in named if value[k] and isinstance(value[k], str | list)}:
                removed["header"] += len(hidden)
            told = {cleaned(k): _REMOVED if k in hidden else cleaned(v) for k, v in value.items()}
        elif isinstance(value, list | tuple):
            told = [*map(cleaned, value)]
        return value if told == value else told  # a part without secrets is the same object

    return cleaned(value)


def _mark(found: re.Match[str]) -> str:
    name, sign, _ = found.group().partition("=")
    return f"{name}={{{name}}}" if sign and name.isidentifier() else _REMOVED  # a route fits any

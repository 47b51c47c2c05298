"""The removal of secrets from what a recording becomes: keys, tokens and e-mail addresses."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

_KINDS: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_SECRETS = tuple((kind, re.compile(pattern, re.DOTALL)) for kind, pattern in _KINDS)
_EMAIL = ("e-mail address", re.compile(r"\b[\w.+-]{1,64}@(?:[\w-]{1,64}\.){1,5}[^\W\d_]{2,63}\b"))
_COOKIES = frozenset({"cookie", "set-cookie", "authorization", "x-api-key", "api-key"})


def without_secrets(value: Any, removed: Counter[str], *, emails: bool = False) -> Any:
    """Return a value of JSON without secrets, and count what was removed by its kind."""
    kinds = (*_SECRETS, _EMAIL) if emails else _SECRETS
    return _cleaned(value, kinds, removed)


def _cleaned(value: Any, kinds: Any, removed: Counter[str]) -> Any:
    match value:
        case str():
            for kind, pattern in kinds:
                value, times = pattern.subn(_mark, value)
                removed.update({kind: times} if times else {})
            return value
        case dict():
            return {
                _cleaned(name, kinds, removed): _hidden(removed)
                if str(name).lower() in _COOKIES and each and isinstance(each, str | list)
                else _cleaned(each, kinds, removed)
                for name, each in value.items()
            }
        case list() | tuple():
            return [_cleaned(each, kinds, removed) for each in value]
        case _:
            return value


def _mark(found: re.Match[str]) -> str:
    name, sign, _ = found.group().partition("=")
    return f"{name}={{{name}}}" if sign and name.isidentifier() else _REMOVED  # a route fits any


def _hidden(removed: Counter[str]) -> str:
    removed["header"] += 1
    return _REMOVED


_REMOVED = "REMOVED"

"""The removal of secrets from what a recording becomes: keys, tokens and e-mail addresses."""

import json
import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

_KINDS: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_SECRETS = tuple((kind, re.compile(pattern, re.DOTALL)) for kind, pattern in _KINDS)
_EMAIL = ("e-mail address", re.compile(r"\b[\w.+-]{1,64}@(?:[\w-]{1,64}\.){1,5}[^\W\d_]{2,63}\b"))
_SHORTEST = 6  # an e-mail address: a@b.cd
_COOKIES = frozenset({"cookie", "set-cookie", "authorization", "x-api-key", "api-key"})


def without_secrets(value: Any, removed: Counter[str], *, emails: bool = False) -> Any:
    """Return a value of JSON without secrets, and count what was removed by its kind."""
    cleaned = partial(without_secrets, removed=removed, emails=emails)
    match value:
        case str():
            patterns = (*_SECRETS, _EMAIL) if emails else _SECRETS
            for kind, pattern in patterns if len(value) >= _SHORTEST else ():
                value, times = pattern.subn(_mark, value)
                if times:  # else the count would take longer than the search
                    removed[kind] += times
            return value
        case dict():
            told = {k for k in value if str(k).lower() in _COOKIES}
            hidden = {k for k in told if value[k] and isinstance(value[k], str | list)}
            if hidden:
                removed["header"] += len(hidden)
            return {cleaned(k): _REMOVED if k in hidden else cleaned(v) for k, v in value.items()}
        case list() | tuple():
            return [*map(cleaned, value)]
        case _:
            return value


def _mark(found: re.Match[str]) -> str:
    name, sign, _ = found.group().partition("=")
    return f"{name}={{{name}}}" if sign and name.isidentifier() else _REMOVED  # a route fits any


_REMOVED = "REMOVED"

"""Damage to recordings: to their bytes, to their lines, and to the values that stand in them."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import yaml

from simloop.messages import json_value

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 1.5, -0.0, 1e308, 2**70, -(2**63), "", " ", "0", "x", "-1",
    "a\x1b[31m\x00\u202e\ufeff", "\ud800", "x" * 5_000, "...", "7s", "NaN", "2026-13-45T99:00:00Z",
    "attachment://h", "{", "[1]", "null", [], {}, [[]], [None], {"": None}, {"a": {"b": []}},
    [{}], [{"type": "text"}], {"role": "tool"}, "function_call", "assistant", 429, 529, 999,
    "http://[x", "ftp://a", "https://a:b@c.example:0/d", "é", "/",
)  # fmt: skip
"""Values that can stand in the place of any other."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def damaged(data: bytes, random: Random) -> bytes:
    """Return a recording with one to three kinds of damage."""
    for _ in range(random.choice((1, 1, 2, 3))):
        ways = (_bytes, _lines, _values, _values, _values)
        data = random.choice(ways)(data, random)
    return data


def _bytes(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data) + 1)
    end = min(len(data), start + random.choice((0, 1, 1, 2, 30, 1_000_000)))
    new = random.choice(
        (b"", b"\x00", b"\xff\xfe", b"{", b"\n", b"]", b"!!python/none ", b"&a *a ")
    )
    return data[:start] + new + data[end:]


def _lines(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    start = random.randrange(len(lines))
    end = start + random.choice((1, 1, 2, 5))
    match random.randrange(3):
        case 0:
            del lines[start:end]
        case 1:
            lines[start:start] = lines[start:end]
        case _:
            random.shuffle(lines)
    return b"\n".join(lines)


def _values(data: bytes, random: Random) -> bytes:
    """Change a value of a file of JSON, or of one of its lines; else a word of the text."""
    text = data.decode("utf-8", "replace")
    whole = json_value(text)
    if isinstance(whole, dict | list):
        return _dumped(_changed(whole, random)).encode()
    if "interactions:\n" in text[:200]:
        return _changed_yaml(data, random)
    lines = text.split("\n")
    known = [at for at, line in enumerate(lines) if line.startswith("{")]
    if not known:
        return _words(data, random)
    at = random.choice(known)
    lines[at] = _dumped(_changed(json_value(lines[at]), random))
    return "\n".join(lines).encode("utf-8", "replace")


def _changed_yaml(data: bytes, random: Random) -> bytes:
    try:
        value = _changed(yaml.load(data, _LOADER), random)
        return yaml.dump(value, Dumper=_DUMPER, allow_unicode=True).encode("utf-8", "replace")
    except (yaml.YAMLError, UnicodeError):
        return _words(data, random)  # it was damaged before


def _dumped(value: Any) -> str:
    return json.dumps(value)


def _changed(value: Any, random: Random) -> Any:
    places = list(_places(value))
    if not places:
        return random.choice(ODD)
    holder, key = random.choice(places)
    inner = json_value(holder[key]) if isinstance(holder[key], str) else None
    if isinstance(inner, dict | list) and random.random() < 0.7:  # JSON in a text, as arguments are
        holder[key] = json.dumps(_changed(inner, random))
        return value
    match random.randrange(4):
        case 0:
            del holder[key]
        case 1:
            other, name = random.choice(places)
            holder[key] = copy.deepcopy(other[name]) if _has(other, name) else None
        case _:
            holder[key] = random.choice(ODD)
    return value


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        keys = (
            list(each)
            if isinstance(each, dict)
            else range(len(each))
            if isinstance(each, list)
            else ()
        )
        for key in keys:
            yield each, key
            waiting.append(each[key])


def _words(data: bytes, random: Random) -> bytes:
    words = data.split(b" ")
    at = random.randrange(len(words))
    words[at] = json.dumps(random.choice(ODD)).encode()
    return b" ".join(words)

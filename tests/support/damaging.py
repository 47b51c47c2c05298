"""Damage to trace files, drawn from a seed."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

from simloop.trace.codec import digest

_NUMBERS = ["-1", "1.5", "1e400", "NaN", "1" + "0" * 30, "1" + "0" * 5_000, "01", '"7"', "null"]
_VALUES = ["[]", "{}", "true", '"\\ud800"', '"\\u001b[2J"', "[" * 900 + "]" * 900, "[" * 10_000]
_BYTES = [
    b"\xff",
    b"\xc3",
    b"\x00",
    b"\x1b[2J",
    b"\n",
    b'"',
    b"\\",
    b"{",
    b"}",
    b",",
    b"\xed\xa0\x80",
]
_NUMBER = re.compile(rb"(?<=:)-?[0-9]+(?=[,}])")
_STRING = re.compile(rb'(?<=:)"[^"\\]*"')

Damage = Callable[[random.Random, bytes], bytes]


def damaged(data: bytes, seed: int) -> bytes:
    """`data` with one to three kinds of damage; every second time with a digest that fits."""
    draw = random.Random(seed)
    for _ in range(draw.randint(1, 3)):
        data = draw.choice(_DAMAGES)(draw, data)
    return _with_digest(data) if draw.random() < 0.5 else data


def _with_digest(data: bytes) -> bytes:
    """With the digest that a stranger can compute just as well as simloop."""
    start = data.rfind(b"\n", 0, -1) + 1
    body, footer = data[:start], data[start:]
    return body + re.sub(rb'"digest":"[^"]*"', b'"digest":"%s"' % digest(body).encode(), footer)


def _bytes(draw: random.Random, data: bytes) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(_BYTES) + data[at + draw.randrange(3) :]


def _cut(draw: random.Random, data: bytes) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _substituted(pattern: re.Pattern[bytes], values: list[str]) -> Damage:
    def substitute(draw: random.Random, data: bytes) -> bytes:
        found = list(pattern.finditer(data))
        if not found:
            return data
        match = draw.choice(found)
        return data[: match.start()] + draw.choice(values).encode() + data[match.end() :]

    return substitute


def _lines(draw: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    at, other = draw.randrange(len(lines) + 1), draw.randrange(len(lines) + 1)
    moved = lines[other : other + 1]
    if draw.random() < 0.5:
        del lines[other : other + 1]
    if draw.random() < 0.8:
        lines[at:at] = moved
    return b"".join(lines)


def _keys(draw: random.Random, data: bytes) -> bytes:
    """One line with a key twice, or without one, or with one that nobody knows."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at = draw.randrange(len(lines))
    try:
        line: dict[str, Any] = json.loads(lines[at])
        key = draw.choice(list(line))
    except (ValueError, TypeError, IndexError, RecursionError):
        return data
    kind = draw.randrange(3)
    if kind == 0:
        twice = json.dumps({key: line[key]})[1:-1].encode()
        lines[at] = lines[at].rstrip(b"}\n") + b"," + twice + b"}\n"
    else:
        value = line.pop(key)
        lines[at] = json.dumps(line | ({"\x1b": value} if kind == 1 else {})).encode() + b"\n"
    return b"".join(lines)


_DAMAGES: list[Damage] = [
    _bytes,
    _cut,
    _substituted(_NUMBER, _NUMBERS + _VALUES),
    _substituted(_STRING, _NUMBERS + _VALUES),
    _lines,
    _keys,
]

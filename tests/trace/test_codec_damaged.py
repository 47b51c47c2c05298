"""A damaged trace file is refused with the damaged line, or it can be shown and compared."""

import json
import random
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from simloop.errors import ScenarioError
from simloop.runs.run import run
from simloop.scenario.catalog import find
from simloop.scenario.loader import load_scenario
from simloop.trace.codec import decode, digest, encode
from simloop.trace.diff import first_difference
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import timeline

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


NAMES = [
    "calls.fifty-at-once",
    "compaction.summary-fails",
    "hooks.all-points",
    "loops.pi-details",
    "prompts.after-an-aborted-tool",
]
SEEDS = 60


@cache
def recorded(name: str) -> bytes:
    return encode(run(load_scenario(find(name.replace(".", "/", 1)))).trace)


def read(data: bytes) -> LoopTrace | ScenarioError:
    try:
        return decode(data, "a.jsonl")
    except ScenarioError as error:
        return error


def shown(trace: LoopTrace, original: LoopTrace) -> list[str]:
    """Everything that commands print of a trace that they only read."""
    found = first_difference(original, trace)
    return [*timeline(trace), *(found.lines() if found else ())]


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_trace_is_refused_with_its_line_or_can_be_shown(name: str) -> None:
    original = decode(recorded(name))
    refused = 0
    for seed in range(SEEDS):
        data = damaged(recorded(name), seed)
        trace = read(data)
        if isinstance(trace, LoopTrace):
            assert all(line.isprintable() for line in shown(trace, original)), seed
        else:
            refused += 1
            assert str(trace).startswith("a.jsonl:"), seed
            assert trace.line or "the digest does not match" in trace.message, seed
    assert SEEDS / 2 < refused < SEEDS, "damage is mostly found, and sometimes harmless"

"""The first place where two traces differ, and its description.

The number of a line of code is no difference: every comparison leaves it out by `without_line`.
"""

import re
from collections import deque
from collections.abc import Iterator
from itertools import groupby, islice, zip_longest
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from simloop.escape import escape
from simloop.messages import Message, Request
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import NAME, clock, describe_message
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests
from simloop.trace.timeline import describe

CONTEXT = 3
_WIDTH = 200
_LINE = re.compile(r":[0-9]+(?= in )")


def without_line(entry: AnyEntry) -> AnyEntry:
    """Return the entry with the file and the function of its place, and not the line."""
    place = getattr(entry, "place", "")
    return msgspec.structs.replace(entry, place=_LINE.sub("", place, count=1)) if place else entry


def without_lines(trace: LoopTrace) -> LoopTrace:
    """Return the trace as a snapshot has it: see `without_line`."""
    return replace(trace, entries=list(map(without_line, trace.entries)))


def same(one: AnyEntry, other: AnyEntry) -> bool:
    """Return whether two entries are equal but for the line of their place."""
    return one == other or without_line(one) == without_line(other)


class Divergence(Struct, frozen=True):
    """The first difference of two traces; values are None where a trace has nothing."""

    seq: int | None  # None for the footer
    field: str
    expected: Any
    got: Any
    context: tuple[str, ...]  # the timeline lines before it that both have
    where: str = ""  # the field in words

    def lines(self, expected: str = "expected", got: str = "got") -> Iterator[str]:
        """Yield the divergence as text, safe to print; `expected` and `got` name the two sides."""
        place = "the end of the run" if self.seq is None else f"entry {self.seq}"
        ended = "nothing: the run has ended" if self.field == "kind" else "nothing"
        line, one, other = excerpts(self.expected, self.got, ended)
        where = f"{self.where or self.field}{f', line {line}' if line > 1 else ''}"
        yield f"the first difference is in {place}, {escape(where)}:"
        yield from (f"    {line}" for line in self.context)
        expected, got = escape(expected), escape(got)
        width = max(len(expected), len(got))
        yield f"  - {expected:<{width}}  {one}"
        yield f"  + {got:<{width}}  {other}"


class FieldDifference(NamedTuple):
    """A field that differs, in words too where there are better ones, and both of its values."""

    field: str
    where: str
    expected: Any
    got: Any


def first_difference(expected: LoopTrace, got: LoopTrace) -> Divergence | None:
    """Return the first difference, which may be the end of one trace, or None without one."""
    for seq, (one, other) in enumerate(zip_longest(expected.entries, got.entries)):
        if one != other and (one is None or other is None or not same(one, other)):
            found = _entries(seq, expected.entries, got.entries)
            context = _context(expected.entries, seq)
            return Divergence(seq, found.field, found.expected, found.got, context, found.where)
    record = expected.entries
    one_end, other_end = expected.footer, got.footer
    if one_end is not None and other_end is not None:
        # What is counted, or covered by what comes before, is no difference that says something.
        said = [_plain(replace(each, digest="", entries=0)) for each in (one_end, other_end)]
        if said[0] == said[1]:
            return None
        return Divergence(None, *_field(*said), _context(record, len(record)))
    if one_end is other_end:
        return None
    one_is, other_is = ("no end" if end is None else "an end" for end in (one_end, other_end))
    return Divergence(None, "the trace", one_is, other_is, _context(record, len(record)))


def _entries(seq: int, one: list[AnyEntry], other: list[AnyEntry]) -> FieldDifference:
    first, second = (without_line(each[seq]) if seq < len(each) else None for each in (one, other))
    if first is None or second is None or type(first) is not type(second):
        return FieldDifference("kind", "", _whole(first), _whole(second))
    kind = NAME[type(first)]
    if isinstance(first, entries.Request):
        sent = [deque(requests(each[: seq + 1]), maxlen=1)[0] for each in (one, other)]
        if (found := request_difference(*sent)) is not None:
            field, where, *values = found
            return FieldDifference(f"{kind}.{field}", f"request #{first.number}, {where}", *values)
    field, expected, got = _field(_plain(first), _plain(second))
    return FieldDifference(f"{kind}.{field}", "", expected, got)


def request_difference(one: Request, other: Request) -> FieldDifference | None:
    """Return the first part of two requests that differs: prompt, tools, then messages."""
    for name in ("number", "purpose", "system_prompt"):
        values = getattr(one, name), getattr(other, name)
        if values[0] != values[1]:
            return FieldDifference(name, f"the {name.replace('_', ' ')}", *values)
    names = [", ".join(tool.name for tool in each.tools) or "none" for each in (one, other)]
    if names[0] != names[1]:
        return FieldDifference("tools", "the tools", *names)
    for place, (tool, second) in enumerate(zip(one.tools, other.tools, strict=True)):
        if tool != second:
            field, expected, got = _field(_plain(tool), _plain(second))
            where = f"the tool {tool.name}, {field}"
            return FieldDifference(f"tools[{place}].{field}", where, expected, got)
    for place, pair in enumerate(zip_longest(one.messages, other.messages)):
        if pair[0] != pair[1]:
            return _messages(f"messages[{place}]", *pair)
    return None


def _messages(name: str, one: Message | None, other: Message | None) -> FieldDifference:
    if one is None or other is None or type(one) is not type(other):
        shown = (each and describe_message(each) for each in (one, other))
        return FieldDifference(name, name, *shown)
    field, expected, got = _field(_plain(one), _plain(other))
    where = f"{name} ({_plain(one)['role']}){'' if field == 'text' else f', {field}'}"
    return FieldDifference(f"{name}.{field}", where, expected, got)


def _field(one: Any, other: Any) -> tuple[str, Any, Any]:
    path = ""
    while True:
        if isinstance(one, dict) and isinstance(other, dict):
            names = dict.fromkeys((*one, *other))
            pairs = [(f".{name}", one.get(name), other.get(name)) for name in names]
        elif isinstance(one, list) and isinstance(other, list):
            pairs = [(f"[{place}]", *pair) for place, pair in enumerate(zip_longest(one, other))]
        else:
            pairs = []
        if (found := next((each for each in pairs if each[1] != each[2]), None)) is None:
            return path.removeprefix("."), one, other
        path, one, other = path + found[0], found[1], found[2]


def _context(record: list[AnyEntry], seq: int) -> tuple[str, ...]:
    before = (record[place] for place in range(seq - 1, -1, -1))
    groups = groupby(before, lambda e: (e.request,) if type(e) is entries.TextDelta else e.seq)
    rows = [[*group][::-1] for _, group in islice(groups, CONTEXT)]
    return tuple(f"{clock(row[0].at_ns)}  {describe(*row)}" for row in reversed(rows))


def _plain(value: Struct) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(value), type=dict)


def _whole(entry: AnyEntry | None) -> Any:
    return None if entry is None else f"{clock(entry.at_ns)}  {describe(entry)}"


def excerpts(one: Any, other: Any, nothing: str = "nothing") -> tuple[int, str, str]:
    """Return the line where two values first differ, and both from there on, escaped."""
    one, other = _text(one, nothing), _text(other, nothing)
    pairs = enumerate(zip(one, other, strict=False))
    shared = next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
    start = one.rfind("\n", 0, shared) + 1
    if (before := shared - _WIDTH // 4) > start and max(len(one), len(other)) - start > _WIDTH:
        start = one.find(" ", before, shared) + 1 or before
    shown = (f"{'…' * (start > 0)}{escape(text[start:], _WIDTH)}" for text in (one, other))
    return one.count("\n", 0, shared) + 1, *shown


def _text(value: Any, nothing: str) -> str:
    if value is None:
        return nothing
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

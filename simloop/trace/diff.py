"""The first place where two traces differ, and its description.

Not here: making the second trace (check/replay.py). The rule to keep: only the first difference is
reported, because all later entries of a run that has gone another way differ too.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Struct

from simloop.escape import escape
from simloop.trace.entries import AnyEntry, Footer
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import clock, describe

CONTEXT = 3
_WIDTH = 200
# Counted or covered by what comes before: never the first difference that says something.
_DERIVED = frozenset({"digest", "entries"})


class Divergence(Struct, frozen=True):
    """The first difference of two traces: entry number `seq` (None for the footer), at `field`.

    `expected` and `got` are the values there, None where a trace has already ended. `context` is
    the entries that both have before it, as timeline lines.
    """

    seq: int | None
    field: str
    expected: Any
    got: Any
    context: tuple[str, ...]

    def lines(self, expected: str = "expected", got: str = "got") -> Iterator[str]:
        """Yield the divergence as text, safe to print; `expected` and `got` name the two sides."""
        where = "the end of the run" if self.seq is None else f"entry {self.seq}"
        yield f"the first difference is in {where}, {escape(self.field)}:"
        yield from (f"    {line}" for line in self.context)
        expected, got = escape(expected), escape(got)
        width = max(len(expected), len(got))
        one, other = _text(self.expected), _text(self.got)
        start = _window(one, other)
        yield f"  - {expected:<{width}}  {_cut(one, start)}"
        yield f"  + {got:<{width}}  {_cut(other, start)}"


def first_difference(expected: LoopTrace, got: LoopTrace) -> Divergence | None:
    """Return the first difference, which may be the end of one trace, or None without one."""
    pairs = zip_longest(expected.entries, got.entries)
    for seq, (one, other) in enumerate(pairs):
        if one != other:
            return _divergence(seq, one, other, expected.entries)
    one_end, other_end = expected.footer, got.footer
    if one_end is not None and other_end is not None:
        return _footers(one_end, other_end, expected.entries)
    if one_end is other_end:
        return None
    context = _context(expected.entries, len(expected.entries))
    one_is, other_is = ("cut" if end is None else "whole" for end in (one_end, other_end))
    return Divergence(None, "the trace", one_is, other_is, context)


def _divergence(
    seq: int, one: AnyEntry | None, other: AnyEntry | None, record: list[AnyEntry]
) -> Divergence:
    context = _context(record, seq)
    if one is None or other is None or type(one) is not type(other):
        return Divergence(seq, "kind", _whole(one), _whole(other), context)
    field, expected, got = _field(_plain(one), _plain(other))
    return Divergence(seq, f"{_plain(one)['kind']}.{field}", expected, got, context)


def _footers(one: Footer, other: Footer, record: list[AnyEntry]) -> Divergence | None:
    expected = {k: v for k, v in _plain(one).items() if k not in _DERIVED}
    got = {k: v for k, v in _plain(other).items() if k not in _DERIVED}
    if expected == got:
        return None
    return Divergence(None, *_field(expected, got), _context(record, len(record)))


def _field(one: dict[str, Any], other: dict[str, Any]) -> tuple[str, Any, Any]:
    """Return the first field that differs, down to the innermost mapping."""
    for name in dict.fromkeys((*one, *other)):
        expected, got = one.get(name), other.get(name)
        if expected == got:
            continue
        if isinstance(expected, dict) and isinstance(got, dict):
            inner, expected, got = _field(expected, got)
            return f"{name}.{inner}", expected, got
        return name, expected, got
    return "", one, other


def _context(record: list[AnyEntry], seq: int) -> tuple[str, ...]:
    shown = record[max(0, seq - CONTEXT) : seq]
    return tuple(f"{clock(entry.at_ns)}  {describe(entry)}" for entry in shown)


def _plain(entry: AnyEntry | Footer) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(entry))
    return plain


def _whole(entry: AnyEntry | None) -> Any:
    return None if entry is None else f"{clock(entry.at_ns)}  {describe(entry)}"


def _text(value: Any) -> str:
    if value is None:
        return "nothing: the run has ended, or the field is not there"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _window(one: str, other: str) -> int:
    """Return the offset from which two long texts must be shown to include the difference."""
    if max(len(one), len(other)) <= _WIDTH:
        return 0
    pairs = enumerate(zip(one, other, strict=False))
    same = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
    return max(0, same - _WIDTH // 4)


def _cut(text: str, start: int) -> str:
    shown = escape(text[start:], _WIDTH)
    return f"…{shown}" if start else shown

"""A trace as text: one line for each thing that happened, in virtual time.

Moves of the machine are shown, as `->`, where something was decided or a counter changed.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from simloop.escape import escape
from simloop.kernel.checks import as_written
from simloop.kernel.limits import Limits
from simloop.messages import Counters, Outcome
from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Header
from simloop.trace.kinds import KINDS, OF_REPLY, TEXTS, clock, counters_in_words
from simloop.trace.looptrace import LoopTrace

_WIDTH = 96
_FINDING = 400
_ROUTINE = frozenset({"measuring", "calling-model", "closing-step", "finished", "turning"})
_OUTCOMES = frozenset(map(str, Outcome))
_Line = tuple[int, str, str]  # virtual nanoseconds, what happened, the details


def timeline(trace: LoopTrace, wrong: Iterable[str] = ()) -> Iterator[str]:
    """Yield the lines of the timeline: the header with the findings `wrong`, the verdict last."""
    yield from _header(trace.header)
    yield from (f"FAILED: {escape(line, _FINDING)}" for line in wrong)
    yield ""
    shown_ns = -1
    for at_ns, what, details in _lines(trace.entries):
        time = clock(at_ns) if at_ns != shown_ns or what in _OUTCOMES else ""
        shown_ns = at_ns
        yield f"{time:>12}  {what:<12}  {escape(details, _WIDTH)}".rstrip()
    if trace.truncated:
        yield f"{'':>12}  truncated     {escape(trace.truncated, _WIDTH)}"


def describe(entry: AnyEntry, *pieces: AnyEntry) -> str:
    """Return any entry, with the next `pieces` of its text, as one line."""
    lines = (_joined([entry, *pieces]),) if pieces else KINDS[type(entry)].lines(entry)
    return "; ".join([f"{what} {escape(text, _WIDTH)}".strip() for what, text in lines])


def _header(header: Header) -> Iterator[str]:
    if header.title:
        yield escape(header.title, _WIDTH)
    usual = as_written(Limits())
    limits = [f"{key} {value}" for key, value in header.limits.items() if value != usual.get(key)]
    bounds = escape(", ".join(limits), 400) or "default limits"
    yield f"loop {escape(header.loop, _WIDTH)}, seed {header.seed}, {bounds}"


def _lines(record: Iterable[Any]) -> Iterator[_Line]:
    text: list[Any] = []  # the newest pieces of one text
    newest = 0  # the number of the newest request
    counters: Counters | None = None
    results: dict[str, tuple[str, bool]] = {}  # by call: what its tool returned
    for entry in record:
        kind = type(entry)  # an `isinstance` that fails on a Struct takes much longer
        if text and (kind is not type(text[0]) or entry.request != text[0].request):
            yield text[0].at_ns, *_numbered(_joined(text), text[0].request, newest)
            text = []
        if kind in TEXTS:
            text.append(entry)
            continue
        if kind is entries.Transition:
            now = entry.counters
            if entry.state not in _ROUTINE or (counters is not None and now != counters):
                yield entry.at_ns, "->", f"{entry.state} ({counters_in_words(now)})"
            counters = now
            continue
        if kind is entries.Answered:
            if entry.ran and results.get(entry.call_id) == (entry.text, entry.is_error):
                continue  # the result of the tool, which has a line
        elif kind is entries.ToolResult:
            results[entry.call_id] = entry.text, entry.is_error
        elif kind is entries.Prompt:
            counters = None
        elif kind is entries.Request:
            newest = entry.number
        request = entry.request if kind in OF_REPLY else newest
        for line in KINDS[kind].lines(entry):
            yield entry.at_ns, *_numbered(line, request, newest)
    if text:
        yield text[0].at_ns, *_numbered(_joined(text), text[0].request, newest)


def _numbered(line: tuple[str, str], request: int, newest: int) -> tuple[str, str]:
    return line if request == newest or not newest else (line[0], f"{line[1]} [#{request}]")


def _joined(pieces: list[Any]) -> tuple[str, str]:
    text = "".join([piece.text for piece in pieces])
    lasted_ns = pieces[-1].at_ns - pieces[0].at_ns
    what = KINDS[type(pieces[0])].meaning
    return what, f"{text} [over {clock(lasted_ns)}]" if lasted_ns else text

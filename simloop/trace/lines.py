"""The lines of a trace file, and a trace that is being read from them.

A reply may have an entry for each of its words. In a file they are one line, with the whole text,
and with the lengths and the times of its pieces, so that `unfold` returns the same entries. When a
trace is read, each line must fit those before it: everything that a view of a trace relies on is
tested here, so that a damaged file is an error with a line number and never a crash of a view.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from simloop.kernel.names import kebab
from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Count, Footer, Header
from simloop.trace.looptrace import LoopTrace
from simloop.trace.recorder import MAX_ENTRIES

_TWO_OR_MORE = Meta(min_length=2)
_MOST_NS = 2**63 - 1


class Pieces(
    Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True,
    tag_field="kind", tag=kebab,
):  # fmt: skip
    """Pieces that arrived one after another in the reply to `request`.

    `seq` and `at_ns` are those of the first. `lengths` counts the characters of each piece, whose
    texts together are `text`. `gaps_ns` is the time between a piece and the next: one number if all
    are equal.
    """

    seq: Count
    at_ns: Count
    request: Count
    text: str
    lengths: Annotated[tuple[Count, ...], _TWO_OR_MORE]
    gaps_ns: Count | tuple[Count, ...] = 0


class TextDeltas(Pieces, frozen=True, gc=False):
    """Pieces of text arrived in the reply to `request`."""


class ReasoningDeltas(Pieces, frozen=True, gc=False):
    """Pieces of reasoning arrived in the reply to `request`."""


TraceLine = Header | AnyEntry | TextDeltas | ReasoningDeltas | Footer

_FOLDED: Mapping[type, type[Pieces]] = {
    entries.TextDelta: TextDeltas,
    entries.ReasoningDelta: ReasoningDeltas,
}
UNFOLDED: Mapping[type, Callable[..., AnyEntry]] = {
    TextDeltas: entries.TextDelta,
    ReasoningDeltas: entries.ReasoningDelta,
}


def fold(record: Iterable[Any]) -> list[TraceLine]:
    """Return the lines of the entries, in order."""
    lines: list[Any] = []
    row: list[Any] = []  # the newest pieces of one text
    for entry in record:
        if type(entry) not in _FOLDED:
            if row:
                lines.append(_folded(row))
                row = []
            lines.append(entry)
        elif row and type(entry) is type(row[0]) and entry.request == row[0].request:
            row.append(entry)
        else:
            if row:
                lines.append(_folded(row))
            row = [entry]
    if row:
        lines.append(_folded(row))
    return lines


def _folded(row: list[Any]) -> Any:
    first, last = row[0], row[-1]
    if first is last:
        return first
    gaps_ns: int | tuple[int, ...] = 0
    if first.at_ns != last.at_ns:
        gaps = tuple([after.at_ns - before.at_ns for before, after in pairwise(row)])
        gaps_ns = gaps[0] if len(set(gaps)) == 1 else gaps
    texts = [piece.text for piece in row]
    kind, lengths = _FOLDED[type(first)], tuple(map(len, texts))
    return kind(first.seq, first.at_ns, first.request, "".join(texts), lengths, gaps_ns)


def wrong_pieces(line: Pieces) -> str:
    """Return why the line is not the pieces of its text; empty if it is."""
    chars, gaps = sum(line.lengths), line.gaps_ns
    if chars != len(line.text):
        return f"its pieces have {chars} characters, and its text has {len(line.text)}"
    spaces = len(line.lengths) - 1
    if isinstance(gaps, tuple) and len(gaps) != spaces:
        return f"its pieces have {spaces} gaps between them, and it gives {len(gaps)}"
    last_ns = line.at_ns + (sum(gaps) if isinstance(gaps, tuple) else gaps * spaces)
    return "its last piece comes after the end of time" if last_ns > _MOST_NS else ""


def unfold(line: Pieces) -> list[AnyEntry]:
    """Return the entries of a line that `wrong_pieces` has nothing against."""
    make, number, text, gaps = UNFOLDED[type(line)], line.request, line.text, line.gaps_ns
    found: list[AnyEntry] = []
    seq, at_ns, start = line.seq, line.at_ns, 0
    # One plain loop: reading a trace spends most of its time here.
    later = (*gaps, 0) if isinstance(gaps, tuple) else repeat(gaps)
    for length, gap in zip(line.lengths, later, strict=False):
        end = start + length
        found.append(make(seq, at_ns, number, text[start:end]))
        start, seq, at_ns = end, seq + 1, at_ns + gap
    return found


_NO_ENTRIES = frozenset((Header, Footer))
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class Reading:
    """Adds lines to `trace`, which has its header, and no more, at the start."""

    __slots__ = (
        "_call", "_checks", "_entries", "_failed", "_made", "_messages", "_open", "_runs",
        "_trace",
    )  # fmt: skip

    def __init__(self, trace: LoopTrace) -> None:
        self._trace = trace
        self._entries = trace.entries
        self._messages = {0: 0}  # by the number of the request
        self._open: set[int] = set()  # requests whose replies have not ended
        self._call: str | None = None  # the id of the newest call since the newest request
        self._made = defaultdict[str, int](int)  # the calls since the newest main request, by id
        self._failed = False  # whether an error has arrived since the newest request
        self._runs: bool | None = None  # whether a prompt has not ended; None before the first one
        self._checks: Mapping[type, Callable[[Any], str]] = {
            entries.Prompt: self._wrong_turn,
            entries.Ended: self._wrong_turn,
            entries.Request: self._wrong_request,
            entries.TextDelta: self._wrong_piece,
            entries.ReasoningDelta: self._wrong_piece,
            entries.ToolCallDelta: self._wrong_piece,
            **dict.fromkeys(UNFOLDED, self._wrong_pieces),
            entries.ToolCall: self._wrong_call,
            entries.Finish: self._wrong_end,
            entries.Error: self._wrong_end,
            entries.StreamCut: self._wrong_end,
            entries.ToolStarted: self._wrong_start,
            entries.CallRenamed: self._wrong_name,
            entries.CallBegun: self._wrong_begin,
            entries.Classified: self._wrong_judgement,
        }

    def add(self, lines: Sequence[TraceLine]) -> tuple[int, str] | None:
        """Add the lines in order, up to the first that cannot be the next one.

        Return the place of that line and the reason, or None if all fit.
        """
        count = _count_of_entries(lines)
        found: Any = lines[:count]
        wrong = self._add_entries(found)
        if wrong is not None or count == len(lines):
            return wrong
        last = lines[count]
        if isinstance(last, Footer):
            why = self._wrong_footer(last)
            if why:
                return count, why
            count += 1
        return None if count == len(lines) else (count, "a header or a line after the footer")

    def _add_entries(self, found: list[Any]) -> tuple[int, str] | None:
        check_of, record, at_ns = self._checks.get, self._entries, 0
        added = more = 0  # lines whose entries are added; entries without a line of their own
        for place, line in enumerate(found):
            if line.seq != place + more:
                return place, f"it is entry {line.seq}, in the place of entry {place + more}"
            if line.at_ns < at_ns:
                return place, f"its time, {line.at_ns} ns, is before that of the last entry"
            at_ns = line.at_ns
            check = check_of(type(line))  # an `isinstance` that fails on a Struct takes much longer
            if check is None:
                continue
            wrong = check(line)
            if wrong:
                return place, wrong
            if type(line) in UNFOLDED:
                more += len(line.lengths) - 1
                if more > MAX_ENTRIES:
                    return place, f"there are more than {MAX_ENTRIES:,} pieces up to it"
                record += found[added:place]
                record += unfold(line)
                added, at_ns = place + 1, record[-1].at_ns
        record += found[added:]
        return None

    def _wrong_footer(self, line: Footer) -> str:
        self._trace.footer = line
        count = len(self._entries)
        if line.entries != count:
            return f"it counts {line.entries} entries, not {count}"
        if line.ended and self._runs is not False:
            return "the last prompt has no end before it"
        return ""

    def _wrong_piece(self, piece: Any) -> str:
        return "" if piece.request in self._open else _not_open(piece.request)

    def _wrong_pieces(self, pieces: Pieces) -> str:
        return self._wrong_piece(pieces) or wrong_pieces(pieces)

    def _wrong_call(self, call: entries.ToolCall) -> str:
        self._call = call.call_id
        self._made[call.call_id] += 1
        return "" if call.request in self._open else _not_open(call.request)

    def _wrong_start(self, started: entries.ToolStarted) -> str:
        is_object = _is_json_object(started.arguments)
        return "" if is_object else "the arguments of the tool are no JSON object"

    def _wrong_name(self, renamed: entries.CallRenamed) -> str:
        newest, self._call = self._call, None
        if newest == renamed.call_id:
            self._made[renamed.call_id] -= 1
            self._made[renamed.to_id] += 1
            return ""
        return f"it renames {renamed.call_id!r}, which is not the call before it"

    def _wrong_begin(self, begun: entries.CallBegun) -> str:
        known = self._made[begun.call_id] > 0
        return "" if known else f"the model has not made the call {begun.call_id!r} that begins"

    def _wrong_judgement(self, classified: entries.Classified) -> str:
        if classified.fault is not None or self._failed:
            return ""
        return "it judges an error, and none has arrived since the last request"

    def _wrong_turn(self, line: entries.Prompt | entries.Ended) -> str:
        if isinstance(line, entries.Prompt) is (self._runs is True):
            return "a prompt and its end must follow each other"
        self._runs = not self._runs
        return ""

    def _wrong_request(self, request: entries.Request) -> str:
        before = self._messages.get(request.base)
        if before is None:
            return f"it is based on request {request.base}, which is not in the trace before it"
        if request.number in self._messages:
            return f"there is a request {request.number} before it"
        self._messages[request.number] = request.kept + len(request.added)
        self._open.add(request.number)
        self._call, self._failed = None, False
        if request.purpose == "main":
            self._made.clear()
        if request.kept > before:
            return f"it keeps {request.kept} messages of a request that had {before}"
        return ""

    def _wrong_end(self, line: entries.Finish | entries.Error | entries.StreamCut) -> str:
        if line.request not in self._open:
            return _not_open(line.request)
        self._open.remove(line.request)
        self._failed = self._failed or type(line) is entries.Error
        return ""


def _count_of_entries(lines: Sequence[TraceLine]) -> int:
    """Return the number of lines before the first that is no entry."""
    every = len(lines)
    if lines and type(lines[-1]) is Footer:
        every -= 1
    if _NO_ENTRIES.isdisjoint(map(type, lines[:every])):
        return every
    return next(place for place, line in enumerate(lines) if type(line) in _NO_ENTRIES)


def _not_open(number: int) -> str:
    return f"request {number} is not in the trace before it, or its reply has ended"


def _is_json_object(text: str) -> bool:
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True

"""A trace as a file: JSON Lines, a header, then the entries, then a footer.

Canonical: the same run gives the same bytes, and the footer's digest covers all lines before it.
The pieces of one text are one line. When a trace is read, each line must fit those before it: a
damaged file is an error with a line number, and never a crash of a view.
"""

import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, pairwise, repeat
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from simloop.errors import ScenarioError
from simloop.escape import escape
from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Count, Entry, Footer, Header
from simloop.trace.kinds import OF_REPLY
from simloop.trace.looptrace import LoopTrace
from simloop.trace.recorder import MAX_ENTRIES
from simloop.trace.storage import read_file, write_file

FORMAT = "simloop-trace"
VERSION = 3
MAX_BYTES = 2**30
"""A longer file is not read: it would not fit into the memory of many machines."""

_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Pieces(Entry, frozen=True, gc=False):
    """Pieces of the reply to `request`; `seq` and `at_ns` are those of the first."""

    request: Count
    text: str
    lengths: Annotated[tuple[Count, ...], Meta(min_length=2)]  # the characters of each
    gaps_ns: Count | tuple[Count, ...] = 0  # between them; one number if all are equal


class TextDeltas(Pieces, frozen=True, gc=False):
    """Pieces of text arrived in the reply to `request`."""


class ReasoningDeltas(Pieces, frozen=True, gc=False):
    """Pieces of reasoning arrived in the reply to `request`."""


TraceLine = Header | AnyEntry | TextDeltas | ReasoningDeltas | Footer
_L = TypeVar("_L")

_FOLDED: Mapping[type, type[Pieces]] = {
    entries.TextDelta: TextDeltas, entries.ReasoningDelta: ReasoningDeltas,
}  # fmt: skip
UNFOLDED: Mapping[type, Callable[..., AnyEntry]] = {line: kind for kind, line in _FOLDED.items()}


def fold(record: Iterable[AnyEntry]) -> list[TraceLine]:
    """Return the lines of the entries, in order."""
    lines: list[Any] = []
    for (kind, _), found in groupby(record, lambda e: (type(e), getattr(e, "request", None))):
        pieces = list(found)
        lines += (_folded(pieces),) if kind in _FOLDED else pieces
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


def _why_no_pieces(line: Pieces) -> str:
    chars, gaps = sum(line.lengths), line.gaps_ns
    if chars != len(line.text):
        return f"its pieces have {chars} characters, and its text has {len(line.text)}"
    spaces = len(line.lengths) - 1
    if isinstance(gaps, tuple) and len(gaps) != spaces:
        return f"its pieces have {spaces} gaps between them, and it gives {len(gaps)}"
    last_ns = line.at_ns + (sum(gaps) if isinstance(gaps, tuple) else gaps * spaces)
    return "its last piece comes after the end of time" if last_ns >= 2**63 else ""


def unfold(line: Pieces) -> list[AnyEntry]:
    """Return the entries of a line that `_why_no_pieces` has nothing against."""
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


_ENCODER = msgspec.json.Encoder()
_HEADER = msgspec.json.Decoder(Header)
_LINE: msgspec.json.Decoder[TraceLine] = msgspec.json.Decoder(TraceLine)
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_TEMPORARY = os.fsencode(f"{tempfile.gettempdir()}/")
_PASSING = re.compile(rb'"digest":"\w+"|' + re.escape(_TEMPORARY) + rb"\w+")
_ENDS = frozenset((entries.Finish, entries.Error, entries.StreamCut))


def comparable(record: Iterable[Any]) -> bytes:
    """Return the bytes by which two runs are compared.

    Names in the folder for temporary files, which another process may hold, do not count, nor do
    the digests of what has them.
    """
    lines = _ENCODER.encode_lines(record)
    return _PASSING.sub(b"", lines) if _TEMPORARY in lines else lines


def digest(data: bytes | memoryview) -> str:
    """Return the BLAKE2b of `data`, 16 bytes in hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def encode(trace: LoopTrace) -> bytes:
    """Return the trace as canonical bytes. The footer is that of the entries that are written."""
    body = _ENCODER.encode_lines([trace.header, *fold(trace.entries)])
    # The user may say something after the end of the last prompt, and tasks of an agent may go on.
    last_ns = trace.entries[-1].at_ns if trace.entries else 0
    footer = Footer(
        entries=len(trace.entries), elapsed_ns=max(trace.elapsed_ns, last_ns), digest=digest(body),
        ended=trace.footer is not None,
    )  # fmt: skip
    return body + (_ENCODER.encode(footer) + b"\n")  # one copy of the long text, not two


def write_trace(trace: LoopTrace, path: str | Path) -> None:
    """Write the trace to `path`, as `write_file` does. Raises ScenarioError if that fails."""
    write_file(Path(path), encode(trace))


def read_trace(path: str | Path) -> LoopTrace:
    """Load a trace file.

    A file that was cut loads up to its last whole line; `truncated` then says so. Raises
    ScenarioError, with the line, for a file that is no trace, is of another version, or is damaged
    before its last line.
    """
    return decode(read_file(Path(path), MAX_BYTES, "record a shorter run"), str(path))


def decode(data: bytes, path: str = "<trace>") -> LoopTrace:
    """Load a trace from bytes; `path` is its name in errors. Raises ScenarioError."""
    start = data.find(b"\n") + 1 or len(data)
    trace = LoopTrace(_read_header(data[:start].rstrip(b"\n"), path))
    lines, damage = _read_lines(data, start, path)
    if (wrong := _Reading(trace).add(lines)) is not None:
        place, why = wrong
        raise _unreadable(path, place + 2, why)  # the header is line 1
    if trace.footer is None:
        count = len(trace.entries)
        trace.truncated = f"the file ends after {count} whole entries{damage}, without a footer"
    elif trace.footer.digest != digest(memoryview(data)[: data.rindex(b"\n", 0, -1) + 1]):
        raise ScenarioError("the digest does not match: the file was changed", path=path)
    elif not trace.footer.ended:
        trace.footer = None
    return trace


def _read_header(line: bytes, path: str) -> Header:
    try:
        probe = _OBJECT.decode(line)
    except _UNDECODABLE:
        probe = {}
    if probe.get("format") != FORMAT:
        hint = "record one with: simloop record SCENARIO"
        raise ScenarioError("this is not a simloop trace", path=path, line=1, hint=hint)
    if (version := probe.get("version")) != VERSION:
        message = f"this trace has the format of version {version}, and this simloop reads"
        newer = isinstance(version, int) and version > VERSION
        hint = "install a newer simloop" if newer else "record it again: simloop record SCENARIO"
        raise ScenarioError(f"{message} version {VERSION}", path=path, line=1, hint=hint)
    return _read_line(_HEADER, line, path, 1)


def _read_lines(data: bytes, start: int, path: str) -> tuple[list[TraceLine], str]:
    """Return the lines from `start` on, and a message about an incomplete last line."""
    with suppress(*_UNDECODABLE):
        lines = _LINE.decode_lines(memoryview(data)[start:])
        if len(lines) == data.count(b"\n", start):
            return lines, ""
    # A line is damaged, or two are joined: each is read alone, so that an error has its number.
    _, *whole, tail = data.split(b"\n") if b"\n" in data else (data, b"")
    lines = [_read_line(_LINE, line, path, number) for number, line in enumerate(whole, start=2)]
    if not tail:
        return lines, ""
    try:
        return [*lines, _LINE.decode(tail)], ""
    except _UNDECODABLE:
        return lines, " and a piece of one"


def _read_line(decoder: msgspec.json.Decoder[_L], raw: bytes, path: str, number: int) -> _L:
    try:
        return decoder.decode(raw)
    except _UNDECODABLE as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _unreadable(path, number, why) from error


def _unreadable(path: str, line: int, why: str) -> ScenarioError:
    return ScenarioError(f"this line of the trace cannot be read: {why}", path=path, line=line)


class _Reading:
    __slots__ = ("_entries", "_messages", "_open", "_runs", "_trace")

    def __init__(self, trace: LoopTrace) -> None:
        self._trace = trace
        self._entries = trace.entries
        self._messages = {0: 0}  # by the number of the request
        self._open: set[int] = set()  # requests whose replies have not ended
        self._runs: bool | None = None  # whether a prompt has not ended; None before the first one

    def add(self, lines: Sequence[TraceLine]) -> tuple[int, str] | None:
        """Add the lines; return the place of the first that does not fit, and why, or None."""
        kinds = list(map(type, lines))
        count = min(map(kinds.index, {Header, Footer}.intersection(kinds)), default=len(lines))
        found: Any = lines[:count]
        if (wrong := self._add_entries(found)) is not None or count == len(lines):
            return wrong
        last = lines[count]
        if isinstance(last, Footer):
            self._trace.footer, known = last, len(self._entries)
            if last.entries != known:
                return count, f"it counts {last.entries} entries, not {known}"
            if last.ended and self._runs is not False:
                return count, "the last prompt has no end before it"
            count += 1
        return None if count == len(lines) else (count, "a header or a line after the footer")

    def _add_entries(self, found: list[Any]) -> tuple[int, str] | None:
        record, at_ns = self._entries, 0
        added = more = 0  # lines whose entries are added; entries without a line of their own
        for place, line in enumerate(found):
            if line.seq != place + more:
                return place, f"it is entry {line.seq}, in the place of entry {place + more}"
            if line.at_ns < at_ns:
                return place, f"its time, {line.at_ns} ns, is before that of the last entry"
            at_ns = line.at_ns
            if wrong := self._wrong(line):
                return place, wrong
            if type(line) in UNFOLDED:
                if wrong := _why_no_pieces(line):
                    return place, wrong
                more += len(line.lengths) - 1
                if more > MAX_ENTRIES:
                    return place, f"there are more than {MAX_ENTRIES:,} pieces up to it"
                record += found[added:place]
                record += unfold(line)
                added, at_ns = place + 1, record[-1].at_ns
        record += found[added:]
        return None

    def _wrong(self, line: Any) -> str:
        kind: Any = type(line)  # an `isinstance` that fails on a Struct takes much longer
        if kind in OF_REPLY or kind in UNFOLDED:
            if (number := line.request) not in self._open:
                return f"request {number} is not in the trace before it, or its reply has ended"
            if kind in _ENDS:
                self._open.remove(number)
        elif kind is entries.Request:
            if (before := self._messages.get(line.base)) is None:
                return f"it is based on request {line.base}, which is not in the trace before it"
            if line.number in self._messages:
                return f"there is a request {line.number} before it"
            self._messages[line.number] = line.kept + len(line.added)
            self._open.add(line.number)
            if line.kept > before:
                return f"it keeps {line.kept} messages of a request that had {before}"
        elif kind is entries.ToolStarted:
            try:
                _OBJECT.decode(line.arguments)
            except (msgspec.DecodeError, RecursionError):
                return "the arguments of the tool are no JSON object"
        elif kind is entries.Prompt or kind is entries.Ended:
            if (kind is entries.Prompt) is (self._runs is True):
                return "a prompt and its end must follow each other"
            self._runs = not self._runs
        return ""


def write_traces(kept: Iterable[LoopTrace], into: Path, node_id: str, root: Path) -> Iterator[str]:
    """Write the traces of a test; yield the command that shows each, or its error."""
    for number, trace in enumerate(kept, start=1):
        path = into / f"{file_name(node_id)}{f'.{number}' if number > 1 else ''}.trace.jsonl"
        try:
            into.mkdir(exist_ok=True)
            write_trace(trace, path)
            yield escape(f"simloop show {shlex.quote(str(path.relative_to(root)))}")
        except (OSError, ScenarioError) as error:
            yield escape(str(error))


def file_name(node_id: str) -> str:
    """Return a recognisable file name that no other test has."""
    plain = re.sub(r"\.simloop\.yaml::[^:]*$", "", node_id).replace("::", ".")
    name = re.sub(r"[^\w.=\[\]-]+", "_", plain.replace("/", "."), flags=re.ASCII).lstrip(".")
    if re.fullmatch(r"(?!\.)[\w./=\[\]-]{1,150}", plain, re.ASCII):
        return name
    encoded = node_id.encode(errors="surrogatepass")
    return f"{name[:150]}-{hashlib.blake2b(encoded, digest_size=4).hexdigest()}"

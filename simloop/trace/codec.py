"""A trace as a file: JSON Lines, a header, then the entries, then a footer.

Canonical: the same run gives the same bytes, and the footer's digest covers all lines before it.
Not here: what the records mean (entries.py). The rule to keep: a file is written whole or not at
all, and whatever can still be read of a damaged one is read, and said to be damaged.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import msgspec

from simloop.errors import ScenarioError
from simloop.trace.entries import Footer, Header
from simloop.trace.lines import Reading, TraceLine, fold
from simloop.trace.looptrace import LoopTrace
from simloop.trace.storage import read_file, write_file

FORMAT = "simloop-trace"
VERSION = 3
MAX_BYTES = 2**30
"""A longer file is not read: it would not fit into the memory of many machines."""

_ENCODER = msgspec.json.Encoder()
_LINE: msgspec.json.Decoder[TraceLine] = msgspec.json.Decoder(TraceLine)
_PROBE = msgspec.json.Decoder(dict[str, object])
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def digest(data: bytes | memoryview) -> str:
    """Return the BLAKE2b of `data`, 16 bytes in hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def encode(trace: LoopTrace) -> bytes:
    """Return the trace as canonical bytes. The footer is that of the entries that are written."""
    body = _ENCODER.encode_lines([trace.header, *fold(trace.entries)])
    # The user may say something after the end of the last prompt, and tasks of an agent may go on.
    last_ns = trace.entries[-1].at_ns if trace.entries else 0
    footer = Footer(
        entries=len(trace.entries),
        elapsed_ns=max(trace.elapsed_ns, last_ns),
        digest=digest(body),
        ended=trace.footer is not None,
    )
    return body + (_ENCODER.encode(footer) + b"\n")  # one copy of the long text, not two


def write_trace(trace: LoopTrace, path: str | Path) -> None:
    """Write the trace to `path`, as `write_file` does. Raises ScenarioError if that fails."""
    given: Any = trace
    if not isinstance(given, LoopTrace):
        hint = "give the trace of a result: write_trace(result.trace, path)"
        raise ScenarioError(f"this is no trace, but {type(given).__name__}", hint=hint)
    write_file(Path(path), encode(trace))


def read_trace(path: str | Path) -> LoopTrace:
    """Load a trace file.

    A file that was cut loads up to its last whole line; `truncated` then says so. Raises
    ScenarioError, with the line, for a file that is no trace, is of another version, or is damaged
    before its last line.
    """
    given: Any = path
    if not isinstance(given, str | os.PathLike):
        hint = "write a trace to a file with write_trace(result.trace, path)"
        raise ScenarioError(f"a path is needed, not {type(given).__name__}", hint=hint)
    return decode(read_file(Path(path), MAX_BYTES, "record a shorter run"), str(path))


def decode(data: bytes, path: str = "<trace>") -> LoopTrace:
    """Load a trace from bytes; `path` is its name in errors. Raises ScenarioError."""
    start = data.find(b"\n") + 1 or len(data)
    trace = LoopTrace(_read_header(data[:start].rstrip(b"\n"), path))
    _check_utf8(data[: data.rfind(b"\n") + 1], path)
    lines, damage = _read_canonical(trace.header, data, start), ""
    if lines is None:
        lines, damage = _read_lines(trace.header, data.split(b"\n"), path)
    wrong = Reading(trace).add(lines)
    if wrong is not None:
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
        probe = _PROBE.decode(line)
    except _UNDECODABLE:
        probe = {}
    if probe.get("format") != FORMAT:
        hint = "record one with: simloop record SCENARIO"
        raise ScenarioError("this is not a simloop trace", path=path, line=1, hint=hint)
    if probe.get("version") != VERSION:
        raise _other_version(probe.get("version"), path)
    try:
        return msgspec.json.decode(line, type=Header)
    except _UNDECODABLE as error:
        raise _unreadable(path, 1, _why(error)) from error


def _other_version(version: object, path: str) -> ScenarioError:
    newer = isinstance(version, int) and version > VERSION
    return ScenarioError(
        f"this trace has the format of version {version}, and this simloop reads version {VERSION}",
        path=path,
        line=1,
        hint="install a newer simloop" if newer else "record it again: simloop record SCENARIO",
    )


def _check_utf8(data: bytes, path: str) -> None:
    """Raise ScenarioError for bytes that are no text; msgspec does not look at those it skips."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _unreadable(path, line, f"byte 0x{data[error.start]:02x} is not UTF-8") from error


def _read_canonical(header: Header, data: bytes, start: int) -> list[TraceLine] | None:
    """Return all lines from `start` on, or None if they are not as simloop writes them."""
    try:
        lines = _LINE.decode_lines(data[start:])
    except _UNDECODABLE:
        return None
    # They differ too where lines are joined or broken, or a key stands in a line twice.
    return lines if _ENCODER.encode_lines([header, *lines]) == data else None


def _read_lines(header: Header, raw: list[bytes], path: str) -> tuple[list[TraceLine], str]:
    """Return the lines after the header, and a message about an incomplete last line."""
    _check_keys(header, raw[0], path, 1)
    *whole, tail = raw[1:] or [b""]
    lines = [_read_line(line, path, number) for number, line in enumerate(whole, start=2)]
    if not tail:
        return lines, ""
    try:
        _LINE.decode(tail)
    except _UNDECODABLE:
        return lines, " and a piece of one"
    return [*lines, _read_line(tail, path, len(raw))], ""


def _read_line(raw: bytes, path: str, number: int) -> TraceLine:
    try:
        line = _LINE.decode(raw)
    except _UNDECODABLE as error:
        raise _unreadable(path, number, _why(error)) from error
    _check_keys(line, raw, path, number)
    return line


def _check_keys(line: TraceLine, raw: bytes, path: str, number: int) -> None:
    """Raise ScenarioError for a line with a key that stands in it twice.

    msgspec takes the last of them, and other readers take the first. Only a line that is not as
    simloop writes it can have one.
    """
    if _ENCODER.encode(line) == raw:
        return

    def unique(pairs: list[tuple[str, object]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _unreadable(path, number, f"the key `{key}` stands in it twice")
            seen.add(key)

    try:
        json.loads(raw, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, number, _why(error)) from error


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _unreadable(path: str, line: int, why: str) -> ScenarioError:
    return ScenarioError(f"this line of the trace cannot be read: {why}", path=path, line=line)

"""A trace as a file: JSON Lines, a header, then the entries, then a footer.

Canonical: the same run gives the same bytes, and the footer's digest covers all lines before it.
Not here: what the records mean (entries.py). The rule to keep: a file is written whole or not at
all, and whatever can still be read of a damaged one is read, and said to be damaged.
"""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import msgspec

from simloop.errors import ScenarioError
from simloop.trace.entries import AnyEntry, Footer, Header, Line
from simloop.trace.looptrace import LoopTrace

FORMAT = "simloop-trace"
VERSION = 1

_ENCODER = msgspec.json.Encoder()
_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_PROBE = msgspec.json.Decoder(dict[str, object])


def digest(data: bytes) -> str:
    """The BLAKE2b of `data`, 16 bytes in hex."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def encode(trace: LoopTrace) -> bytes:
    """The trace as canonical bytes, with the digest filled in."""
    body = _ENCODER.encode_lines([trace.header, *trace.entries])
    if trace.footer is None:
        return body
    footer = msgspec.structs.replace(trace.footer, digest=digest(body))
    return body + _ENCODER.encode(footer) + b"\n"


def write_trace(trace: LoopTrace, path: Path) -> None:
    """Write the trace to `path`. Raises ScenarioError as `replace_file` does."""
    replace_file(path, encode(trace))


def replace_file(path: Path, data: bytes) -> None:
    """Write a file, atomically: readers see the old one or the whole new one.

    Raises ScenarioError if the folder cannot be written to.
    """
    try:
        _replace(path, data)
    except OSError as error:
        hint = "name a file in a folder that exists and may be written to"
        message = f"cannot be written: {error.strerror}"
        raise ScenarioError(message, path=path, hint=hint) from error


def create_folder(folder: Path) -> None:
    """Have the folder, and those that it is in. Raises ScenarioError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "name a folder that may be written to"
        message = f"the folder cannot be created: {error.strerror}"
        raise ScenarioError(message, path=folder, hint=hint) from error


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # mkstemp makes it private; a trace is an ordinary file
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def read_trace(path: Path) -> LoopTrace:
    """Load a trace file.

    A file that was cut loads up to its last whole line; `truncated` then says so. Raises
    ScenarioError, with the line, for a file that is no trace, is of another version, or is damaged
    before its last line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror}", path=path) from error
    return decode(data, str(path))


def decode(data: bytes, path: str = "<trace>") -> LoopTrace:
    """Load a trace from bytes; `path` is what errors call it. Raises ScenarioError."""
    raw_lines = data.split(b"\n")
    header = _read_header(raw_lines[0], path)
    lines, damage = _read_lines(raw_lines[1:], path)
    trace = LoopTrace(header)
    for number, line in enumerate(lines, start=2):
        if isinstance(line, Header) or trace.footer is not None:
            raise _unreadable(path, number, "a header or a line after the footer")
        if isinstance(line, Footer):
            trace.footer = line
        else:
            trace.entries.append(line)
    if trace.footer is None:
        count = len(trace.entries)
        trace.truncated = f"the file ends after {count} whole entries{damage}, without a footer"
    elif trace.footer.digest != digest(data[: data.rindex(b"\n", 0, -1) + 1]):
        raise ScenarioError("the digest does not match: the file was changed", path=path)
    return trace


def _read_header(line: bytes, path: str) -> Header:
    try:
        probe = _PROBE.decode(line)
    except msgspec.DecodeError:
        probe = {}
    if probe.get("format") != FORMAT:
        hint = "record one with: simloop record SCENARIO"
        raise ScenarioError("this is not a simloop trace", path=path, line=1, hint=hint)
    if probe.get("version") != VERSION:
        raise ScenarioError(
            f"trace format version {probe.get('version')}; this simloop reads version {VERSION}",
            path=path,
            line=1,
        )
    try:
        return msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError as error:
        raise _unreadable(path, 1, str(error)) from error


def _read_lines(raw: list[bytes], path: str) -> tuple[list[AnyEntry | Footer | Header], str]:
    """All lines, and what to say of a last one that is not whole."""
    whole, tail = raw[:-1], raw[-1] if raw else b""
    try:
        lines = msgspec.json.decode(b"[" + b",".join(whole) + b"]", type=list[Line])
    except msgspec.DecodeError:
        lines = [_read_line(line, path, number) for number, line in enumerate(whole, start=2)]
    if not tail:
        return lines, ""
    try:
        return [*lines, _LINE.decode(tail)], ""
    except msgspec.DecodeError:
        return lines, " and a piece of one"


def _read_line(line: bytes, path: str, number: int) -> Line:
    try:
        return _LINE.decode(line)
    except msgspec.DecodeError as error:
        raise _unreadable(path, number, str(error)) from error


def _unreadable(path: str, line: int, why: str) -> ScenarioError:
    return ScenarioError(f"this line of the trace cannot be read: {why}", path=path, line=line)

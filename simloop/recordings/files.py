"""The bytes of a recording: unpacked, decoded, and read as JSON, as lines of JSON, or as YAML.

A recording is a stranger's file. Its size is bounded before and after unpacking, no tag makes an
object, and an error names the line.
"""

import base64
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec
import yaml

from simloop.errors import ScenarioError
from simloop.recordings.recording import Recording
from simloop.scenario.yaml import plain_value
from simloop.trace.storage import read_file

MOST_BYTES = 200_000_000
_MOST_DEPTH = 200
_MOST_EVENTS = 5_000_000
_GZIP = b"\x1f\x8b"
_START = re.compile(rb"\n[\x1e, ]*[\[{]")
_TOO_LONG = "split it, or import the sessions that matter"
_WHOLE = "import the file as the recorder has written it"
_TOLD_EACH = 1_000
MS, _NS_PER_S = 10**6, 10**9
_LATEST_NS = 3_000_000_000 * _NS_PER_S  # in 2065: no recording has a time after it, or before 1970
_C_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TAGS = ("python/str", "python/unicode", "python/tuple", "str", "null")


class LeftOut(Exception):  # noqa: N818 - no error: it is counted
    """A part of a recording is left out, for this reason."""


class RecordingFile:
    """One file of a recording."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = unpacked(data, path) if data.startswith(_GZIP) else data
        self.say: Callable[[str], object] = str  # told how far the reading is

    @classmethod
    def read(cls, path: Path) -> "RecordingFile":
        return cls(str(path), read_file(path, MOST_BYTES, _TOO_LONG))

    @classmethod
    def beginning(cls, path: Path, size: int) -> "RecordingFile":
        """Return the first bytes of a file; none of one that cannot be read."""
        try:
            with path.open("rb") as opened:
                data = opened.read(size)
            if data.startswith(_GZIP):
                data = zlib.decompressobj(wbits=31).decompress(data, size)
        except (OSError, zlib.error):
            data = b""
        return cls(str(path), data)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8-sig", "replace")

    def fail(self, message: str, line: int = 0, hint: str = "") -> ScenarioError:
        return ScenarioError(message, path=self.path, line=line or None, hint=hint)

    def json(self) -> Any:
        try:
            return msgspec.json.decode(self.data.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            place = re.search(r"byte (\d+)", str(error))
            line = self.data.count(b"\n", 0, int(place[1]) if place else None) + 1
            raise self.fail(f"this is no JSON: {error}", line, _WHOLE) from None

    def values(self) -> Iterator[tuple[int, Any]]:
        """Yield each value of JSON with its line: the whole file, or each that begins a line.

        The value of a line that is no JSON is None. Raises ScenarioError if there is no other.
        """
        data, line, is_json = self.data, 1, False
        inner = (one.start() + 1 for one in _START.finditer(data)) if _json(data) is None else ()
        for start, end in pairwise(chain((0,), inner, (len(data),))):
            pieces = [data[start:end]]
            if (read := [*map(_json, pieces)]) == [None]:
                pieces = pieces[0].splitlines(keepends=True)
                read = [*map(_json, pieces)]
            for piece, value in zip(pieces, read, strict=True):
                if piece.strip():
                    is_json = is_json or isinstance(value, dict | list)
                    yield line, value
                line += piece.count(b"\n")
                if line % _TOLD_EACH == 0:
                    self.say(f"{self.path}: line {line:,}")
        if not is_json:
            self.json()

    def objects(self, recording: Recording) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each object with its line, and count other lines. Raises as `values` does."""
        for line, value in self.values():
            if isinstance(value, dict):
                yield line, value
            else:
                recording.leave_out("a line that is no JSON object")

    def yaml(self) -> Any:
        """Return the file as YAML. Raises ScenarioError, for a tag that makes an object too."""
        try:
            return _tree(self.data)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", "") or "it cannot be parsed"
            line = 0 if mark is None else mark.line + 1
            told = problem if type(error) is yaml.MarkedYAMLError else f"this is no YAML: {problem}"
            raise self.fail(told, line, _WHOLE) from None


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data.strip(b"\xef\xbb\xbf\x1e, \t\r\n"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def at(value: Any, *paths: str) -> Any:
    """Return the first value at one of the paths that is not empty, or else None.

    A path is a name, or names with dots between them; a number is a place in a list.
    """
    return next(filter(None, (_at(value, path) for path in paths)), None)


def _at(value: Any, path: str) -> Any:
    if isinstance(value, dict) and ("." not in path or path in value):
        return value.get(path)
    for name in path.split("."):
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def mapping(value: Any, *paths: str) -> dict[str, Any]:
    """Return the mapping at a path, or else an empty one. So do the next for others."""
    found = at(value, *paths) if paths else value
    return found if isinstance(found, dict) else {}


def items(value: Any, *paths: str) -> list[Any]:
    """Return the list at a path."""
    found = at(value, *paths) if paths else value
    return found if isinstance(found, list) else []


def word(value: Any, *paths: str) -> str:
    """Return the first text at one of the paths."""
    found = (_at(value, path) for path in paths)
    return next((each for each in found if isinstance(each, str) and each), "")


def time_ns(value: Any, unit_ns: int = 1) -> int | None:
    """Return the nanoseconds of a time in ISO 8601, or of a number of units; None for no time."""
    try:
        if isinstance(value, str) and not value.isdecimal():
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            found = int(moment.timestamp()) * _NS_PER_S + moment.microsecond * 1000
        else:
            found = int(value * unit_ns if isinstance(value, float) else int(value) * unit_ns)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if 0 <= found < _LATEST_NS else None


def unpacked(data: bytes, path: str = "") -> bytes:
    """Return gzip data, unpacked. Raises ScenarioError for broken data, or for too much."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            whole = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ScenarioError(f"this is no gzip file: {error}", path=path) from None
    if len(whole) > MOST_BYTES:
        words = f"it has over {MOST_BYTES:,} bytes when it is unpacked"
        raise ScenarioError(words, path=path, hint=_TOO_LONG)
    return whole


def _tree(data: bytes) -> Any:
    """Return YAML, made of events: no recursion, no objects, shared anchors. Raises YAMLError."""
    waiting: list[tuple[Any, list[Any]]] = [(None, [])]  # the starts of nodes, with values
    anchors: dict[str, Any] = {}
    for number, event in enumerate(yaml.parse(data, Loader=_C_LOADER)):
        if len(waiting) > _MOST_DEPTH + 1 or number > _MOST_EVENTS:
            words = f"nested over {_MOST_DEPTH} deep, or has over {_MOST_EVENTS:,} parts"
            raise _problem(f"it is {words}", event)
        start: Any = event
        match event:
            case yaml.ScalarEvent():
                value = _scalar(event)
            case yaml.AliasEvent():
                if event.anchor not in anchors:
                    raise _problem(f"the alias *{event.anchor} has no anchor", event)
                value = anchors[event.anchor]
            case yaml.CollectionStartEvent():
                _check_tag(event)
                waiting.append((event, []))
                continue
            case yaml.SequenceEndEvent():
                start, value = waiting.pop()
            case yaml.MappingEndEvent():
                start, values = waiting.pop()
                value = dict(zip(map(_key, values[::2]), values[1::2], strict=True))
            case _:
                continue
        if start.anchor:
            anchors[start.anchor] = value
        waiting[-1][1].append(value)
    return waiting[0][1][0] if waiting[0][1] else None


def _problem(words: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=words, problem_mark=event.start_mark)


def _check_tag(event: Any) -> str:
    tag = (event.tag or "").removeprefix("tag:yaml.org,2002:")
    if tag not in ("", "!", "map", "seq", "binary", *_PLAIN_TAGS):
        raise _problem(f"the tag {event.tag[:80]} makes an object, and recordings have none", event)
    return tag


def _scalar(event: Any) -> Any:
    is_binary = _check_tag(event) == "binary"
    try:
        plain = plain_value(event.value) if event.implicit[0] else event.value
        return base64.b64decode(event.value) if is_binary else plain
    except OverflowError:
        raise _problem("this number has more than 64 bits", event) from None
    except ValueError:
        raise _problem("this is no base64", event) from None


def _key(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else type(value).__name__

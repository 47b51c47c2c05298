"""HAR 1.2: requests with their times, statuses and lost connections."""

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from simloop.recordings.exchanges import HttpExchange, add_exchanges
from simloop.recordings.files import LATEST_MS, RecordingFile
from simloop.recordings.recording import Recording
from simloop.world.http import Headers, HttpRequest

_MS = 10**6


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of a HAR file. Raises ScenarioError."""
    recording.lacks = ("the tools' own times", "the times of the pieces of a stream")
    log = _at(file.json(), "log")
    entries = log.get("entries")
    if not isinstance(entries, list):
        raise file.fail("this HAR file has no list log.entries")
    add_exchanges(recording, _exchanges(entries, recording))


def _at(value: Any, name: str) -> Mapping[str, Any]:
    inner = value.get(name) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _exchanges(entries: list[Any], recording: Recording) -> Iterator[HttpExchange]:
    for entry in entries:
        request, answer = _at(entry, "request"), _at(entry, "response")
        url, method, status = request.get("url"), request.get("method"), answer.get("status")
        if not (isinstance(url, str) and isinstance(method, str) and isinstance(status, int)):
            recording.leave_out("an entry without a method, an address or a status")
            continue
        content, text = _at(answer, "content"), _at(answer, "content").get("text")
        if not isinstance(text, str):
            if status and content.get("size"):
                recording.leave_out("an answer whose body the writer has left away")
                continue
            text = ""
        try:
            is_coded = content.get("encoding") == "base64"
            body = base64.b64decode(text) if is_coded else text.encode("utf-8", "replace")
        except ValueError:
            recording.leave_out("a body that is no base64")
            continue
        posted = _at(request, "postData").get("text")
        sent = posted.encode("utf-8", "replace") if isinstance(posted, str) else b""
        asked = HttpRequest(method.upper(), url, _headers(request), sent)
        timings = _at(entry, "timings")
        yield HttpExchange(
            asked, max(status, 0), _headers(answer), body,
            began_ns=time_ns(entry.get("startedDateTime")),
            wait_ns=_ns(timings.get("wait")),
            took_ns=_ns(entry.get("time")),
        )  # fmt: skip


def _headers(part: Mapping[str, Any]) -> Headers:
    given = part.get("headers")
    pairs = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    return tuple((str(each.get("name")).lower(), str(each.get("value"))) for each in pairs)


def _ns(ms: Any) -> int | None:
    return int(ms) * _MS if isinstance(ms, int | float) and 0 < ms < 1e9 else None  # noqa: PLR2004 - eleven days


def time_ns(text: Any) -> int | None:
    """Return the nanoseconds since 1970 of a time in ISO 8601; None for any but those years."""
    try:
        moment = datetime.fromisoformat(str(text))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        ms = int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return ms * _MS if 0 < ms < LATEST_MS else None

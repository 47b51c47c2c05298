"""HAR 1.2: requests with their times, statuses and lost connections."""

import base64
from collections.abc import Iterator
from typing import Any

from simloop.recordings.exchanges import HttpExchange, add_exchanges
from simloop.recordings.files import MS, RecordingFile, at, items, mapping, time_ns, word
from simloop.recordings.recording import Recording
from simloop.world.http import Headers, HttpRequest


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of a HAR file. Raises ScenarioError."""
    log = mapping(file.json(), "log")
    if not isinstance(log.get("entries"), list):
        raise file.fail("this HAR file has no list log.entries")
    add_exchanges(recording, _exchanges(log["entries"], recording))


def _exchanges(entries: list[Any], recording: Recording) -> Iterator[HttpExchange]:
    for entry in entries:
        request, answer = mapping(entry, "request"), mapping(entry, "response")
        url, method, status = word(request, "url"), word(request, "method"), answer.get("status")
        if not (url and method and isinstance(status, int)):
            recording.leave_out("an entry without a method, an address or a status")
            continue
        content = mapping(answer, "content")
        text = word(content, "text")
        if status and content.get("size") and not isinstance(content.get("text"), str):
            recording.leave_out("an answer whose body the writer has left away")
            continue
        try:
            is_coded = content.get("encoding") == "base64"
            body = base64.b64decode(text) if is_coded else text.encode("utf-8", "replace")
        except ValueError:
            recording.leave_out("a body that is no base64")
            continue
        sent = word(request, "postData.text").encode("utf-8", "replace")
        yield HttpExchange(
            HttpRequest(method.upper(), url, _headers(request), sent),
            max(status, 0), _headers(answer), body,
            began_ns=time_ns(at(entry, "startedDateTime")),
            wait_ns=time_ns(at(entry, "timings.wait"), MS),
            took_ns=time_ns(at(entry, "time"), MS),
        )  # fmt: skip


def _headers(part: Any) -> Headers:
    pairs = map(mapping, items(part, "headers"))
    return tuple((str(each.get("name")).lower(), str(each.get("value"))) for each in pairs)

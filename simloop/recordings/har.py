"""HAR 1.2: requests with their times, statuses and lost connections."""

from typing import Any

from simloop.recordings.exchanges import HttpExchange, add_exchanges, from_base64
from simloop.recordings.files import MS, LeftOut, RecordingFile, at, items, mapping, time_ns, word
from simloop.recordings.recording import Recording
from simloop.world.http import Headers, HttpRequest


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of a HAR file. Raises ScenarioError."""
    log = mapping(file.json(), "log")
    if not isinstance(log.get("entries"), list):
        raise file.fail("this HAR file has no list log.entries")
    add_exchanges(recording, log["entries"], _exchange)


def _exchange(entry: Any) -> HttpExchange:
    request, answer = mapping(entry, "request"), mapping(entry, "response")
    url, method, status = word(request, "url"), word(request, "method"), answer.get("status")
    if not (url and method and isinstance(status, int)):
        raise LeftOut("an entry without a method, an address or a status")
    content = mapping(answer, "content")
    text, is_coded = word(content, "text"), content.get("encoding") == "base64"
    if status and content.get("size") and not isinstance(content.get("text"), str):
        raise LeftOut("an answer whose body the writer has left away")
    body = from_base64(text) if is_coded else text.encode("utf-8", "replace")
    sent = word(request, "postData.text").encode("utf-8", "replace")
    return HttpExchange(
        HttpRequest(method.upper(), url, _headers(request), sent),
        max(status, 0), _headers(answer), body, began_ns=time_ns(at(entry, "startedDateTime")),
        wait_ns=time_ns(at(entry, "timings.wait"), MS), took_ns=time_ns(at(entry, "time"), MS),
    )  # fmt: skip


def _headers(part: Any) -> Headers:
    pairs = map(mapping, items(part, "headers"))
    return tuple((str(each.get("name")).lower(), str(each.get("value"))) for each in pairs)

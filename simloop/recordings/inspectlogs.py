"""Logs of inspect_ai: `.eval`, which is a zip of JSON, and `.json`; of each, the first sample."""

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from simloop.recordings import dialects
from simloop.recordings.files import MOST_BYTES, RecordingFile, at, items, mapping, time_ns, word
from simloop.recordings.recording import Beginning, Recording
from simloop.recordings.spans import RecordedSpan, add_spans
from simloop.recordings.vcr import unencoded

_ZSTD = 93  # what inspect compresses with; the standard library reads it from Python 3.14 on
_MARK = re.compile(rb'"(?:attachment|tc)://([^"]*)"')  # the second is that of older logs
_HINT = "write the log with its model events, which inspect does by default"


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of the first sample with model events. Raises ScenarioError."""
    is_zip = file.data.startswith(b"PK\x03\x04")
    samples = _zipped(file) if is_zip else items(mapping(file.json()).get("samples"))
    spans: list[RecordedSpan] = []
    for sample in samples:
        if spans:
            recording.leave_out("a sample after the first: write it to a log of its own")
        else:
            events = items(sample, "events", "transcript.events")
            pool, events = _whole(file, sample, [items(sample, "events_data.messages"), events])
            told = [each for each in map(mapping, events) if each.get("event") in ("model", "tool")]
            spans = [_span({**each, "input": _input(each, pool)}, recording) for each in told]
    add_spans(recording, spans, _HINT)


def _zipped(file: RecordingFile) -> Iterator[Any]:
    left = MOST_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(file.data)) as archive:
            for info in archive.infolist():
                if info.filename.startswith("samples/") and info.filename.endswith(".json"):
                    data = _member(file.data, archive, info, left)
                    left -= len(data)
                    yield msgspec.json.decode(data)
    except Exception as error:  # noqa: BLE001 - a zip can be broken in many ways
        why = "" if left else f", or has over {MOST_BYTES:,} bytes"
        raise file.fail(f"this .eval file cannot be unpacked{why}: {error}") from None


def _member(data: bytes, archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    if info.compress_type != _ZSTD:
        with archive.open(info) as member:
            return member.read(most)
    sizes = data[info.header_offset + 26 : info.header_offset + 30]
    names = int.from_bytes(sizes[:2], "little") + int.from_bytes(sizes[2:], "little")
    start = info.header_offset + 30 + names  # after the header of the member, which has both
    return unencoded(data[start : start + info.compress_size], "zstd")[:most]


def _input(event: Mapping[str, Any], pool: list[Any]) -> Any:
    pairs = [each for each in items(event.get("input_refs")) if isinstance(each, list)]
    places = [each for each in pairs if [type(one) for one in each] == [int, int]]
    parts = [Beginning(pool, len(pool))[max(start, 0) : end] for start, end in places[: len(pool)]]
    is_start = len(parts) == 1 and isinstance(parts[0], Beginning)
    return event.get("input") or (parts[0] if is_start else [*chain.from_iterable(parts)])


def _whole(file: RecordingFile, sample: Any, given: Any) -> Any:
    held = mapping(sample, "attachments").items()
    texts = {name.encode(): msgspec.json.encode(text) for name, text in held}
    data = msgspec.json.encode(given)
    if sum(len(texts.get(found[1], b"")) for found in _MARK.finditer(data)) > MOST_BYTES:
        raise file.fail("its texts are too long when they are in their places")
    return msgspec.json.decode(_MARK.sub(lambda found: texts.get(found[1], found[0]), data))


def _span(event: Mapping[str, Any], recording: Recording) -> RecordedSpan:
    output, raw = event.get("output"), at(event, "call.response")
    told = dialects.reply_of(raw) if isinstance(raw, dict) else None
    retries, error = event.get("retries"), at(event, "error", "output.error")
    if isinstance(retries, int) and 0 < retries < MOST_BYTES:
        recording.leave_out("a failed attempt of which the log has the number alone", retries)
    return RecordedSpan(
        tool=word(event, "function") if event.get("event") == "tool" else "",
        call_id=word(event, "id"), result=event.get("result"), asked=event.get("input"),
        said=raw if told is not None and (told[0].text or told[0].calls) else output,
        finish=told[1] if told is not None else "", tools=event.get("tools"),
        usage=dialects.usage_in(mapping(output).get("usage")), failed=bool(error),
        message=word(error, "message") or (error if isinstance(error, str) else ""),
        began_ns=time_ns(event.get("timestamp")), ended_ns=time_ns(event.get("completed")),
    )  # fmt: skip

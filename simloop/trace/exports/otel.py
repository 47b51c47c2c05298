"""A trace as OpenTelemetry spans with the GenAI attributes, in the JSON encoding of OTLP.

Not here: sending them. The rules to keep: the spans are made from entries alone; ids come from the
digest of the trace and times are virtual, so equal runs have equal spans; and the span of a model
call covers its retries, with an event for each attempt.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simloop.trace.codec import digest, encode
from simloop.trace.entries import AnyEntry, Prompt
from simloop.trace.exports.otel_spans import OtelSpan, RunSpans
from simloop.trace.looptrace import LoopTrace

_ERROR = 2  # the code of a status


def otel(trace: LoopTrace) -> dict[str, Any]:
    """Return the spans of a trace as one OTLP request."""
    key = digest(encode(trace))
    spans: list[dict[str, Any]] = []
    for number, (record, end_ns) in enumerate(_runs(trace), start=1):
        run = RunSpans(trace.header.loop, key)
        for entry in record:
            run.feed(entry)
        run.close(end_ns)
        spans += _identified(run.spans, f"{key} {number}")
    resource = {"attributes": _attributes({"service.name": "simloop"})}
    scope = {"name": "simloop"}
    return {
        "resourceSpans": [
            {"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]},
        ]
    }


def _runs(trace: LoopTrace) -> Iterator[tuple[list[AnyEntry], int]]:
    """Yield the entries of each prompt up to its end, and the time of the last one."""
    record: list[AnyEntry] = []
    for entry in trace.entries:
        if isinstance(entry, Prompt) and record:
            yield record, record[-1].at_ns
            record = []
        record.append(entry)
    if record:
        yield record, record[-1].at_ns


def _identified(spans: Sequence[OtelSpan], key: str) -> Iterator[dict[str, Any]]:
    """Yield the spans of one prompt in JSON: a trace of their own, whose root is the first."""
    trace_id = digest(key.encode())
    ids = [digest(f"{key} {number}".encode())[:16] for number in range(len(spans))]
    for number, (span_id, span) in enumerate(zip(ids, spans, strict=True)):
        made: dict[str, Any] = {"traceId": trace_id, "spanId": span_id}
        if number:
            made["parentSpanId"] = ids[0]
        yield {**made, **_span(span)}


def _span(span: OtelSpan) -> dict[str, Any]:
    failed = "error.type" in span.attributes
    status = {"code": _ERROR, "message": span.error} if failed else {}
    return {
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
        "events": [
            {"name": name, "timeUnixNano": str(at_ns), "attributes": _attributes(given)}
            for name, at_ns, given in span.events
        ],
        "status": status,
    }


def _attributes(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in given.items()]


def _value(value: Any) -> dict[str, Any]:
    """Return a value as OTLP writes it; an integer is text there."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [_value(each) for each in value]}}

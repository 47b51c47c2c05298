"""OpenTelemetry spans of model calls, in each form of file and in each dialect of attributes.

A file is OTLP as JSON or JSON lines, spans as an SDK prints them, rows of Logfire, attributes
alone, or an export of Langfuse, LangSmith or openai-agents, whose rows say the same in other words.
A span covers a call with all its retries, so only a last failure is seen.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from simloop.recordings.dialects import NAMES, parsed, reply_of, unwrapped, usage_in
from simloop.recordings.files import RecordingFile, at, items, mapping, time_ns, word
from simloop.recordings.recording import Recording
from simloop.recordings.spans import RecordedSpan, add_spans

_HINT = (
    "let the agent capture it: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, with "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental for spans; of openai-agents, let "
    "OpenAIChatCompletionsModel write it: a span of the Responses API has only an id"
)
_KNOWN = NAMES["spans"]
_NS_PER_S = 10**9
_DEEPEST = 12
_Told = list[tuple[str, dict[str, Any]]]


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of the spans in a file. Raises ScenarioError."""
    rows, logs = list[dict[str, Any]](), dict[str, list[Any]]()
    for row in _rows_in(file, recording):
        if "body" in row or "timeUnixNano" in row:
            logs.setdefault(word(row, "spanId"), []).append(row)
        else:
            rows.append(row)
    spans: list[RecordedSpan] = []
    for row in rows:
        span = RecordedSpan(id=word(row, *_KNOWN["ids"]), parent=word(row, *_KNOWN["parents"]))
        times = (time_ns(at(row, *each)) for each in _KNOWN["times"])
        span.began_ns, span.first_ns, span.ended_ns = times
        kind = word(row, "run_type", "span_data.type", "type")
        if _read_row(span, row, kind.lower()) or _read_span(span, row, logs.get(span.id, [])):
            spans.append(span)
        elif kind:
            recording.leave_out_type("a record", kind)
        else:
            recording.leave_out("a span that is no call of a model and no run of a tool")
    add_spans(recording, spans, _HINT)


def _rows_in(file: RecordingFile, recording: Recording) -> Iterator[dict[str, Any]]:
    """Yield the records of a file: in groups of OTLP or a store, or alone. Raises ScenarioError."""
    for _, value in file.values():
        if value is None:
            recording.leave_out("a line that is no JSON")
        waiting = [value]
        while waiting:
            each = waiting.pop()
            groups = [mapping(each)[name] for name in _KNOWN["groups"] if items(each, name)]
            waiting += reversed(each if isinstance(each, list) else groups)
            if isinstance(each, dict) and (not groups or "run_type" in each):
                yield each


def _read_row(span: RecordedSpan, row: Mapping[str, Any], kind: str) -> bool:
    asked, said = (parsed(at(row, *paths)) for paths in _KNOWN["row_sides"])
    span.failed = bool(row.get("error")) or row.get("level") == "ERROR"
    if span.failed:
        span.message = str(at(row, *_KNOWN["row_error"])).partition("Traceback (")[0].strip()
    if kind in _KNOWN["tool"]:
        result = unwrapped(mapping(said).get("output", said))
        told = at(row, "outputs.output.tool_call_id", "metadata.tool_call_id")
        span.tool = word(row, "name", "span_data.name") or "tool"
        span.call_id = str(told or result.get("tool_call_id") or "")
        span.result = result.get("content") or said
    span.asked, span.said = asked, said
    span.tools = at(row, "extra.invocation_params.tools") or mapping(asked).get("tools")
    span.usage = usage_in(at(row, *_KNOWN["row_usage"]))
    return kind in (*_KNOWN["model"], *_KNOWN["tool"])


def _read_span(span: RecordedSpan, row: Mapping[str, Any], logs: list[Any]) -> bool:
    attributes = _attributes(parsed(row.get("attributes", row)))
    events = items(parsed(at(row, "events", "otel_events")))
    told = [*map(_event, [*events, *logs, *items(parsed(attributes.get("events")))])]
    for name, details in told:
        if name == "gen_ai.client.inference.operation.details":
            attributes |= details
    attributes = _nested(attributes)
    code = at(row, "status.code", "status.status_code", "otel_status_code")
    wrong = at(attributes, "http.response.status_code", "error.type")
    raised = dict(told).get("exception", {})  # the last of several
    if code == 2 or "ERROR" in str(code) or wrong or raised:  # noqa: PLR2004 - OTLP's number of it
        span.failed, span.error = True, str(wrong or word(raised, "exception.type"))[:200]
        span.message = word({**row, **raised}, *_KNOWN["messages"])
    kind = word(attributes, "gen_ai.operation.name", "openinference.span.kind").lower()
    if kind in _KNOWN["tool"]:
        span.tool = word(attributes, "gen_ai.tool.name", "tool.name") or "tool"
        span.call_id = word(attributes, "gen_ai.tool.call.id", "tool_call.id")
        span.result = at(attributes, *_KNOWN["results"])
        return True
    model = None if kind else at(attributes, "gen_ai.request.model", "gen_ai.prompt.0.role")
    if is_model := bool(model) or kind in _KNOWN["model"]:
        _read_model(span, attributes, told)
    return is_model


def _value(value: Any) -> Any:
    if "arrayValue" in mapping(value):
        return [_value(each) for each in items(value, "arrayValue.values")]
    if "kvlistValue" in mapping(value):
        return _attributes(at(value, "kvlistValue.values"))
    if "intValue" in mapping(value):
        return parsed(value["intValue"])
    return next(iter(value.values()), None) if isinstance(value, dict) else value


def _attributes(given: Any) -> dict[str, Any]:
    named = {word(each, "key"): _value(mapping(each).get("value")) for each in items(given)}
    return {**mapping(given), **named}


def _event(given: Any) -> tuple[str, dict[str, Any]]:
    attributes = _attributes(at(given, "attributes", "event_attributes"))
    # Logfire's old attribute `events` has events that are their body.
    body = mapping(given).get("body", {} if attributes else given)
    held = mapping(_value(body) if "kvlistValue" in mapping(body) else parsed(body))
    name = word(given, "name", "eventName", "event_name", "event.name")
    inside = mapping(parsed(attributes.get("gen_ai.event.content")))
    return name or word(attributes, "event.name"), {**attributes, **inside, **held}


def _read_model(span: RecordedSpan, attributes: Mapping[str, Any], told: _Told) -> None:
    asked = [
        {"role": name.split(".")[1], **each}
        for name, each in told
        if name.startswith("gen_ai.") and name.endswith(".message")
    ]
    said = [each for name, each in told if name == "gen_ai.choice"]
    sent, more = (parsed(attributes.get(each)) for each in _KNOWN["inside"])
    whole = {**attributes, "asked": asked, "said": said, "sent": sent, "more": more}
    span.asked, span.said = (at(whole, *paths) for paths in _KNOWN["sides"])
    span.system = attributes.get("gen_ai.system_instructions")
    span.tools = at(whole, *_KNOWN["tools"])
    beside = reply_of(said or attributes.get("output.value"))
    words = items(parsed(attributes.get("gen_ai.response.finish_reasons")))
    span.finish = word(words, "0") or (beside[1] if beside else "")
    span.usage = usage_in(at(attributes, "gen_ai.usage", "llm.token_count"))
    waited = attributes.get("gen_ai.response.time_to_first_chunk")
    if isinstance(waited, int | float) and span.began_ns is not None and 0 <= waited < _NS_PER_S:
        span.first_ns = span.began_ns + round(waited * _NS_PER_S)


def _nested(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with flat ones such as `llm.input_messages.0.message.role` as lists too."""
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        *path, last = name.split(".", _DEEPEST)
        node: Any = tree
        for each in path:
            node = node.setdefault(each, {}) if isinstance(node, dict) else None
        if isinstance(node, dict) and path:
            node.setdefault(last, value)
    return {**{name: _in_lists(node) for name, node in tree.items()}, **attributes}


def _in_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    inner = {name: _in_lists(each) for name, each in node.items()}
    if inner and all(name.isdecimal() for name in inner):
        return [inner[name] for name in sorted(inner, key=lambda name: (len(name), name))]
    return inner

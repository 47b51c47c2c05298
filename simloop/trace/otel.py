"""A trace as OpenTelemetry spans with the GenAI attributes, in the JSON encoding of OTLP.

Ids come from the digest of the trace and times are virtual, so equal runs have equal spans.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import msgspec
from msgspec import Struct

from simloop import messages
from simloop.messages import Outcome
from simloop.trace import entries
from simloop.trace.codec import digest, encode
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import is_failure
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests

INTERNAL, CLIENT = 1, 3
_NS_PER_S = 1_000_000_000
_PROVIDER = "simloop"
_MODEL = "scripted"
_ERROR = 2  # the code of a status


class OtelSpan(Struct):
    """One span that grows until it is closed."""

    name: str
    kind: int
    start_ns: int
    attributes: dict[str, Any]
    end_ns: int | None = None
    events: list[tuple[str, int, Mapping[str, Any]]] = []
    error: str = ""

    def add(self, event: str, at_ns: int, /, **attributes: Any) -> None:
        named = {f"{event}.{key}": value for key, value in attributes.items()}
        self.events.append((event, at_ns, named))

    def close(self, at_ns: int, error_type: str = "", message: str = "") -> None:
        self.end_ns = at_ns
        self.error = message
        if error_type:
            self.attributes["error.type"] = error_type


class RunSpans:
    """The spans of one prompt: the first is that of the agent, and the parent of the others."""

    def __init__(self, loop: str, conversation: str, sent: Mapping[int, messages.Request]) -> None:
        given = {
            "gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": _PROVIDER,
            "gen_ai.agent.name": loop, "gen_ai.conversation.id": conversation,
        }  # fmt: skip
        self.agent = OtelSpan(f"invoke_agent {loop}", INTERNAL, 0, given)
        self.spans = [self.agent]
        self._sent = sent
        self._calls: dict[int, _ModelCall] = {}  # by the number of a request
        self._open: dict[tuple[str, object], list[OtelSpan]] = {}  # by kind and number, or id

    def feed(self, entry: AnyEntry) -> None:
        given: dict[str, Any]
        at_ns = entry.at_ns
        match entry:
            case entries.Prompt(text=text):
                self.agent.start_ns = at_ns
                self.agent.attributes["gen_ai.input.messages"] = _messages("user", _text(text))
            case entries.Request():
                begun = self._calls[entry.number] = _ModelCall(entry, self._sent[entry.number])
                self.spans.append(begun.span)
            case entries.ToolStarted(name=name):
                given = {
                    "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
                    "gen_ai.tool.type": "function", "gen_ai.tool.call.id": entry.call_id,
                    "gen_ai.tool.call.arguments": entry.arguments,
                }  # fmt: skip
                span = OtelSpan(f"execute_tool {name}", INTERNAL, at_ns, given)
                self._begin("tool", entry.call_id, span)
            case entries.ServiceRequest(method=method):
                given = {"http.request.method": method, "url.full": f"{entry.service}{entry.path}"}
                self._begin("service", entry.number, OtelSpan(method, CLIENT, at_ns, given))
            case entries.ProgramStarted(args=args):
                name = "".join(args[:1]).rpartition("/")[2]
                given = {"process.executable.name": name, "process.command_line": shlex.join(args)}
                self._begin("program", entry.number, OtelSpan(name, INTERNAL, at_ns, given))
            case entries.ToolResult() | entries.ServiceReply() | entries.ProgramEnded():
                self._end(entry)
            case entries.Ended():
                self._ended(entry)
            case entries.Backoff(delay_ns=delay_ns):
                self.agent.add("simloop.backoff", at_ns, delay_s=delay_ns / _NS_PER_S)
            case entries.Compaction(forced=forced, tokens_before=before, tokens_after=after):
                given = {"forced": forced, "tokens_before": before, "tokens_after": after}
                self.agent.add("simloop.compaction", at_ns, **given)
            case entries.StopRequested(cause=cause):
                self.agent.add("simloop.stop", at_ns, cause=str(cause))
            case entries.Queued(text=text, queue=queue):
                self.agent.add("simloop.queued", at_ns, queue=str(queue), text=text)
            case entries.Hook(hook=hook, result=result) if result != "ok":
                self.agent.add("simloop.hook", at_ns, name=hook, result=result)
            case _ if (call := self._calls.get(getattr(entry, "request", 0))) is not None:
                call.receive(entry)

    def _begin(self, kind: str, key: object, span: OtelSpan) -> None:
        self.spans.append(span)
        self._open.setdefault((kind, key), []).append(span)

    def _end(self, entry: entries.ToolResult | entries.ServiceReply | entries.ProgramEnded) -> None:
        key: tuple[str, object]
        value: str | int
        error = message = ""
        match entry:
            case entries.ToolResult(text=text):
                key, attribute, value = ("tool", entry.call_id), "gen_ai.tool.call.result", text
                if entry.is_error:
                    error, message = "tool_error", text
            case entries.ServiceReply(status=status, failure=message):
                key, attribute = ("service", entry.request), "http.response.status_code"
                value, error = status, message or (str(status) if is_failure(entry) else "")
            case entries.ProgramEnded(exit=value):
                key, attribute = ("program", entry.program), "process.exit.code"
                error = str(value) if value else ""
        if begun := self._open.get(key):
            span = begun.pop(0)
            if value or key[0] != "service":
                span.attributes[attribute] = value
            span.close(entry.at_ns, error, message)

    def _ended(self, entry: entries.Ended) -> None:
        self.agent.attributes["simloop.outcome"] = str(entry.outcome)
        if entry.text:
            said = _messages("assistant", _text(entry.text), finish_reason=str(entry.outcome))
            self.agent.attributes["gen_ai.output.messages"] = said
        failure = () if entry.outcome is Outcome.COMPLETED else (str(entry.outcome), entry.message)
        self.agent.close(entry.at_ns, *failure)

    def close(self, at_ns: int) -> None:
        """Close the spans that have no end of their own: their run was stopped, or is cut off."""
        why = self.agent.attributes.get("simloop.outcome", "unfinished")
        for span in self.spans:
            if span.end_ns is None:
                span.close(at_ns, why, "it has no end of its own")


class _ModelCall:
    def __init__(self, entry: entries.Request, sent: messages.Request) -> None:
        self._sent_ns = entry.at_ns
        self._has_begun = False
        self._parts: list[Mapping[str, Any]] = []
        given = {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": _PROVIDER,
            "gen_ai.request.model": _MODEL, "gen_ai.request.stream": True,
            "simloop.purpose": entry.purpose, "simloop.request": entry.number,
        }  # fmt: skip
        if entry.party:
            given["gen_ai.agent.name"] = entry.party
        if sent.system_prompt:
            given["gen_ai.system_instructions"] = json.dumps([_text(sent.system_prompt)])
        if sent.tools:
            given["gen_ai.tool.definitions"] = json.dumps([*map(definition, sent.tools)])
        given["gen_ai.input.messages"] = json.dumps([*map(_input, sent.messages)])
        self.span = OtelSpan(f"chat {_MODEL}", CLIENT, entry.at_ns, given)

    def receive(self, entry: AnyEntry) -> None:
        if not self._has_begun:
            self._has_begun = True
            waited = (entry.at_ns - self._sent_ns) / _NS_PER_S
            self.span.attributes["gen_ai.response.time_to_first_chunk"] = waited
        match entry:
            case entries.TextDelta(text=text) | entries.ReasoningDelta(text=text):
                kind = "text" if isinstance(entry, entries.TextDelta) else "reasoning"
                self._parts.append({"type": kind, "content": text})
            case entries.ToolCall(call_id=call_id, name=name, arguments=arguments):
                self._parts.append(_call(messages.ToolCall(call_id, name, arguments)))
            case entries.Finish():
                attributes = self.span.attributes
                attributes["gen_ai.response.finish_reasons"] = [entry.raw or str(entry.reason)]
                if entry.usage is not None:
                    attributes["gen_ai.usage.input_tokens"] = entry.usage.input_tokens
                    attributes["gen_ai.usage.output_tokens"] = entry.usage.output_tokens
                self._say(str(entry.reason))
                self.span.close(entry.at_ns)
            case entries.Error(fault=fault):
                status = str(fault.status) if isinstance(fault.status, int) else ""
                self._say("error")
                self.span.close(entry.at_ns, status or fault.code or "_OTHER", fault.message)
            case entries.StreamCut():
                self._say("error")
                self.span.close(entry.at_ns, "stream_cut", "the stream ended without a finish")

    def _say(self, finish: str) -> None:
        if self._parts or finish != "error":
            said = _messages("assistant", *_joined(self._parts), finish_reason=finish)
            self.span.attributes["gen_ai.output.messages"] = said


def _text(text: str) -> Mapping[str, Any]:
    return {"type": "text", "content": text}


def _joined(parts: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for kind, pieces in groupby(parts, key=itemgetter("type")):
        if kind == "tool_call":
            yield from pieces
        else:
            yield {"type": kind, "content": "".join(piece["content"] for piece in pieces)}


def definition(tool: messages.ToolSpec) -> dict[str, Any]:
    """Return a tool with its schema, as most formats name its parts."""
    described = {"name": tool.name, "description": tool.description}
    return {"type": "function", **described, "parameters": msgspec.json.decode(tool.parameters)}


def _input(message: messages.Message) -> dict[str, Any]:
    match message:
        case messages.ToolMessage(call_id, text):
            answer = {"type": "tool_call_response", "id": call_id, "response": text}
            return {"role": "tool", "parts": [answer]}
        case messages.AssistantMessage(text, calls):
            said = [_text(text)] if text or not calls else []
            return {"role": "assistant", "parts": [*said, *map(_call, calls)]}
        case _:
            return {"role": "user", "parts": [_text(message.text)]}


def _call(call: messages.ToolCall) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}


def _messages(role: str, *parts: Mapping[str, Any], finish_reason: str = "") -> str:
    message: dict[str, Any] = {"role": role, "parts": parts}
    if finish_reason:
        message["finish_reason"] = finish_reason
    return json.dumps([message])


def otel(trace: LoopTrace) -> dict[str, Any]:
    """Return the spans of a trace as one OTLP request."""
    key = digest(encode(trace))
    sent = {request.number: request for request in requests(trace.entries)}
    spans: list[dict[str, Any]] = []
    starts = [place for place, entry in enumerate(trace.entries) if type(entry) is entries.Prompt]
    for number, (start, end) in enumerate(pairwise((*starts, len(trace.entries))), start=1):
        record = trace.entries[start:end]
        run = RunSpans(trace.header.loop, key, sent)
        for entry in record:
            run.feed(entry)
        run.close(record[-1].at_ns)
        spans += _identified(run.spans, f"{key} {number}")
    resource = {"attributes": _attributes({"service.name": "simloop"})}
    scoped = {"scope": {"name": "simloop"}, "spans": spans}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}


def _identified(spans: Sequence[OtelSpan], key: str) -> Iterator[dict[str, Any]]:
    trace_id = digest(key.encode())
    ids = [digest(f"{key} {number}".encode())[:16] for number in range(len(spans))]
    for number, (span_id, span) in enumerate(zip(ids, spans, strict=True)):
        failed = "error.type" in span.attributes
        yield {
            "traceId": trace_id, "spanId": span_id,
            **({"parentSpanId": ids[0]} if number else {}), "name": span.name, "kind": span.kind,
            "startTimeUnixNano": str(span.start_ns), "endTimeUnixNano": str(span.end_ns),
            "attributes": _attributes(span.attributes),
            "events": [{"name": name, "timeUnixNano": str(at_ns), "attributes": _attributes(given)}
                       for name, at_ns, given in span.events],
            "status": {"code": _ERROR, "message": span.error} if failed else {},
        }  # fmt: skip


def _attributes(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in given.items()]


def _value(value: Any) -> dict[str, Any]:
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

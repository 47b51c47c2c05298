"""Replies written in each wire format, and small readers of them, as a client would have."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from simloop.messages import (
    Finish,
    FinishReason,
    Message,
    Part,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    Usage,
    UserMessage,
)
from simloop.wire import formats
from simloop.wire.formats.replies import WireFormat
from simloop.wire.formats.storage import Storage
from simloop.wire.formats.wire_format import Stamp, WireEvent, WireRequest
from simloop.world.http import HttpRequest
from simloop.world.wire_options import WireOptions

MODEL = "sim-1"
CREATED_S = 1_000_000_000
STAMP = Stamp(3, CREATED_S)
Json = dict[str, Any]
CALL, OTHER = ToolCall("call-1", "look", '{"at":1}'), ToolCall("call-2", "look", '{"at":2}')
STOP, CALLS = Finish(FinishReason.STOP, "stop"), Finish(FinishReason.TOOL_CALLS, "tool-calls")
REPLY: tuple[Part, ...] = (
    ReasoningDelta("Hm"), TextDelta("So"), ToolCallDelta("call-1", "look", '{"a'),
    ToolCallPart(CALL), ToolCallPart(OTHER), Finish(CALLS.reason, CALLS.raw, Usage(11, 7)),
)  # fmt: skip
"""A reply with a part of each kind."""
USER: Json = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"at": {"type": "integer"}}}
CANONICAL = b'{"properties":{"at":{"type":"integer"}},"type":"object"}'
"""The schema above as it is read."""
ANYTHING = b'{"type":"object"}'
"""The schema of a tool that states none."""


class RequestCases(NamedTuple):
    """What the bodies of requests in one format are read as, and which bodies are refused."""

    read: Mapping[str, tuple[Json, str, list[Message]]]
    """A body, its system prompt and its messages."""
    tools: tuple[Json, list[tuple[str, str, bytes]]]
    """A body, and the name, the description and the schema of each of its tools."""
    streams: Sequence[tuple[Json, bool, bool]]
    """A body, whether it asks for a stream, and whether it asks for the usage in it."""
    refused: Mapping[str, tuple[Json, str, str]]
    """A body, the key at fault, and a part of the provider's words."""


def wire_formats(options: WireOptions | None = None) -> dict[str, WireFormat]:
    """Return all formats by their names, as the provider writes them."""
    made = [make(options or WireOptions(), Storage()) for make in formats.FORMATS]
    return {each.name: each for each in made}


FORMATS = wire_formats()


def asked(*, streams: bool = True, reports_usage: bool = True) -> WireRequest:
    """Return a request that asks for a reply."""
    return WireRequest(MODEL, "", (UserMessage("hi"),), (), streams, reports_usage)


URLS: Mapping[str, tuple[str, str]] = {
    "gemini": (
        f"https://host/v1/models/{MODEL}:generateContent",
        f"https://host/v1/models/{MODEL}:streamGenerateContent?alt=sse",
    ),
    "bedrock": (
        f"https://host/model/{MODEL}/converse", f"https://host/model/{MODEL}/converse-stream",
    ),
}  # fmt: skip
"""The addresses for whole replies and for streams of the formats that have them apart."""


def sent(body: Any, name: str = "", *, streams: bool = False) -> HttpRequest:
    """Return a request with that body, in the format of that name."""
    url = URLS.get(name, ("https://host",) * 2)[streams]
    return HttpRequest("POST", url, (), json.dumps(body).encode())


def ahead(parts: Sequence[Part]) -> Finish | None:
    """Return the finish that the endpoint sees ahead."""
    last = parts[-1] if parts else None
    return last if isinstance(last, Finish) else None


def streamed(form: WireFormat, parts: Sequence[Part], *, usage: bool = True) -> list[WireEvent]:
    """Return the events of a reply that streams."""
    writer = form.encoder(asked(reports_usage=usage), STAMP)
    events = [*writer.begin(ahead(parts))]
    for part in parts:
        events += writer.feed(part)
    return events


def whole(form: WireFormat, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the body of a reply that does not stream."""
    writer = form.encoder(asked(streams=False), STAMP)
    writer.begin(ahead(parts))
    for part in parts:
        writer.feed(part)
    body: dict[str, Any] = json.loads(writer.whole())
    return body


def data(events: Iterable[WireEvent]) -> list[Any]:
    """Return the data of events as JSON, or as text where it is none."""
    return [one.data if one.data == "[DONE]" else json.loads(one.data) for one in events]


def read_events(stream: bytes) -> list[WireEvent]:
    """Read events as the standard of server-sent events says."""
    lines = re.split("\r\n|\n|\r", stream.decode("utf-8-sig"))
    events, name, value_of_data = [], "", ""
    for line in [*lines, ""]:  # the end of the stream counts as the end of an event
        name_of_field, _, value = line.partition(":")
        if not line and value_of_data:
            events.append(WireEvent(name, value_of_data))
        if not line:
            name = value_of_data = ""
        name = value.removeprefix(" ") if name_of_field == "event" else name
        value_of_data = value.removeprefix(" ") if name_of_field == "data" else value_of_data
    return events


@dataclass
class Heard:
    """A reply as a client has it: its texts, its calls by their place, its end, its tokens."""

    text: str = ""
    refusal: str = ""
    reasoning: str = ""
    calls: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    ending: str | None = None
    tokens: tuple[int, int] | None = None

    def grow(self, place: int, piece: str) -> None:
        """Add a piece to the arguments of a call."""
        call_id, name, arguments = self.calls[place]
        self.calls[place] = call_id, name, arguments + piece

    def in_order(self) -> list[tuple[str, str, str]]:
        """Return the calls by their place."""
        return [self.calls[place] for place in sorted(self.calls)]


def hear_chat(events: Sequence[WireEvent]) -> Heard:
    """Read a stream of Chat Completions."""
    heard = Heard()
    for chunk in data(events):
        if chunk == "[DONE]":
            break
        usage = chunk.get("usage")
        if usage:
            heard.tokens = usage["prompt_tokens"], usage["completion_tokens"]
        for choice in chunk["choices"]:
            delta = choice["delta"]
            heard.text += delta.get("content") or ""
            heard.refusal += delta.get("refusal") or ""
            heard.reasoning += delta.get("reasoning_content") or ""
            heard.ending = choice["finish_reason"] or heard.ending
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    heard.calls[call["index"]] = call["id"], call["function"]["name"], ""
                heard.grow(call["index"], call["function"]["arguments"])
    return heard


def hear_whole_chat(body: Mapping[str, Any]) -> Heard:
    """Read a completion."""
    (choice,) = body["choices"]
    message, usage = choice["message"], body.get("usage")
    calls = [
        (one["id"], one["function"]["name"], one["function"]["arguments"])
        for one in message.get("tool_calls", ())
    ]
    return Heard(
        message["content"] or "",
        message["refusal"] or "",
        message.get("reasoning_content", ""),
        dict(enumerate(calls)),
        choice["finish_reason"],
        usage and (usage["prompt_tokens"], usage["completion_tokens"]),
    )


def hear_responses(events: Sequence[WireEvent]) -> Heard:
    """Read a stream of Responses, and check that what is done is what has grown."""
    heard = Heard()
    for number, event in enumerate(data(events)):
        assert event["sequence_number"] == number
        match event["type"]:
            case "response.output_text.delta":
                heard.text += event["delta"]
            case "response.refusal.delta":
                heard.refusal += event["delta"]
            case "response.reasoning_summary_text.delta":
                heard.reasoning += event["delta"]
            case "response.output_item.added" if event["item"]["type"] == "function_call":
                item = event["item"]
                heard.calls[event["output_index"]] = item["call_id"], item["name"], ""
            case "response.function_call_arguments.delta":
                heard.grow(event["output_index"], event["delta"])
            case "response.function_call_arguments.done":
                assert heard.calls[event["output_index"]][2] == event["arguments"]
            case "response.completed" | "response.incomplete" | "response.failed":
                last = hear_whole_responses(event["response"])
                assert last.in_order() == heard.in_order()
                assert (last.text, last.refusal) == (heard.text, heard.refusal)
                assert last.reasoning == heard.reasoning
                heard.ending, heard.tokens = last.ending, last.tokens
    return heard


def hear_whole_responses(body: Mapping[str, Any]) -> Heard:
    """Read a response."""
    heard = Heard()
    for place, item in enumerate(body["output"]):
        if item["type"] == "function_call":
            heard.calls[place] = item["call_id"], item["name"], item["arguments"]
        for part in item.get("summary", ()):
            heard.reasoning += part["text"]
        for part in item.get("content", ()):
            heard.text += part.get("text", "")
            heard.refusal += part.get("refusal", "")
    usage, details = body["usage"], body["incomplete_details"]
    heard.tokens = usage and (usage["input_tokens"], usage["output_tokens"])
    heard.ending = details["reason"] if details else body["status"]
    return heard


def hear_messages(events: Sequence[WireEvent]) -> Heard:
    """Read a stream of Anthropic Messages, and check that each block starts, grows and stops."""
    heard, is_open = Heard(), set()
    for event in data(events):
        match event["type"]:
            case "content_block_start":
                block, place = event["content_block"], event["index"]
                is_open.add(place)
                if block["type"] == "tool_use":
                    heard.calls[place] = block["id"], block["name"], ""
            case "content_block_delta":
                assert event["index"] in is_open
                delta = event["delta"]
                heard.text += delta.get("text", "")
                heard.reasoning += delta.get("thinking", "")
                if "partial_json" in delta:
                    heard.grow(event["index"], delta["partial_json"])
            case "content_block_stop":
                is_open.remove(event["index"])
            case "message_delta":
                assert not is_open
                heard.ending, usage = event["delta"]["stop_reason"], event["usage"]
                heard.tokens = usage["input_tokens"], usage["output_tokens"]
    return heard


def hear_whole_messages(body: Mapping[str, Any]) -> Heard:
    """Read a message; the arguments of its calls are values, written here as JSON again."""
    heard = Heard(ending=body["stop_reason"])
    for place, block in enumerate(body["content"]):
        heard.text += block.get("text", "")
        heard.reasoning += block.get("thinking", "")
        if block["type"] == "tool_use":
            arguments = json.dumps(block["input"], separators=(",", ":"), ensure_ascii=False)
            heard.calls[place] = block["id"], block["name"], arguments
    heard.tokens = body["usage"]["input_tokens"], body["usage"]["output_tokens"]
    return heard


def hear_gemini(events: Sequence[WireEvent]) -> Heard:
    """Read a stream of Gemini: each event is a whole reply, and the last has the end."""
    heard = Heard()
    for body in data(events):
        hear_whole_gemini(body, heard)
    return heard


def hear_whole_gemini(body: Mapping[str, Any], into: Heard | None = None) -> Heard:
    """Read a reply of Gemini; the arguments of its calls are values, written here as JSON again."""
    heard = into or Heard()
    for candidate in body.get("candidates", ()):
        for part in candidate["content"].get("parts", ()):
            if "functionCall" in part:
                call = part["functionCall"]
                arguments = json.dumps(call["args"], separators=(",", ":"), ensure_ascii=False)
                heard.calls[len(heard.calls)] = call["id"], call["name"], arguments
            elif part.get("thought"):
                heard.reasoning += part["text"]
            else:
                heard.text += part["text"]
        heard.ending = candidate.get("finishReason", heard.ending)
    if "promptFeedback" in body:
        heard.ending = body["promptFeedback"]["blockReason"]
    usage = body.get("usageMetadata")
    if usage is not None:
        heard.tokens = usage["promptTokenCount"], usage["candidatesTokenCount"]
    return heard


def hear_bedrock(events: Sequence[WireEvent]) -> Heard:
    """Read a stream of ConverseStream, and check that each block that grows stops once."""
    heard, stopped = Heard(), set()
    for (name, _), event in zip(events, data(events), strict=True):
        place = event.get("contentBlockIndex")
        assert place not in stopped
        match name:
            case "contentBlockStart":
                use = event["start"]["toolUse"]
                heard.calls[place] = use["toolUseId"], use["name"], ""
            case "contentBlockDelta":
                delta = event["delta"]
                heard.text += delta.get("text", "")
                heard.reasoning += delta.get("reasoningContent", {}).get("text", "")
                if "toolUse" in delta:
                    heard.grow(place, delta["toolUse"]["input"])
            case "contentBlockStop":
                stopped.add(place)
            case "messageStop":
                heard.ending = event["stopReason"]
            case "metadata":
                heard.tokens = event["usage"]["inputTokens"], event["usage"]["outputTokens"]
    return heard


def hear_whole_bedrock(body: Mapping[str, Any]) -> Heard:
    """Read a reply of Converse; the arguments of its calls are values, written as JSON again."""
    heard = Heard(ending=body["stopReason"])
    for place, block in enumerate(body["output"]["message"]["content"]):
        heard.text += block.get("text", "")
        heard.reasoning += (
            block.get("reasoningContent", {}).get("reasoningText", {}).get("text", "")
        )
        if "toolUse" in block:
            use = block["toolUse"]
            arguments = json.dumps(use["input"], separators=(",", ":"), ensure_ascii=False)
            heard.calls[place] = use["toolUseId"], use["name"], arguments
    heard.tokens = body["usage"]["inputTokens"], body["usage"]["outputTokens"]
    return heard


STREAMS: Mapping[str, Callable[[Sequence[WireEvent]], Heard]] = {
    "openai-chat": hear_chat,
    "openai-responses": hear_responses,
    "anthropic-messages": hear_messages,
    "gemini": hear_gemini,
    "bedrock": hear_bedrock,
}
BODIES: Mapping[str, Callable[[Mapping[str, Any]], Heard]] = {
    "openai-chat": hear_whole_chat,
    "openai-responses": hear_whole_responses,
    "anthropic-messages": hear_whole_messages,
    "gemini": hear_whole_gemini,
    "bedrock": hear_whole_bedrock,
}

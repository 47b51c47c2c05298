"""Gemini, of Google's developer API and of Vertex AI.

The path names the model. A stream has unnamed events, each of the shape of a whole reply, and none
that says that it is over. Calls come whole, with their arguments as values: where a script has a
text that is no object, the provider finds it malformed, and sends no call. A prompt that is blocked
has no candidate. Shapes: ai.google.dev/api/generate-content; google-genai 3.6, 2.34.
"""

import base64
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from simloop import messages as values
from simloop.messages import json_value
from simloop.wire.formats import payload, replies
from simloop.wire.formats.payload import JsonObject
from simloop.wire.formats.replies import OVERFLOW, BlockChange
from simloop.wire.formats.wire_format import Stamp, WireEvent, WireReply, WireRequest, WrongRequest
from simloop.world.http import HttpRequest


@dataclass(frozen=True, slots=True)
class Gemini(replies.WireFormat):
    """The format of `:generateContent`, `:streamGenerateContent` and `:countTokens`."""

    name: ClassVar[str] = "gemini"
    hosts: ClassVar[str] = r"generativelanguage\.googleapis\.com|(.+-)?aiplatform\.googleapis\.com"
    path: ClassVar[str] = "/models/MODEL:generateContent"
    paths: ClassVar[str] = (
        r"/(?:models|tunedModels|endpoints)/([^/:]+):(generateContent|streamGenerateContent|countTokens)"
    )
    pages: ClassVar[Collection[int]] = (502,)

    def read(self, request: HttpRequest) -> WireRequest:
        ((model, how),) = re.findall(f"{self.paths}$", request.path)
        if how == "streamGenerateContent" and request.query.get("alt") != "sse":
            raise WrongRequest("alt", "simloop streams with alt=sse alone.", is_limit=True)
        body = _fields(payload.body_of(request))
        inner = payload.object_at(body, "generateContentRequest", "")  # of countTokens
        system, messages = _read_contents(_fields(inner) or body)
        return WireRequest(
            model, system, messages, tuple(_read_tools(_fields(inner) or body)),
            streams=how == "streamGenerateContent",
            size_reply='{"totalTokens": %d}' if how == "countTokens" else "",
            output=_output(_fields(payload.object_at(body, "generationConfig", ""))),
        )  # fmt: skip

    def joined(self, events: Iterable[JsonObject]) -> JsonObject:
        whole: dict[str, Any] = {}
        parts: list[Any] = []
        finish = None
        for event in events:
            names = ("usageMetadata", "promptFeedback", "error")
            whole |= {name: event[name] for name in names if name in event}
            for key, candidate in payload.objects_at(event, "candidates"):
                parts += payload.list_at(payload.object_at(candidate, "content", key), "parts", key)
                finish = candidate.get("finishReason") or finish
        return {**whole, "candidates": [{"content": {"parts": parts}, "finishReason": finish}]}

    def reply(self, body: JsonObject) -> WireReply:
        key, candidate = next(payload.objects_at(body, "candidates"), ("candidates", {}))
        content = payload.object_at(candidate, "content", key)
        blocked = payload.object_at(body, "promptFeedback", "")
        message = _read_model(_parts(content, key), 0)
        finish = payload.text_at(candidate, "finishReason", key)
        if finish == "STOP" and message.calls:  # the provider has no word of its own for calls
            finish = "tool-calls"
        counts = payload.object_at(body, "usageMetadata", "")
        return WireReply(
            message, finish or payload.text_at(blocked, "blockReason", ""),
            payload.usage_of(counts, "promptTokenCount", "candidatesTokenCount"),
        )  # fmt: skip

    def encoder(self, request: WireRequest, stamp: Stamp) -> "_ContentEncoder":
        return _ContentEncoder(self, request, stamp)

    def error_body(self, fault: values.Fault, number: int) -> JsonObject:  # noqa: ARG002 - the class above has it
        """Return the body of an error, whose details have a code that is no status, and a hint."""
        code, status, details = fault.code, replies.status_of(fault), list[JsonObject]()
        words = replies.words_of(fault, _ERRORS, "UNKNOWN", "UNKNOWN")
        is_type = code in _TYPES or fault.code_is_type
        if code and not is_type and code != OVERFLOW:
            reason = {"reason": code, "domain": "googleapis.com"}
            details.append({"@type": f"{_DETAIL}ErrorInfo", **reason})
        wait = fault.header("retry-after") or ""
        if re.fullmatch(r"\d+(\.\d+)?", wait):
            details.append({"@type": f"{_DETAIL}RetryInfo", "retryDelay": f"{wait}s"})
        message, word = replies.message_of(fault, words), code if is_type else words.type
        error = {"code": status, "message": message, "status": word}
        return {"error": error | ({"details": details} if details else {})}


_ERRORS = replies.error_words("gemini")
_TYPES = {words.type for words in _ERRORS.values()}
_DETAIL = "type.googleapis.com/google.rpc."
_refused = partial(payload.refusal, "gemini")
_PLACE = "* GenerateContentRequest."
_RESULTS = ({"output"}, {"result"}, {"error"})
"""The responses that are one value, as the SDK writes them."""


def _fields(given: JsonObject) -> dict[str, Any]:
    """Return an object with its keys in camel case: the provider takes both spellings."""
    return {re.sub(r"_([a-z])", lambda one: one[1].upper(), key): given[key] for key in given}


def _parts(content: JsonObject, key: str) -> list[tuple[str, dict[str, Any]]]:
    return [(place, _fields(part)) for place, part in payload.objects_at(content, "parts", key)]


def _read_contents(body: JsonObject) -> tuple[str, tuple[values.Message, ...]]:
    messages: list[values.Message] = []
    calls: list[values.ToolCall] = []
    unanswered: list[values.ToolCall] = []
    for key, content in payload.objects_at(body, "contents"):
        role, parts = payload.text_at(content, "role", key), _parts(content, key)
        if not parts:
            raise _refused("empty", key=f"{_PLACE}{key}.parts")
        last = messages[-1] if messages else None
        if role == "model":
            reply = _read_model(parts, len(calls))
            calls += reply.calls
            if isinstance(last, values.AssistantMessage):  # a client keeps the pieces of a stream
                del messages[-1]
                text, reasoning = last.text + reply.text, last.reasoning + reply.reasoning
                reply = values.AssistantMessage(text, last.calls + reply.calls, reasoning)
            elif unanswered:
                raise _refused("missing")
            messages.append(reply)
            unanswered = [*reply.calls]
        elif role in ("user", "function", ""):
            messages += _read_user(parts, unanswered)
        else:
            raise _refused("role")
    if unanswered:
        raise _refused("missing")
    if not messages:
        raise _refused("no messages", key=f"{_PLACE}contents")
    instruction = payload.object_at(body, "systemInstruction", "")
    system = [_text(*each) for each in _parts(instruction, "systemInstruction")]
    return "\n".join(system), tuple(messages)


def _text(key: str, part: JsonObject) -> str:
    if "text" in part:
        return payload.text_at(part, "text", key)
    for name in ("inlineData", "fileData"):
        if name in part:
            data = _fields(payload.object_at(part, name, key))
            kind = payload.text_at(data, "mimeType", key).partition("/")[0]
            return f"[{kind if kind in ('image', 'audio', 'video') else 'file'}]"
    return f"[{next((name for name in part if not name.startswith('thought')), 'part')}]"


def _read_model(parts: Sequence[tuple[str, JsonObject]], before: int) -> values.AssistantMessage:
    text = reasoning = ""
    calls: list[values.ToolCall] = []
    for key, part in parts:
        if "functionCall" in part:
            call = payload.object_at(part, "functionCall", key)
            given = payload.object_text(payload.object_at(call, "args", key), f"{key}.args")
            # Only some models name their calls: the others get the names that scripts give.
            name = payload.text_at(call, "id", key) or f"call-{before + len(calls) + 1}"
            calls.append(values.ToolCall(name, payload.text_at(call, "name", key), given))
        elif part.get("thought") is True:
            reasoning += _text(key, part)
        else:
            text += _text(key, part)
    return values.AssistantMessage(text, tuple(calls), reasoning)


def _read_user(
    parts: Sequence[tuple[str, JsonObject]], unanswered: list[values.ToolCall]
) -> Iterator[values.Message]:
    said = []
    for key, part in parts:
        if "functionResponse" not in part:
            said.append(_text(key, part))
            continue
        result = payload.object_at(part, "functionResponse", key)
        own = [payload.text_at(result, field, key) for field in ("id", "name")]
        call = next((each for each in unanswered if own[0] == each.id), None)
        call = call or next((one for one in unanswered if ["", one.name] == own), None)
        if call is None:
            raise _refused("missing")
        unanswered.remove(call)
        yield _read_result(call, payload.object_at(result, "response", key), key)
    if said:
        if unanswered:
            raise _refused("missing")
        yield values.UserMessage("\n".join(said))


def _read_result(call: values.ToolCall, response: JsonObject, key: str) -> values.ToolMessage:
    value = next(iter(response.values())) if set(response) in _RESULTS else response
    text = payload.content_text(value, key) if isinstance(value, str) else None
    said = payload.object_text(value, key) if text is None else text
    return values.ToolMessage(call.id, said, "error" in response)


def _read_tools(body: JsonObject) -> Iterator[values.ToolSpec]:
    for key, given in payload.objects_at(body, "tools"):
        tool = _fields(given)
        for place, one in payload.objects_at(tool, "functionDeclarations", key):
            declared = _fields(one)
            field = "parametersJsonSchema" if "parametersJsonSchema" in declared else "parameters"
            yield payload.tool_spec({**declared, field: _schema(declared.get(field))}, place, field)
        own = sorted(name for name in tool if name != "functionDeclarations")
        yield from (payload.provider_tool({"type": name}, key) for name in own)


def _output(config: JsonObject) -> values.StructuredOutput | None:
    schema = config.get("responseJsonSchema") or _schema(config.get("responseSchema"))
    is_json = config.get("responseMimeType") == "application/json"
    form = {"type": "json_schema" if schema else "json_object" if is_json else "", "schema": schema}
    return payload.output_of(form, "generation_config.response_schema", is_strict=True)


def _schema(value: Any) -> Any:
    """Return a schema with the types of JSON Schema: the provider has them in capitals."""
    if isinstance(value, list):
        return [*map(_schema, value)]
    if not isinstance(value, dict):
        return value
    return {
        key: each.lower() if key == "type" and isinstance(each, str) else _schema(each)
        for key, each in value.items()
    }


_BLOCKS = {"SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR"}
_MALFORMED = "MALFORMED_FUNCTION_CALL"


class _ContentEncoder(replies.BlockEncoder):
    def __init__(self, form: Gemini, request: WireRequest, stamp: Stamp) -> None:
        super().__init__(form, request, stamp)
        self._head = {"modelVersion": request.model, "responseId": f"resp-{stamp.number}"}
        self._signature = base64.b64encode(self.signature.encode()).decode()

    def changed(self, change: BlockChange) -> Iterator[WireEvent]:
        action, block, piece = change
        if (block.kind != "call" or action == "close") and (parts := self._written(block, piece)):
            yield _event({"candidates": [_candidate(parts)], **self._head})

    def _written(self, block: replies.ReplyBlock, text: str) -> list[JsonObject]:
        """Return the parts of a block of that text, or of a whole call; none for a broken one."""
        if block.kind != "call":
            thought = {"thought": True} if block.kind == "reasoning" else {}
            return [{"text": text, **thought}] if text else []
        args = json_value(block.text or "{}")
        if not block.is_whole or not isinstance(args, dict):
            return []
        signature = {} if block.nth else {"thoughtSignature": self._signature}
        call = {"id": block.call_id, "name": block.name, "args": args}
        return [{"functionCall": call, **signature}]

    def failed(self, fault: values.Fault) -> WireEvent:
        return _event(self.form.error_body(fault, 0))

    def ended(self, finish: values.Finish) -> Iterator[WireEvent]:  # noqa: ARG002 - it is kept
        yield _event(self._ending([{"text": ""}] if self.blocks else []))

    def whole(self) -> bytes:
        parts = [part for block in self.blocks for part in self._written(block, block.text)]
        return payload.wire_json(self._ending(parts)).encode()

    def _ending(self, parts: Sequence[JsonObject]) -> JsonObject:
        finish = self.finish
        usage = (finish and finish.usage) or values.Usage()
        names = "promptTokenCount", "candidatesTokenCount", "totalTokenCount"
        counts = payload.counts_of(usage, *names)
        word = replies.finish_word("gemini", finish) if finish else ""
        calls = self.of_kind("call")
        if finish and any(one.is_whole and not self._written(one, "") for one in calls):
            word = _MALFORMED
        filtered = finish is not None and finish.reason is values.FinishReason.CONTENT_FILTER
        if filtered and word in _BLOCKS and not self.blocks:
            return {"promptFeedback": {"blockReason": word}, "usageMetadata": counts, **self._head}
        return {"candidates": [_candidate(parts, word)], "usageMetadata": counts, **self._head}


def _candidate(parts: Sequence[JsonObject], word: str = "") -> JsonObject:
    candidate: dict[str, Any] = {"content": {"role": "model"} | ({"parts": parts} if parts else {})}
    if word:
        candidate["finishReason"] = word
    if word == _MALFORMED:
        candidate["finishMessage"] = "Malformed function call"
    return candidate | {"index": 0}


def _event(data: JsonObject) -> WireEvent:
    return WireEvent("", payload.wire_json(data))

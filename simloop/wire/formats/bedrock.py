"""Amazon Bedrock's Converse and ConverseStream.

The path names the model. A stream has binary messages with two checksums, each an event or an
exception, which botocore raises. Shapes and words: botocore's service model `bedrock-runtime`
(1.44), and docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html.
"""

import re
import struct
from binascii import crc32
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from urllib.parse import unquote

from simloop import messages as values
from simloop.wire.formats import payload, replies
from simloop.wire.formats.payload import JsonObject
from simloop.wire.formats.replies import BlockChange, ErrorWords
from simloop.wire.formats.wire_format import Stamp, WireEvent, WireReply, WireRequest
from simloop.world.http import Headers, HttpRequest


@dataclass(frozen=True, slots=True)
class Bedrock(replies.WireFormat):
    """The format of `/converse` and `/converse-stream`."""

    name: ClassVar[str] = "bedrock"
    hosts: ClassVar[str] = r"bedrock-runtime(-fips)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?"
    path: ClassVar[str] = "/model/MODEL/converse"
    paths: ClassVar[str] = r"/model/([^/]+)/(converse|converse-stream)"
    marks_failed_tools: ClassVar[bool] = True

    def read(self, request: HttpRequest) -> WireRequest:
        ((model, how),) = re.findall(f"{self.paths}$", request.path)
        body = payload.body_of(request)
        system = [_text(*each) for each in payload.objects_at(body, "system")]
        tools = payload.objects_at(payload.object_at(body, "toolConfig", ""), "tools")
        return WireRequest(
            unquote(model), "\n".join(text for text in system if text), tuple(_read_messages(body)),
            tuple(_read_tool(tool, key) for key, tool in tools if "cachePoint" not in tool),
            streams=how == "converse-stream",
        )  # fmt: skip

    def framed(self, events: Sequence[WireEvent]) -> list[bytes]:
        return [_message(*event) for event in events]

    def reply(self, body: JsonObject) -> WireReply:
        message = payload.object_at(payload.object_at(body, "output", ""), "message", "output")
        pieces = payload.objects_at(message, "content", "output.message")
        return WireReply(
            payload.model_message(_piece(*each) for each in pieces),
            payload.text_at(body, "stopReason", ""),
            payload.usage_of(payload.object_at(body, "usage", ""), "inputTokens", "outputTokens"),
        )

    def encoder(self, request: WireRequest, stamp: Stamp) -> "_ConverseEncoder":
        return _ConverseEncoder(self, request, stamp)

    def headers(self, request: WireRequest, stamp: Stamp) -> Headers:
        kind = "application/vnd.amazon.eventstream" if request.streams else replies.JSON
        return (("content-type", kind), *self.every(stamp))

    def error_body(self, fault: values.Fault, number: int) -> JsonObject:  # noqa: ARG002 - the class above has it
        """Return the body that the provider sends for a failed call; a header has its type."""
        return {"message": replies.message_of(fault, _words(fault))}

    def every(self, stamp: Stamp, failure: values.StreamError | None = None) -> Headers:
        kind = (("x-amzn-errortype", _words(failure.fault).type),) if failure else ()
        return (("x-amzn-requestid", replies.request_id(stamp.number)), *kind)


def _message(name: str, data: str) -> bytes:
    kind = "exception" if name.endswith("Exception") else "event"
    headers = {f":{kind}-type": name, ":content-type": replies.JSON, ":message-type": kind}
    packed, content = b"".join(map(_header, headers.items())), data.encode()
    start = struct.pack(">II", 16 + len(packed) + len(content), len(packed))
    start += struct.pack(">I", crc32(start))
    body = start + packed + content
    return body + struct.pack(">I", crc32(body))


def _header(pair: tuple[str, str]) -> bytes:
    name, value = (text.encode() for text in pair)
    # 7 is the type of a string.
    return bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(value)) + value


_ERRORS = replies.error_words("bedrock")
_IN_STREAM = payload.PROVIDERS["bedrock in streams"]


def _words(fault: values.Fault) -> ErrorWords:
    of_servers, of_clients = (_ERRORS[status].type for status in (503, 400))
    words = replies.words_of(fault, _ERRORS, of_servers, of_clients)
    is_type = fault.code_is_type or (fault.code and fault.code not in replies.STATUSES)
    return words._replace(type=fault.code) if is_type else words


_refused = partial(payload.refusal, "bedrock")
_Blocks = list[tuple[str, JsonObject]]


def _read_messages(body: JsonObject) -> Iterator[values.Message]:
    before, open_ids, given = "", list[str](), list(payload.objects_at(body, "messages"))
    if not given:
        raise _refused("first")
    for number, (key, message) in enumerate(given):
        role, blocks = payload.text_at(message, "role", key), _blocks(message, key, number)
        if role not in ("user", "assistant"):
            raise _refused("role", role, number + 1)
        if role == before or not (before or role == "user"):
            raise _refused("turns" if before else "first")
        before = role
        pieces = (_piece(*each) for each in blocks)
        of_user = role == "user"
        read = [*payload.user_messages(pieces)] if of_user else [payload.model_message(pieces)]
        _check_results(open_ids, read, number)
        open_ids = [call.id for one in read for call in getattr(one, "calls", ())]
        yield from read
        if "toolConfig" not in body and any("toolUse" in each for _, each in blocks):
            raise _refused("no tools")
    _check_results(open_ids, [], len(given))


def _blocks(message: JsonObject, key: str, number: int) -> _Blocks:
    if not (blocks := list(payload.objects_at(message, "content", key))):
        raise _refused("empty", number)
    for at, (place, block) in enumerate(blocks):
        if "text" in block and not payload.text_at(block, "text", place).strip():
            raise _refused("blank", number, at)
    return blocks


def _check_results(open_ids: Sequence[str], read: Sequence[values.Message], number: int) -> None:
    answered = [one.call_id for one in read if isinstance(one, values.ToolMessage)]
    if missing := [one for one in open_ids if one not in answered]:
        raise _refused("missing", number, ", ".join(missing))
    if len(answered) > len(open_ids):
        raise _refused("too many", number)


def _piece(key: str, block: JsonObject) -> payload.Piece:
    if "toolResult" in block:
        result = payload.object_at(block, "toolResult", key)
        content = [_text(*each) for each in payload.objects_at(result, "content", key)]
        call_id = payload.text_at(result, "toolUseId", key)
        return values.ToolMessage(call_id, "\n".join(content), result.get("status") == "error")
    if "toolUse" in block:
        use = payload.object_at(block, "toolUse", key)
        call_id, name = (payload.text_at(use, field, key) for field in ("toolUseId", "name"))
        given = payload.object_text(payload.object_at(use, "input", key), f"{key}.input")
        return values.ToolCall(call_id, name, given)
    if "reasoningContent" in block:
        thought = payload.object_at(block, "reasoningContent", key)
        said = payload.object_at(thought, "reasoningText", key)
        return values.ReasoningDelta(payload.text_at(said, "text", key))
    return _text(key, block) or None


def _text(key: str, block: JsonObject) -> str:
    if "text" in block:
        return payload.text_at(block, "text", key)
    if "json" in block:
        return payload.object_text(block["json"], key)
    kind = next(iter(block), "part")
    return "" if kind == "cachePoint" else f"[{'file' if kind == 'document' else kind}]"


def _read_tool(tool: JsonObject, key: str) -> values.ToolSpec:
    if "toolSpec" not in tool:
        return payload.provider_tool({"type": next(iter(tool), "tool")}, key)
    spec = payload.object_at(tool, "toolSpec", key)
    schema = payload.object_at(payload.object_at(spec, "inputSchema", key), "json", key)
    return payload.tool_spec({**spec, "inputSchema": schema}, key, "inputSchema")


class _ConverseEncoder(replies.BlockEncoder):
    def opened(self) -> Iterator[WireEvent]:
        yield _event("messageStart", role="assistant")

    def changed(self, change: BlockChange) -> Iterator[WireEvent]:
        action, block, piece = change
        place = {"contentBlockIndex": block.index}
        if action == "open" and block.kind == "call":
            use = {"toolUseId": block.call_id, "name": block.name}
            yield _event("contentBlockStart", start={"toolUse": use}, **place)
        if piece:
            yield _event("contentBlockDelta", delta=_delta(block, piece), **place)
        if action == "close":
            if block.kind == "reasoning":
                signed = {"reasoningContent": {"signature": self.signature}}
                yield _event("contentBlockDelta", delta=signed, **place)
            yield _event("contentBlockStop", **place)

    def failed(self, fault: values.Fault) -> WireEvent:
        words, status = _words(fault), replies.status_of(fault)
        if status not in _ERRORS:
            status = 400 if status < 500 else 503  # noqa: PLR2004 - the classes of HTTP
        kind = f"{_IN_STREAM.get(str(status), 'internalServer')}Exception"
        if fault.code.endswith("Exception"):
            kind = fault.code[:1].lower() + fault.code[1:]
        return _event(kind, message=replies.message_of(fault, words))

    def ended(self, finish: values.Finish) -> Iterator[WireEvent]:
        yield _event("messageStop", stopReason=replies.finish_word("bedrock", finish))
        yield _event("metadata", **_metadata(finish))

    def whole(self) -> bytes:
        content = [self._whole_block(block) for block in self.blocks]
        finish = self.finish or values.Finish(values.FinishReason.STOP)
        message = {"role": "assistant", "content": content}
        word = replies.finish_word("bedrock", finish)
        body = {"output": {"message": message}, "stopReason": word}
        return payload.wire_json({**body, **_metadata(finish)}).encode()

    def _whole_block(self, block: replies.ReplyBlock) -> JsonObject:
        match block.kind:
            case "text":
                return {"text": block.text}
            case "reasoning":
                said = {"text": block.text, "signature": self.signature}
                return {"reasoningContent": {"reasoningText": said}}
            case "call":
                use = {"toolUseId": block.call_id, "name": block.name}
                return {"toolUse": {**use, "input": replies.whole_input(block)}}


def _delta(block: replies.ReplyBlock, piece: str) -> JsonObject:
    match block.kind:
        case "text":
            return {"text": piece}
        case "reasoning":
            return {"reasoningContent": {"text": piece}}
        case "call":
            return {"toolUse": {"input": piece}}


def _metadata(finish: values.Finish) -> dict[str, Any]:
    usage, names = finish.usage or values.Usage(), ("inputTokens", "outputTokens", "totalTokens")
    return {"usage": payload.counts_of(usage, *names), "metrics": {"latencyMs": 1}}


def _event(name: str, /, **data: Any) -> WireEvent:
    return WireEvent(name, payload.wire_json(data))

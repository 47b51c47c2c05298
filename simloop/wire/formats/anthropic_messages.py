"""Anthropic Messages.

A stream has named events: the message starts, each content block starts, grows and stops, and the
message ends with its reason and its usage. A request is refused where the provider refuses it,
because agents meet these refusals when they lose a result.
"""

import itertools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

from simloop import messages as values
from simloop.wire.formats import payload, replies
from simloop.wire.formats.payload import JsonObject
from simloop.wire.formats.replies import INVALID, OVERFLOW, REFUSAL, BlockChange
from simloop.wire.formats.wire_format import Stamp, WireEvent, WireReply, WireRequest, WrongRequest
from simloop.world.http import Headers, HttpRequest

_Blocks = list[tuple[str, JsonObject]]


@dataclass(frozen=True, slots=True)
class AnthropicMessages(replies.WireFormat):
    """The format of `/messages`."""

    name: ClassVar[str] = "anthropic-messages"
    hosts: ClassVar[str] = r"api\.anthropic\.com"
    path: ClassVar[str] = "/messages"
    paths: ClassVar[str] = r"/messages(?:/count_tokens)?"
    marks_failed_tools: ClassVar[bool] = True

    def read(self, request: HttpRequest) -> WireRequest:
        body = payload.body_of(request)
        try:
            asks_size = request.path.endswith("/count_tokens")
            return _read(body, self.storage.thoughts, asks_size=asks_size)
        except WrongRequest as wrong:  # the provider writes places with dots alone
            key = re.sub(r"\[(\d+)\]", r".\1", wrong.key)
            raise WrongRequest(key, wrong.message, wrong.code) from None

    def joined(self, events: Iterable[JsonObject]) -> JsonObject:
        whole: dict[str, Any] = {}
        blocks: dict[Any, dict[str, Any]] = {}
        counts: dict[str, Any] = {}
        for event in events:
            delta, place = payload.object_at(event, "delta", ""), event.get("index")
            match event.get("type"):
                case "message_start":
                    whole |= payload.object_at(event, "message", "")
                    counts |= payload.object_at(whole, "usage", "message")
                case "content_block_start":
                    blocks[place] = {**payload.object_at(event, "content_block", "")}
                case "content_block_delta":
                    block = blocks.setdefault(place, {})
                    for field, joined in _JOINED.items():
                        if field in delta:
                            more = payload.text_at(delta, field, "delta")
                            block[joined] = (block.get(joined) or "") + more
                case "message_delta":
                    counts |= payload.object_at(event, "usage", "")
                    whole |= delta
                case "error":
                    whole["error"] = event.get("error")
        return {**whole, "content": [*blocks.values()], "usage": counts}

    def reply(self, body: JsonObject) -> WireReply:
        blocks = _of_type([*payload.objects_at(body, "content")], "text", "thinking", "tool_use")
        return WireReply(
            payload.model_message(_piece(*each) for each in blocks),
            payload.text_at(body, "stop_reason", ""),
            payload.usage_of(payload.object_at(body, "usage", ""), "input_tokens", "output_tokens"),
        )

    def encoder(self, request: WireRequest, stamp: Stamp) -> "_MessageEncoder":
        return _MessageEncoder(self, request, stamp)

    def error_body(self, fault: values.Fault, number: int) -> JsonObject:
        """Return the body of an error; a code of the script that is no type is in `details`."""
        code = fault.code
        words = replies.words_of(fault, _ERRORS, "api_error", INVALID)
        is_type = code in _TYPES or fault.code_is_type
        error: dict[str, Any] = {"type": code if is_type else words.type}
        error["message"] = replies.message_of(fault, words)
        if code and not is_type and code != OVERFLOW:
            error["details"] = {"error_code": code}
        return {"type": "error", "error": error, "request_id": replies.request_id(number)}

    def every(self, stamp: Stamp, failure: values.StreamError | None = None) -> Headers:
        reset = f"{datetime.fromtimestamp(stamp.created_s + _RESET_S, UTC):%Y-%m-%dT%H:%M:%SZ}"
        limits = self.limits("anthropic-ratelimit-{of}-{field}", reset, failure)
        return (("request-id", replies.request_id(stamp.number)), *limits)


_RESET_S = 60
_JOINED = {"text": "text", "thinking": "thinking", "partial_json": "input"}
_ERRORS = replies.error_words("anthropic")
_TYPES = {words.type for words in _ERRORS.values()}
_refused = partial(payload.refusal, "anthropic")


def _read(body: JsonObject, thoughts: Container[object], *, asks_size: bool) -> WireRequest:
    model = payload.model_of(body)
    if not asks_size and not isinstance(body.get("max_tokens"), int):
        raise _refused("length", key="max_tokens")
    system = [payload.content_text(body.get("system"), "system")]
    given = list(payload.objects_at(body, "messages"))
    messages: list[values.Message] = []
    for key, message in given:
        role = payload.text_at(message, "role", key)
        content = _blocks(message, key)
        if not content and (role != "assistant" or message is not given[-1][1]):
            raise _refused("empty", key=key)
        if role == "system" and not messages:
            system.append("\n".join(payload.part_text(block, place) for place, block in content))
        elif role in ("user", "system"):
            messages += payload.user_messages(_piece(*each) for each in content)
        elif role == "assistant":
            messages.append(payload.model_message(_piece(*each) for each in content))
        else:
            raise _refused("role", key=f"{key}.role")
    if not messages:
        raise _refused("no messages", key="messages")
    _check_calls(given)
    if payload.object_at(body, "thinking", "").get("type") == "enabled":
        _check_thoughts(given, thoughts)
    tools, forced = payload.chosen(body, payload.tools_of(body, (None, "custom"), "input_schema"))
    config = payload.object_at(body, "output_config", "")
    form = payload.object_at(config, "format", "output_config")
    form = form or payload.object_at(body, "output_format", "")  # of the beta API
    return WireRequest(
        model, "\n\n".join(text for text in system if text), tuple(messages), tools,
        streams=bool(body.get("stream")), size_reply='{"input_tokens": %d}' if asks_size else "",
        output=payload.output_of(form, "output_config.format", is_strict=True)
        or forced,
    )  # fmt: skip


def _blocks(message: JsonObject, key: str) -> _Blocks:
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    blocks = list(payload.objects_at({"content": content}, "content", key))
    for place, block in blocks:
        if block.get("type") == "tool_use" and not isinstance(block.get("input"), dict):
            raise _refused("input", key=f"{place}.tool_use.input")
        text = payload.part_text(block, place)
        if not text.strip() and block.get("type") != "thinking":
            raise _refused("blank text" if text else "empty text", key="messages")
    return blocks


def _of_type(blocks: _Blocks, *types: str) -> _Blocks:
    return [one for one in blocks if one[1].get("type") in types]


def _piece(key: str, block: JsonObject) -> payload.Piece:
    match block.get("type"):
        case "tool_result":
            text = payload.content_text(block.get("content"), f"{key}.content")
            call_id = payload.text_at(block, "tool_use_id", key)
            return values.ToolMessage(call_id, text, is_error=block.get("is_error") is True)
        case "tool_use":
            name, given = payload.text_at(block, "name", key), block.get("input") or {}
            if not isinstance(given, str):  # of a stream, as it was sent
                given = payload.object_text(given, f"{key}.tool_use.input")
            return values.ToolCall(payload.text_at(block, "id", key), name, given)
        case "thinking" | "redacted_thinking":
            return values.ReasoningDelta(payload.text_at(block, "thinking", key))
        case _:
            return payload.part_text(block, key)


def _check_calls(given: Sequence[tuple[str, JsonObject]]) -> None:
    """Raise WrongRequest unless each call is answered at the start of the next turn of the user."""
    open_ids: list[str] = []  # the calls of the last turn of the assistant
    place = ""
    for is_assistant, blocks, key in _turns(given):
        if is_assistant:
            open_ids, place = _call_ids(blocks), key
            continue
        for block_key, block in _of_type(blocks, "tool_result"):
            if block.get("tool_use_id") not in open_ids:
                raise _refused("unexpected", block.get("tool_use_id"), key=block_key)
        first = itertools.takewhile(lambda one: one[1].get("type") == "tool_result", blocks)
        _check_answers(open_ids, [str(one.get("tool_use_id")) for _, one in first], place)
        open_ids = []
    _check_answers(open_ids, [], place)


def _check_thoughts(given: Sequence[tuple[str, JsonObject]], thoughts: Container[object]) -> None:
    """Raise WrongRequest if the thought before calls that are answered now is left out."""
    calling, answering = ([], [], *(blocks for _, blocks, _ in _turns(given)))[-2:]
    ids = [block.get("id") for _, block in _of_type(calling, "tool_use")]
    if not any(each in thoughts for each in ids) or not _of_type(answering, "tool_result"):
        return
    key, first = calling[0]
    if first.get("type") not in ("thinking", "redacted_thinking"):
        raise _refused("no thought", first.get("type"), key=f"{key}.type")


def _turns(given: Sequence[tuple[str, JsonObject]]) -> Iterator[tuple[bool, _Blocks, str]]:
    """Yield the turns, messages of one side in a row: whose, its blocks, its last place."""
    by_side = itertools.groupby(given, lambda one: one[1].get("role") == "assistant")
    for is_assistant, group in by_side:
        messages = list(group)
        yield is_assistant, [b for key, one in messages for b in _blocks(one, key)], messages[-1][0]


def _call_ids(blocks: _Blocks) -> list[str]:
    ids: list[str] = []
    for key, block in _of_type(blocks, "tool_use"):
        if block.get("id") in ids:
            raise _refused("same ids", key=key)
        ids.append(str(block.get("id")))
    return ids


def _check_answers(open_ids: list[str], answered: list[str], key: str) -> None:
    if unanswered := [one for one in open_ids if one not in answered]:
        raise _refused("missing", ", ".join(unanswered), key=key)
    if (twice := next((one for one in answered if answered.count(one) > 1), None)) is not None:
        raise _refused("twice", twice, key=key)


# What a block of each kind holds when it starts, and the delta and its field with which it grows.
_BLOCKS: Mapping[str, tuple[JsonObject, str, str]] = payload.PROVIDERS["anthropic blocks"]


class _MessageEncoder(replies.BlockEncoder):
    def __init__(self, form: AnthropicMessages, request: WireRequest, stamp: Stamp) -> None:
        super().__init__(form, request, stamp)
        self._usage: values.Usage | None = None
        kind = {"type": "message", "role": "assistant"}
        self._head = {"id": f"msg-{stamp.number}", **kind, "model": request.model}

    def begin(self, ahead: values.Finish | None = None) -> Sequence[WireEvent]:
        self._usage = ahead.usage if ahead is not None else None
        return ()

    def failed(self, fault: values.Fault) -> WireEvent:
        return _event("error", {"error": self.form.error_body(fault, 0)["error"]})

    def opened(self) -> Iterator[WireEvent]:
        given = values.Usage(self._usage.input_tokens) if self._usage is not None else None
        ends = {"stop_reason": None, "stop_sequence": None}
        message: JsonObject = {**self._head, "content": [], **ends, "usage": _usage(given)}
        yield _event("message_start", {"message": message})

    def changed(self, change: BlockChange) -> Iterator[WireEvent]:
        action, block, piece = change
        if action == "open":
            start = _BLOCKS[block.kind][0]
            if block.kind == "call":
                start = {**start, "id": block.call_id, "name": block.name, "input": {}}
            yield _event("content_block_start", {"index": block.index, "content_block": start})
            if self.options.pings and block.index == 0:
                yield _event("ping", {})
            if block.kind == "call":
                yield _delta(block, "")  # the provider starts so, also before whole arguments
        if piece:
            yield _delta(block, piece)
        if action == "close":
            if block.kind == "reasoning":
                signed = {"type": "signature_delta", "signature": self.signature}
                yield _event("content_block_delta", {"index": block.index, "delta": signed})
            yield _event("content_block_stop", {"index": block.index})

    def ended(self, finish: values.Finish) -> Iterator[WireEvent]:
        yield _event("message_delta", {"delta": self._ending(), "usage": _usage(finish.usage)})
        yield _event("message_stop", {})

    def _ending(self) -> JsonObject:
        finish, blocks = self.finish, self.blocks
        if blocks and blocks[0].kind == "reasoning":
            self.form.storage.thoughts |= {each.call_id: "" for each in blocks}
        word = None if finish is None else replies.finish_word("anthropic", finish)
        ending = {"stop_reason": word, "stop_sequence": None}
        if word != REFUSAL:
            return ending
        return ending | {"stop_details": {"type": REFUSAL, "category": None, "explanation": None}}

    def whole(self) -> bytes:
        content = [self._whole_block(block) for block in self.blocks]
        usage = _usage(None if self.finish is None else self.finish.usage)
        message = {**self._head, "content": content, **self._ending(), "usage": usage}
        return payload.wire_json(message).encode()

    def _whole_block(self, block: replies.ReplyBlock) -> JsonObject:
        start = _BLOCKS[block.kind][0]
        match block.kind:
            case "text":
                return {**start, "text": block.text}
            case "reasoning":
                return {**start, "thinking": block.text, "signature": self.signature}
            case "call":
                given = replies.whole_input(block)  # only a stream can show another value
                shown = given if isinstance(given, dict) else {}
                return {**start, "id": block.call_id, "name": block.name, "input": shown}


def _delta(block: replies.ReplyBlock, piece: str) -> WireEvent:
    _, kind, name = _BLOCKS[block.kind]
    delta = {"type": kind, name: piece}
    return _event("content_block_delta", {"index": block.index, "delta": delta})


def _event(name: str, fields: JsonObject) -> WireEvent:
    return WireEvent(name, payload.wire_json({"type": name, **fields}))


def _usage(usage: values.Usage | None) -> JsonObject:
    """Return token counts; the format has no word for none, so that zeros stand for them."""
    given = usage or values.Usage()
    cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": given.input_tokens, **cache, "output_tokens": given.output_tokens}

"""OpenAI Responses.

A stream has named, numbered events: the response is created, each item of its output is added,
grows and is done, and the response ends whole, cut off or failed. The input is a list of items,
some of which make one message, and a result finds its call wherever it stands, as at the provider.
The items of a response that the provider keeps come before those of a request that goes on from it.
A response that does not end is not kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from simloop import messages as values
from simloop.wire.formats import payload, replies
from simloop.wire.formats.openai_chat import OpenAIFormat, refused
from simloop.wire.formats.payload import JsonObject
from simloop.wire.formats.replies import REFUSAL, BlockChange, ReplyBlock
from simloop.wire.formats.storage import Turn
from simloop.wire.formats.wire_format import Stamp, WireEvent, WireReply, WireRequest
from simloop.world.http import HttpRequest

_ALONE = Turn()


@dataclass(frozen=True, slots=True)
class _ResponsesRequest(WireRequest):
    turn: Turn = _ALONE


@dataclass(frozen=True, slots=True)
class OpenAIResponses(OpenAIFormat):
    """The format of `/responses`."""

    name: ClassVar[str] = "openai-responses"
    path: ClassVar[str] = "/responses"
    paths: ClassVar[str] = r"/responses(?:/input_tokens)?"
    errors = OpenAIFormat.errors | replies.error_words("openai-responses")

    def read(self, request: HttpRequest) -> WireRequest:
        body = payload.body_of(request)
        model, turn = payload.model_of(body), self.storage.turn(body)
        reader = turn.reader or _Reader()
        instructions = payload.content_text(body.get("instructions"), "instructions")
        for item in turn.before[reader.items :]:
            reader.read(item, "input")
        for index, item in enumerate(turn.given):
            reader.read(item, f"input[{index}]")
        system, messages = reader.conversation([instructions] if instructions else [])
        offered = payload.tools_of(body, ("function", "custom"), "parameters")
        tools, forced = payload.chosen(body, offered)
        text = payload.object_at(body, "text", "")
        size = '{"object": "response.input_tokens", "input_tokens": %d}'
        return _ResponsesRequest(
            model, system, messages, tools, streams=bool(body.get("stream")),
            turn=turn._replace(reader=reader),
            size_reply=size if request.path.endswith("/input_tokens") else "",
            output=payload.output_of(payload.object_at(text, "format", "text"), "text.format")
            or forced,
        )  # fmt: skip

    def encoder(self, request: WireRequest, stamp: Stamp) -> "_ResponseEncoder":
        return _ResponseEncoder(self, request, stamp)

    def joined(self, events: Iterable[JsonObject]) -> JsonObject:
        items: dict[Any, dict[str, Any]] = {}
        for event in events:
            kind, place = payload.text_at(event, "type", ""), event.get("output_index")
            if kind in _ENDS:
                return payload.object_at(event, "response", "")
            if kind == "error":
                return {"error": event.get("error") or event, "output": [*items.values()]}
            if kind.startswith("response.output_item."):
                items[place] = {**payload.object_at(event, "item", "")}
            elif kind == "response.output_text.delta" and place in items:
                said = items[place].get("content") or [{"type": "output_text", "text": ""}]
                text = payload.content_text(said, "content", "")
                text += payload.text_at(event, "delta", "")
                items[place]["content"] = [{"type": "output_text", "text": text}]
        whole = [each for each in items.values() if each.get("type") == "message"]
        return {"status": "in_progress", "output": whole}

    def reply(self, body: JsonObject) -> WireReply:
        reader = _Reader()
        for key, item in payload.objects_at(body, "output"):
            reader.read(item, key)
        message = reader.reply()
        why = payload.object_at(body, "incomplete_details", "")
        cut = {"max_output_tokens": "length"}.get(str(why.get("reason")), str(why.get("reason")))
        usual = "tool-calls" if message.calls else "stop"
        finish = {"completed": usual, "incomplete": cut}.get(str(body.get("status")), "")
        counts = payload.object_at(body, "usage", "")
        return WireReply(message, finish, payload.usage_of(counts, "input_tokens", "output_tokens"))


_ENDS = ("response.completed", "response.incomplete", "response.failed")


class _Reader:
    def __init__(self) -> None:
        self.system: list[str] = []
        self.messages: list[values.Message] = []
        self._pieces: list[payload.Piece] = []  # of the reply whose items come
        self._call_ids = set[str]()
        self._open: dict[str, None] = {}  # those that have no result yet
        self.items = 0

    def read(self, item: JsonObject, key: str) -> None:
        self.items += 1
        if (kind := payload.text_at(item, "type", key) or "message") == "message":
            self._read_message(item, key)
        elif kind == "reasoning":
            parts = [*payload.list_at(item, "summary", key), *payload.list_at(item, "content", key)]
            thought = "".join(payload.part_text(part, key) for part in parts)
            self._pieces += [values.ReasoningDelta(thought)] if thought else []
        elif kind.endswith("_output") and "call_id" in item:
            self._read_result(item, key)
        elif kind.endswith("_call") and "call_id" in item:
            call = _read_call(item, kind, key)
            self._pieces.append(call)
            self._open |= {} if call.id in self._call_ids else {call.id: None}
            self._call_ids.add(call.id)
        else:  # the provider's own tools, and items that simloop has no word for
            self._pieces.append(f"[{kind}]")

    def _read_message(self, item: JsonObject, key: str) -> None:
        role, content = payload.text_at(item, "role", key), item.get("content")
        if role == "assistant":
            if any(isinstance(each, str) for each in self._pieces):  # one reply has one text
                self._end_reply()
            self._pieces.append(payload.content_text(content, f"{key}.content", ""))
            return
        self._end_reply()
        text = payload.content_text(content, f"{key}.content")
        if role in ("system", "developer") and not self.messages:
            self.system.append(text)
        elif role in ("user", "system", "developer"):
            self.messages.append(values.UserMessage(text))
        else:
            known = "'assistant', 'system', 'developer', and 'user'"
            raise refused("role", role, known, key=f"{key}.role")

    def _read_result(self, item: JsonObject, key: str) -> None:
        self._end_reply()
        call_id, output = payload.text_at(item, "call_id", key), item.get("output")
        if call_id not in self._call_ids:
            raise refused("no call", call_id, key="input")
        self._open.pop(call_id, None)
        parts = [output] if isinstance(output, dict) else output
        text = payload.content_text(parts, f"{key}.output")
        self.messages.append(values.ToolMessage(call_id, text))

    def _end_reply(self) -> None:
        if self._pieces:
            self.messages.append(payload.model_message(self._pieces))
        self._pieces = []

    def reply(self) -> values.AssistantMessage:
        """Return the items read so far as one reply."""
        self._end_reply()
        read = [one for one in self.messages if isinstance(one, values.AssistantMessage)]
        return values.AssistantMessage(
            "".join(each.text for each in read),
            tuple(call for each in read for call in each.calls),
            "".join(each.reasoning for each in read),
        )

    def conversation(self, instructions: list[str]) -> tuple[str, tuple[values.Message, ...]]:
        last = [payload.model_message(self._pieces)] if self._pieces else []  # it may go on
        messages, system = (*self.messages, *last), [*instructions, *self.system]
        if not messages and not system:
            raise refused("no input", key="input")
        if self._open:
            raise refused("no output", next(iter(self._open)), key="input")
        if not messages:  # a request has a message for the model to answer
            messages = (values.UserMessage(system.pop()),)
        return "\n\n".join(system), messages


def _read_call(item: JsonObject, kind: str, key: str) -> values.ToolCall:
    name = payload.text_at(item, "name", key) or kind
    if "input" in item or "arguments" in item:
        arguments = payload.text_at(item, "input" if "input" in item else "arguments", key)
    else:
        action = item.get("action") or item.get("operation") or {}
        arguments = payload.object_text(action, f"{key}.action")
    return values.ToolCall(payload.text_at(item, "call_id", key), name, arguments)


class _Prose(NamedTuple):
    """The names of a kind of text: of the events of its pieces and its part, and of its fields."""

    pieces: str
    part: str
    place: str
    type: str
    field: str = "text"

    def written(self, text: str) -> JsonObject:
        more: JsonObject = {"annotations": [], "logprobs": []} if self.type == "output_text" else {}
        return {"type": self.type, self.field: text, **more}


_PART, _THOUGHT = ("response.content_part", "content_index"), "response.reasoning_summary"
_TEXT = _Prose("response.output_text", *_PART, "output_text")
_REFUSED = _Prose("response.refusal", *_PART, "refusal", "refusal")
_SUMMARY = _Prose(f"{_THOUGHT}_text", f"{_THOUGHT}_part", "summary_index", "summary_text")
_CALL = "response.function_call_arguments"
# What the provider repeats of a request that states none of it.
_SETTINGS: JsonObject = payload.PROVIDERS["openai-responses settings"]
_PREFIXES = {"text": "msg", "reasoning": "rs", "call": "fc"}


class _ResponseEncoder(replies.BlockEncoder):
    def __init__(self, form: OpenAIResponses, request: WireRequest, stamp: Stamp) -> None:
        super().__init__(form, request, stamp)
        self._storage = form.storage
        self._turn = turn = request.turn if isinstance(request, _ResponsesRequest) else _ALONE
        self._number = stamp.number
        self._text = _TEXT
        self._events = 0
        self._head: JsonObject = {
            "id": f"resp_{stamp.number}",  # clients tell responses from conversations by `resp_`
            "object": "response", "created_at": stamp.created_s, "model": request.model,
            "instructions": request.system_prompt or None, **_SETTINGS,
            "previous_response_id": turn.previous or None,
            "conversation": {"id": turn.conversation} if turn.conversation else None,
            "store": turn.is_kept,
        }  # fmt: skip

    def begin(self, ahead: values.Finish | None = None) -> Sequence[WireEvent]:
        if ahead is not None and ahead.raw == REFUSAL:
            self._text = _REFUSED
        return self.opening()

    def opened(self) -> Iterator[WireEvent]:
        response = self._response("in_progress")
        yield self._event("response.created", response=response)
        yield self._event("response.in_progress", response=response)

    def changed(self, change: BlockChange) -> Iterator[WireEvent]:
        action, block, piece = change
        place = {"item_id": self._item_id(block), "output_index": block.index}
        if action == "open":
            yield self._item_event("added", block)
        if block.kind == "call":
            if piece:
                yield self._event(f"{_CALL}.delta", **place, delta=piece)
            if action == "close":
                done = {"arguments": block.text, "name": block.name}
                yield self._event(f"{_CALL}.done", **place, **done)
        else:
            prose = _SUMMARY if block.kind == "reasoning" else self._text
            place[prose.place] = 0
            more: JsonObject = {"logprobs": []} if prose is _TEXT else {}
            if action == "open":
                yield self._event(f"{prose.part}.added", **place, part=prose.written(""))
            elif action == "grow":
                yield self._event(f"{prose.pieces}.delta", **place, delta=piece, **more)
            else:
                done = {prose.field: block.text, **more}
                yield self._event(f"{prose.pieces}.done", **place, **done)
                yield self._event(f"{prose.part}.done", **place, part=prose.written(block.text))
        if action == "close":
            yield self._item_event("done", block)

    def _item_event(self, action: str, block: ReplyBlock) -> WireEvent:
        item = self._item(block, is_new=action == "added")
        return self._event(f"response.output_item.{action}", output_index=block.index, item=item)

    def _item_id(self, block: ReplyBlock) -> str:
        return f"{_PREFIXES[block.kind]}_{self._number}_{block.index}"

    def _item(self, block: ReplyBlock, *, is_new: bool = False) -> JsonObject:
        own, text = self._item_id(block), block.text
        is_last = block.kind == "text" and block is self.blocks[-1]
        has_ended = self.finish is not None and self._ending()[0] == "incomplete"
        is_cut = not block.is_whole or (is_last and has_ended)
        status = "in_progress" if is_new else "incomplete" if is_cut else "completed"
        match block.kind:
            case "text":
                content = [] if is_new else [self._text.written(text)]
                kind = {"type": "message", "role": "assistant"}
                return {"id": own, **kind, "status": status, "content": content}
            case "reasoning":
                summary = [] if is_new else [_SUMMARY.written(text)]
                return {"id": own, "type": "reasoning", "summary": summary}
            case "call":
                given = "" if is_new else text
                call = {"call_id": block.call_id, "name": block.name, "arguments": given}
                return {"id": own, "type": "function_call", "status": status, **call}

    def ended(self, finish: values.Finish) -> Iterator[WireEvent]:  # noqa: ARG002 - it is kept
        status, more = self._ending()
        name = "failed" if status == "cancelled" else status
        response = self._response(status, more)
        self._storage.keep(self._turn, response)
        yield self._event(f"response.{name}", response=response)

    def _ending(self) -> tuple[str, JsonObject]:
        if self.finish is None:
            return "incomplete", {}
        raw, reason = self.finish.raw, self.finish.reason
        if raw in ("cancelled", "failed") or reason is values.FinishReason.ERROR:
            fault = values.Fault(f"the model finished with {raw or reason}", code="server_error")
            return ("cancelled", {}) if raw == "cancelled" else ("failed", self._failure(fault))
        is_whole = reason in (values.FinishReason.STOP, values.FinishReason.TOOL_CALLS)
        if is_whole or self._text is _REFUSED:
            return "completed", {}
        words = {values.FinishReason.LENGTH: "max_output_tokens"}
        words[values.FinishReason.CONTENT_FILTER] = "content_filter"
        word = words.get(reason) or raw or reason.value
        return "incomplete", {"incomplete_details": {"reason": word}}

    def failed(self, fault: values.Fault) -> WireEvent:
        error = self.form.error_body(fault, 0)["error"]
        match self.options.responses_error:
            case "nested":
                return self._event("error", error=error)
            case "failed":
                response = self._response("failed", self._failure(fault))
                return self._event("response.failed", response=response)
            case _:
                said = {name: error[name] for name in ("code", "message", "param")}
                return self._event("error", **said)

    def _failure(self, fault: values.Fault) -> JsonObject:
        error = self.form.error_body(fault, 0)["error"]
        return {"error": {"code": error["code"] or error["type"], "message": error["message"]}}

    def _response(self, status: str, more: JsonObject | None = None) -> JsonObject:
        return {
            **self._head, "status": status, "error": None, "incomplete_details": None,
            "output": [self._item(block) for block in self.blocks],
            "usage": _usage(None if self.finish is None else self.options.usage_of(self.finish)),
            **(more or {}),
        }  # fmt: skip

    def _event(self, name: str, /, **fields: Any) -> WireEvent:
        number, self._events = self._events, self._events + 1
        data = {"type": name, "sequence_number": number, **fields}
        return WireEvent(name, payload.wire_json(data))

    def whole(self) -> bytes:
        return payload.wire_json(self._response(*self._ending())).encode()


def _usage(usage: values.Usage | None) -> JsonObject | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }  # fmt: skip

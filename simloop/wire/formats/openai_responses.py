"""OpenAI Responses.

A stream has named, numbered events: the response is created, each item of its output is added,
grows and is done, and the response ends whole, cut off or failed. Not here: HTTP errors
(error_bodies.py). The rule to keep: no response is stored, so that a request has all that it needs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from simloop.messages import (
    Fault,
    Finish,
    FinishReason,
    Part,
    StreamError,
    Usage,
    WireState,
)
from simloop.wire.formats.blocks import BlockChange, Blocks, ReplyBlock
from simloop.wire.formats.error_bodies import OpenAIReplies, openai_error
from simloop.wire.formats.finish_words import REFUSAL
from simloop.wire.formats.payload import (
    JsonObject,
    body_of,
    is_posted_to,
    wire_json,
)
from simloop.wire.formats.responses_input import read_body
from simloop.wire.formats.wire_format import Encoder, WireEvent, WireRequest
from simloop.wire.http import HttpRequest
from simloop.world.wire_options import WireOptions


@dataclass(frozen=True, slots=True)
class OpenAIResponses(OpenAIReplies):
    """The format of `/responses`."""

    name: ClassVar[str] = "openai-responses"
    endpoint: ClassVar[str] = "POST /responses"
    marks_failed_tools: ClassVar[bool] = False
    is_responses: ClassVar[bool] = True
    options: WireOptions = field(default_factory=WireOptions)

    def answers(self, request: HttpRequest) -> bool:
        """Return whether a request is one of this format."""
        return is_posted_to("/responses", request)

    def read(self, request: HttpRequest) -> WireRequest:
        """Return the contents of a request. Raises WrongRequest."""
        body = body_of(request)
        return read_body(body)

    def encoder(self, request: WireRequest, number: int, created_s: int) -> Encoder:
        """Return the encoder of the reply to request `number`."""
        return ResponseEncoder(self.options, request, number, created_s)


class _Prose(NamedTuple):
    """The names of a kind of text: of the events of its pieces and its part, and of its fields."""

    pieces: str
    part: str
    place: str
    type: str
    field: str = "text"

    def written(self, text: str) -> JsonObject:
        """Return the part with its text."""
        more: JsonObject = {"annotations": [], "logprobs": []} if self.type == "output_text" else {}
        return {"type": self.type, self.field: text, **more}


_TEXT = _Prose("response.output_text", "response.content_part", "content_index", "output_text")
_REFUSED = _Prose(
    "response.refusal", "response.content_part", "content_index", "refusal", "refusal"
)
_SUMMARY = _Prose(
    "response.reasoning_summary_text",
    "response.reasoning_summary_part",
    "summary_index",
    "summary_text",
)
_CALL = "response.function_call_arguments"
_PREFIXES = {"text": "msg", "reasoning": "rs", "call": "fc"}


class ResponseEncoder:
    """Writes one reply: events for a stream, or one response."""

    def __init__(
        self, options: WireOptions, request: WireRequest, number: int, created_s: int
    ) -> None:
        self._options = options
        self._number = number
        self._blocks = Blocks()
        self._text = _TEXT
        self._finish: Finish | None = None
        self._has_begun = False
        self._events = 0
        self._head: JsonObject = {
            "id": f"resp-{number}",
            "object": "response",
            "created_at": created_s,
            "model": request.model,
            "background": False,
            "instructions": request.system_prompt or None,
            "max_output_tokens": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
        }

    def begin(self, ahead: Finish | None = None) -> Sequence[WireEvent]:
        """Return the events of a response that is accepted."""
        if ahead is not None and ahead.raw == REFUSAL:
            self._text = _REFUSED
        self._has_begun = True
        response = self._response("in_progress")
        return [
            self._event("response.created", response=response),
            self._event("response.in_progress", response=response),
        ]

    def feed(self, part: Part) -> Sequence[WireEvent]:
        """Return the events of the next part."""
        if isinstance(part, WireState):
            return ()
        if isinstance(part, StreamError):
            return [self._error(part.fault)]
        before = [] if self._has_begun else self.begin()
        if isinstance(part, Finish):
            return [*before, *self._end(part)]
        changes = list(self._blocks.feed(part))
        return [*before, *(event for one in changes for event in self._changed(one))]

    def _changed(self, change: BlockChange) -> Iterator[WireEvent]:
        if change.block.kind == "call":
            return self._call_changed(change)
        prose = _SUMMARY if change.block.kind == "reasoning" else self._text
        return self._prose_changed(change, prose)

    def _prose_changed(self, change: BlockChange, prose: _Prose) -> Iterator[WireEvent]:
        action, block, piece = change
        place = {"item_id": self._item_id(block), "output_index": block.index, prose.place: 0}
        more: JsonObject = {"logprobs": []} if prose is _TEXT else {}
        if action == "open":
            yield self._item_event("added", block)
            yield self._event(f"{prose.part}.added", **place, part=prose.written(""))
        elif action == "grow":
            yield self._event(f"{prose.pieces}.delta", **place, delta=piece, **more)
        else:
            done = {prose.field: block.text, **more}
            yield self._event(f"{prose.pieces}.done", **place, **done)
            yield self._event(f"{prose.part}.done", **place, part=prose.written(block.text))
            yield self._item_event("done", block)

    def _call_changed(self, change: BlockChange) -> Iterator[WireEvent]:
        action, block, piece = change
        place = {"item_id": self._item_id(block), "output_index": block.index}
        if action == "open":
            yield self._item_event("added", block)
        if piece:
            yield self._event(f"{_CALL}.delta", **place, delta=piece)
        if action == "close":
            done = {"arguments": block.text, "name": block.name}
            yield self._event(f"{_CALL}.done", **place, **done)
            yield self._item_event("done", block)

    def _item_event(self, action: str, block: ReplyBlock) -> WireEvent:
        item = self._item(block, is_new=action == "added")
        name = f"response.output_item.{action}"
        return self._event(name, output_index=block.index, item=item)

    def _item_id(self, block: ReplyBlock) -> str:
        return f"{_PREFIXES[block.kind]}-{self._number}-{block.index}"

    def _item(self, block: ReplyBlock, *, is_new: bool = False) -> JsonObject:
        """Return a block as an item of the output; a new one is empty."""
        own, text = self._item_id(block), block.text
        is_cut = not block.is_whole or self._is_cut(block)
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
                call = {"call_id": block.call_id, "name": block.name}
                arguments = "" if is_new else text
                return {
                    "id": own, "type": "function_call", "status": status, **call,
                    "arguments": arguments,
                }  # fmt: skip

    def _is_cut(self, block: ReplyBlock) -> bool:
        """Return whether a block is the text that a limit or a filter has cut off."""
        has_ended = self._finish is not None and self._ending()[0] == "incomplete"
        return has_ended and block.kind == "text" and block is self._blocks.blocks[-1]

    def _end(self, finish: Finish) -> Iterator[WireEvent]:
        self._finish = finish
        if not finish.raw and finish.reason is FinishReason.INTERRUPTED:
            return
        for change in self._blocks.close():
            yield from self._changed(change)
        status, more = self._ending()
        name = "failed" if status == "cancelled" else status
        yield self._event(f"response.{name}", response=self._response(status, more))

    def _ending(self) -> tuple[str, JsonObject]:
        """Return the status of the response at its end, and the fields that say why."""
        if self._finish is None:
            return "incomplete", {}
        raw, reason = self._finish.raw, self._finish.reason
        if raw in ("cancelled", "failed") or reason is FinishReason.ERROR:
            fault = Fault(f"the model finished with {raw or reason}", code="server_error")
            return ("cancelled", {}) if raw == "cancelled" else ("failed", _failure(fault))
        if reason in (FinishReason.STOP, FinishReason.TOOL_CALLS) or self._text is _REFUSED:
            return "completed", {}
        words = {FinishReason.LENGTH: "max_output_tokens"}
        words[FinishReason.CONTENT_FILTER] = "content_filter"
        word = words.get(reason) or raw or reason.value
        return "incomplete", {"incomplete_details": {"reason": word}}

    def _error(self, fault: Fault) -> WireEvent:
        error = openai_error(fault, is_responses=True)
        match self._options.responses_error:
            case "nested":
                return self._event("error", error=error)
            case "failed":
                return self._event(
                    "response.failed", response=self._response("failed", _failure(fault))
                )
            case _:
                return self._event(
                    "error", code=error["code"], message=error["message"], param=error["param"]
                )

    def _response(self, status: str, more: JsonObject | None = None) -> JsonObject:
        """Return the response with the output so far."""
        finish = self._finish
        return {
            **self._head,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "output": [self._item(block) for block in self._blocks.blocks],
            "usage": _usage(None if finish is None else self._options.usage_of(finish)),
            **(more or {}),
        }

    def _event(self, name: str, /, **fields: Any) -> WireEvent:
        number, self._events = self._events, self._events + 1
        return WireEvent(name, wire_json({"type": name, "sequence_number": number, **fields}))

    def whole(self) -> bytes:
        """Return the response."""
        return wire_json(self._response(*self._ending())).encode()


def _failure(fault: Fault) -> JsonObject:
    error = openai_error(fault, is_responses=True)
    return {"error": {"code": error["code"] or error["type"], "message": error["message"]}}


def _usage(usage: Usage | None) -> JsonObject | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }

"""OpenAI Chat Completions, which most other providers speak too.

A stream has unnamed events: a role, pieces of text and of calls, a finish reason, the usage if the
client asks for it, `[DONE]`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from simloop import messages as values
from simloop.wire.formats import payload, replies
from simloop.wire.formats.payload import JsonObject
from simloop.wire.formats.replies import INVALID, REFUSAL, BlockChange
from simloop.wire.formats.wire_format import Stamp, WireEvent, WireReply, WireRequest, WrongRequest
from simloop.world.http import Headers, HttpBody, HttpReply, HttpRequest

refused = partial(payload.refusal, "openai")


@dataclass(frozen=True, slots=True)
class OpenAIFormat(replies.WireFormat):
    """The replies of OpenAI's formats that are no output: headers, errors and refusals."""

    hosts: ClassVar[str] = r"api\.openai\.com"
    errors: ClassVar[dict[int | str, replies.ErrorWords]] = replies.error_words("openai")

    def error_body(self, fault: values.Fault, number: int) -> JsonObject:  # noqa: ARG002 - the class above has it
        words = replies.words_of(fault, self.errors, "server_error", INVALID)
        code = fault.code or words.code
        if fault.code_is_type:
            words, code = words._replace(type=fault.code), None
        error = {"message": replies.message_of(fault, words), "type": words.type}
        return {"error": {**error, "param": words.param, "code": code}}

    def refuse(self, wrong: WrongRequest, stamp: Stamp) -> HttpReply:
        param, code = wrong.key or None, wrong.code or None
        error = {"message": wrong.message, "type": INVALID, "param": param, "code": code}
        headers = (("content-type", replies.JSON), *self.every(stamp))
        body = payload.wire_json({"error": error}).encode()
        return HttpReply(wrong.status, headers, HttpBody(body))

    def every(self, stamp: Stamp, failure: values.StreamError | None = None) -> Headers:
        limits = self.limits("x-ratelimit-{field}-{of}", "1m0s", failure)
        return (("x-request-id", replies.request_id(stamp.number)), *limits)


_ROLES = "'system', 'assistant', 'user', 'tool', and 'developer'"


@dataclass(frozen=True, slots=True)
class OpenAIChat(OpenAIFormat):
    """The format of `/chat/completions`."""

    name: ClassVar[str] = "openai-chat"
    path: ClassVar[str] = "/chat/completions"
    paths: ClassVar[str] = path

    def read(self, request: HttpRequest) -> WireRequest:
        body = payload.body_of(request)
        if body.get("n") not in (None, 1):
            words = "A script has one reply to each request: send n=1."
            raise WrongRequest("n", words, is_limit=True)
        system, messages = _read_messages(body)
        form = payload.object_at(body, "response_format", "")
        offered = tuple(_read_tool(tool, key) for key, tool in payload.objects_at(body, "tools"))
        tools, forced = payload.chosen(body, offered)
        return WireRequest(
            payload.model_of(body), system, messages, tools, streams=bool(body.get("stream")),
            reports_usage=bool(payload.object_at(body, "stream_options", "").get("include_usage")),
            output=payload.output_of(form, "response_format") or forced,
        )  # fmt: skip

    def encoder(self, request: WireRequest, stamp: Stamp) -> "_ChatEncoder":
        return _ChatEncoder(self, request, stamp)

    def joined(self, events: Iterable[JsonObject]) -> JsonObject:
        whole: dict[str, Any] = {}
        message: dict[str, Any] = {}
        calls: dict[Any, dict[str, Any]] = {}
        finish = None
        for event in events:
            whole |= {name: event[name] for name in ("usage", "error") if event.get(name)}
            for key, choice in payload.objects_at(event, "choices"):
                delta = payload.object_at(choice, "delta", key)
                for name in ("content", "refusal", "reasoning_content", "reasoning"):
                    message[name] = message.get(name, "") + payload.text_at(delta, name, key)
                for place, piece in payload.objects_at(delta, "tool_calls", key):
                    call = calls.setdefault(piece.get("index"), {})
                    call["id"] = call.get("id") or payload.text_at(piece, "id", place)
                    inner = call.setdefault("function", {})
                    more = payload.object_at(piece, "function", place)
                    for field in ("name", "arguments"):
                        inner[field] = inner.get(field, "") + payload.text_at(more, field, place)
                finish = choice.get("finish_reason") or finish
        choice = {"message": {**message, "tool_calls": [*calls.values()]}, "finish_reason": finish}
        return {**whole, "choices": [choice]}

    def reply(self, body: JsonObject) -> WireReply:
        key, choice = next(payload.objects_at(body, "choices"), ("choices", {}))
        message = payload.object_at(choice, "message", key)
        if message.get("content") is None:  # a request has no empty reply
            message = {**message, "content": ""}
        counts = payload.object_at(body, "usage", "")
        return WireReply(
            _read_assistant(message, f"{key}.message"),
            payload.text_at(choice, "finish_reason", key),
            payload.usage_of(counts, "prompt_tokens", "completion_tokens"),
        )


def _read_messages(body: JsonObject) -> tuple[str, tuple[values.Message, ...]]:
    """Return the system prompt and the messages; a later one of the system is one of the user."""
    if not (given := payload.list_at(body, "messages")):
        raise refused("no messages", key="messages")
    system: list[str] = []
    messages: list[values.Message] = []
    for key, message in payload.objects_at(body, "messages"):
        role = payload.text_at(message, "role", key)
        if role in ("system", "developer") and not messages:
            system.append(payload.content_text(message.get("content"), f"{key}.content"))
        else:
            messages.append(_read_message(message, role, key))
    if not messages:  # a request has a message for the model to answer
        messages.append(values.UserMessage(system.pop()))
    _check_calls(given)
    return "\n\n".join(system), tuple(messages)


def _read_message(message: JsonObject, role: str, key: str) -> values.Message:
    content = message.get("content")
    match role:
        case "user" | "system" | "developer":
            return values.UserMessage(payload.content_text(content, f"{key}.content"))
        case "tool":
            call_id = payload.text_at(message, "tool_call_id", key)
            return values.ToolMessage(call_id, payload.content_text(content, f"{key}.content"))
        case "assistant":
            return _read_assistant(message, key)
        case _:
            raise refused("role", role, _ROLES, key=f"{key}.role")


def _read_assistant(message: JsonObject, key: str) -> values.AssistantMessage:
    content = message.get("content")
    refusal = payload.text_at(message, "refusal", key)
    given = payload.objects_at(message, "tool_calls", key)
    calls = tuple(_read_call(call, place) for place, call in given)
    if content is None and not calls and not refusal and not message.get("audio"):
        raise refused("no content", key=f"{key}.content")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    text = payload.content_text(content, f"{key}.content", "") or refusal
    return values.AssistantMessage(text, calls, reasoning if isinstance(reasoning, str) else "")


def _read_call(call: JsonObject, key: str) -> values.ToolCall:
    kind, field = ("custom", "input") if call.get("type") == "custom" else ("function", "arguments")
    inner, place = payload.object_at(call, kind, key), f"{key}.{kind}"
    name, arguments = payload.text_at(inner, "name", place), payload.text_at(inner, field, place)
    return values.ToolCall(payload.text_at(call, "id", key), name, arguments)


def _check_calls(given: Sequence[JsonObject]) -> None:
    open_ids: list[str] = []
    answered: set[str] | None = None  # of the message with calls that tool messages may answer
    for index, message in enumerate([*given, {}]):
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if answered is None:
                raise refused("no calls", key=f"messages.[{index}].role")
            if call_id not in open_ids:
                raise refused("unexpected", call_id, key=f"messages.[{index}].tool_call_id")
            answered.add(str(call_id))
            continue
        if unanswered := [one for one in open_ids if one not in (answered or ())]:
            place = f"messages.[{index}].role" if message else "messages"
            raise refused("missing", ", ".join(unanswered), key=place)
        open_ids = [call.get("id", "") for call in message.get("tool_calls") or ()]
        answered = set() if open_ids else None


def _read_tool(tool: JsonObject, key: str) -> values.ToolSpec:
    if (kind := tool.get("type")) not in ("function", "custom"):
        return payload.provider_tool(tool, key)
    return payload.tool_spec(payload.object_at(tool, kind, key), f"{key}.{kind}", "parameters")


class _ChatEncoder(replies.BlockEncoder):
    def __init__(self, form: OpenAIChat, request: WireRequest, stamp: Stamp) -> None:
        super().__init__(form, request, stamp)
        self._text_field = "content"
        kind = "chat.completion.chunk" if request.streams else "chat.completion"
        self._head: dict[str, Any] = {"id": f"chatcmpl-{stamp.number}", "object": kind}
        self._head |= {"created": stamp.created_s, "model": request.model}

    def begin(self, ahead: values.Finish | None = None) -> Sequence[WireEvent]:
        if ahead is not None and ahead.raw == REFUSAL:
            self._text_field = "refusal"
        return ()

    def opened(self) -> Iterator[WireEvent]:
        is_call = bool(self.blocks) and self.blocks[0].kind == "call"
        content = None if is_call or self._text_field == "refusal" else ""
        yield self._chunk({"role": "assistant", "content": content, "refusal": None})

    def changed(self, change: BlockChange) -> Iterator[WireEvent]:
        """Yield the chunk of a piece; no chunk says that a block closes."""
        action, block, piece = change
        if action == "close":
            return
        if block.kind == "call":
            call: JsonObject = {"index": block.nth, "function": {"arguments": piece}}
            if action == "open":
                function = {"name": block.name, "arguments": piece}
                call = {"index": block.nth, "id": block.call_id, "type": "function"}
                call = {**call, "function": function}
            yield self._chunk({"tool_calls": [call]})
        elif action == "grow":
            name = self._text_field if block.kind == "text" else self.options.chat_reasoning
            yield self._chunk({name: piece})

    def ended(self, finish: values.Finish) -> Iterator[WireEvent]:
        in_finish = self.options.chat_usage == "finish-chunk"
        usage = self._usage(finish)
        yield self._chunk({}, self._word(), usage if in_finish else None)
        if usage and not in_finish and self.request.reports_usage:
            yield WireEvent("", payload.wire_json(self._head | {"choices": [], "usage": usage}))
        yield WireEvent("", "[DONE]")

    def _word(self) -> str | None:
        if self.finish is None:
            return None
        if self._text_field == "refusal":
            return "stop"  # OpenAI says `stop`, and the message says that it is a refusal
        return replies.finish_word("openai-chat", self.finish)

    def _chunk(
        self, delta: JsonObject, finish: str | None = None, usage: JsonObject | None = None
    ) -> WireEvent:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        # A client that asks for usage gets the field in each chunk, which is null until the last.
        more = {"usage": usage} if usage or self.request.reports_usage else {}
        return WireEvent("", payload.wire_json({**self._head, "choices": [choice], **more}))

    def failed(self, fault: values.Fault) -> WireEvent:
        how, body = self.options.chat_error, self.form.error_body(fault, 0)
        if how == "chunk":
            choice = {"index": 0, "delta": {"role": "assistant", "content": ""}}
            choices = [choice | {"logprobs": None, "finish_reason": None}]
            body = {**self._head, "choices": choices, **body}
        return WireEvent("error" if how == "event" else "", payload.wire_json(body))

    def whole(self) -> bytes:
        finish, text, reasoning = self.finish, self.text("text"), self.text("reasoning")
        calls = [
            {"id": one.call_id, "type": "function",
             "function": {"name": one.name, "arguments": one.text}}
            for one in self.of_kind("call")
        ]  # fmt: skip
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        message[self._text_field] = text if text or not calls else None
        message |= {"tool_calls": calls} if calls else {}
        message |= {self.options.chat_reasoning: reasoning} if reasoning else {}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._word()}
        usage = None if finish is None else self._usage(finish)
        more = {"usage": usage} if usage else {}
        return payload.wire_json({**self._head, "choices": [choice], **more}).encode()

    def _usage(self, finish: values.Finish) -> JsonObject | None:
        usage, names = self.options.usage_of(finish), ("prompt_tokens", "completion_tokens")
        return None if usage is None else payload.counts_of(usage, *names, "total_tokens")

"""Messages, replies and tools as providers, frameworks, agents and trace stores write them.

One reader for all, because one export holds several dialects. A value that is none of a message's
is left out, and a part without a text is one such as `[image]`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from simloop import messages as values
from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolSpec, UserMessage
from simloop.recordings.files import at, items, mapping, word
from simloop.recordings.recording import Beginning
from simloop.wire.formats.payload import object_text, usage_of, wire_json
from simloop.wire.formats.wire_format import WrongRequest

NAMES: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
"""What the dialects call the parts of a message, and those of a span."""
_KNOWN = NAMES["messages"]
_ITEMS, _TEXTS = _KNOWN["items"], _KNOWN["texts"]  # a reply is several items of a response


def parsed(value: Any) -> Any:
    """Return a value, or the value of the JSON text that it is."""
    return values.json_value(value, value) if isinstance(value, str) else value


def text_of(value: Any) -> str:
    """Return the text that a model is sent for a value: of a text, of parts, or of any JSON."""
    if isinstance(value, list) and all("type" in mapping(each) for each in value):
        return "\n".join(word(each, *_TEXTS) or f"[{word(each, 'type')}]" for each in value)
    return value if isinstance(value, str) else "" if value is None else wire_json(value)


class Dialogue:
    """The requests of a recording, which are read once where one repeats the one before it."""

    def __init__(self) -> None:
        self._given: Sequence[Any] = ()
        self._system, self._found = list[str](), list[Message]()

    def read(self, given: Any) -> tuple[str, Sequence[Message]]:
        """Return the system prompt and the messages of a request, or of a reply."""
        listed = given if isinstance(given, Beginning) else [*_listed(given)]
        known = len(self._given)
        if listed[:known] != self._given:
            known, self._system, self._found = 0, [], []
        for each in listed[known:]:
            for one in each if isinstance(each, list) else [each]:
                self._add(unwrapped(one))
        self._given = listed
        if self._system and not self._found:  # a request has a message for the model to answer
            return "\n\n".join(self._system[:-1]), (UserMessage(self._system[-1]),)
        return "\n\n".join(self._system), Beginning(self._found, len(self._found))

    def _add(self, said: Mapping[str, Any]) -> None:
        kind = word(said, "type").lower()
        role = _KNOWN["roles"].get(word(said, "role").lower() or kind, "")
        read = [*messages_in(said, role)] if role else []
        match self._found[-1:], read:
            case _ if role == "system" and not self._found:
                self._system += [each.text for each in read]
            case [AssistantMessage() as last], [AssistantMessage() as more] if kind in _ITEMS:
                text, thought = last.text + more.text, last.reasoning + more.reasoning
                whole = AssistantMessage(text, last.calls + more.calls, thought)
                self._found = [*self._found[:-1], whole]  # an earlier request has the other list
            case _:
                self._found += read


def _listed(given: Any) -> Iterator[Any]:
    value = parsed(given)
    if isinstance(value, dict) and (inner := at(value, *_KNOWN["lists"])) is not None:
        if system := at(value, "system", "instructions"):
            yield {"role": "system", "content": system}
        value = parsed(inner)
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict) and at(value, "role", "type", "kwargs"):
        yield value
    elif isinstance(given, str) and given:
        yield given


def unwrapped(value: Any) -> Mapping[str, Any]:
    """Return a message without what LangChain, OpenInference or a choice puts around it."""
    outer = mapping(value)
    if isinstance(value, str):
        return {"role": "user", "content": value}
    if not (inner := mapping(value, "message", "kwargs", "data")) or "role" in outer:
        return outer
    if "message" in outer:
        return unwrapped(inner) if "kwargs" in inner else {"role": "assistant", **inner}
    kind = [str(each) for each in items(outer, "id")[-1:]] or [word(outer, "type")]
    return {**inner, "type": kind[0].replace("Message", "")}


def assistant_of(message: Mapping[str, Any]) -> AssistantMessage:
    """Return the reply that a message is."""
    found = messages_in(message, "assistant")
    return next(each for each in found if isinstance(each, AssistantMessage))


def messages_in(message: Mapping[str, Any], role: str) -> Iterator[Message]:
    """Yield the messages that one of a dialect is: a result of each tool, or one of its role."""
    texts, thoughts = list[str](), [word(message, "reasoning_content", "reasoning")]
    called = [*map(mapping, items(message, "tool_calls") or [message.get("function_call")])]
    called = [each for each in called if each]
    if message.get("type") == "function_call":
        called = [dict(message)]
    results = list[Mapping[str, Any]]()
    has_calls = bool(called)
    content = at(message, "parts", "contents", "content", "text") or ()
    for given in content if isinstance(content, list) else [content]:
        part = mapping(given, "message_content") or mapping(given)
        kind = word(part, "type")
        if isinstance(given, str):
            texts.append(given)
        elif kind in _KNOWN["calls"]:
            called += [] if has_calls else [part]
        elif kind in _KNOWN["results"]:
            results.append(part)
        elif kind in _KNOWN["thoughts"]:
            thoughts.append(word(part, "content", "thinking", "reasoning", "text"))
        elif part:
            texts.append(word(part, *_TEXTS) or ("" if kind in ("", "text") else f"[{kind}]"))
    if role == "assistant":
        calls, reasoning = tuple(map(_call, called)), thoughts[0] or "".join(thoughts)
        yield AssistantMessage("".join(texts), calls, reasoning)
        return
    yield from map(_result, results or ([message] if role == "tool" else []))
    if role != "tool" and (texts or not results):
        yield UserMessage("\n".join(texts))


def _call(given: Mapping[str, Any]) -> ToolCall:
    call = mapping(given, "tool_call") or given
    inner = mapping(call, "function") or call
    said = at(inner, "arguments", "args", "input")
    arguments = said if isinstance(said, str) else wire_json(said or {})
    name = word(inner, "name") or word(call, "function")
    return ToolCall(word(call, "call_id", "id", "tool_call_id"), name, arguments)


def _result(part: Mapping[str, Any]) -> ToolMessage:
    names = ("response", "result", "output", "content")
    value = next((part[name] for name in names if part.get(name) is not None), None)
    failed = bool(at(part, "is_error", "isError", "error") or part.get("status") == "error")
    call_id = word(part, "tool_call_id", "tool_use_id", "toolCallId", "call_id", "id", "name")
    return ToolMessage(call_id, text_of(value) or word(part, "error.message"), failed)


def reply_of(given: Any) -> tuple[AssistantMessage, str] | None:
    """Return a reply and the finish reason that stands beside it; None if there is no reply."""
    value = parsed(given)
    outer = at(value, *_KNOWN["lists"]) or value
    while isinstance(outer, list) and outer:
        outer = outer[0]
    finish = word(
        outer, "finish_reason", "stop_reason", "generation_info.finish_reason",
        "message.kwargs.response_metadata.finish_reason",
    ) or word(value, "finish_reason", "stop_reason")  # fmt: skip
    finish = {"tool_call": "tool_calls"}.get(finish, finish)
    if isinstance(outer, str) and outer:
        return AssistantMessage(outer), finish
    if isinstance(at(value, "text"), str) and "role" not in value:
        value = {"role": "assistant", "content": value["text"]}
    said = [each for each in Dialogue().read(value)[1] if isinstance(each, AssistantMessage)]
    return (said[0], finish) if said else None


def usage_in(counts: Any) -> values.Usage | None:
    """Return the token counts in an object, under any of their names."""
    found = (usage_of(mapping(counts), *pair) for pair in _KNOWN["counts"])
    return next((each for each in found if each is not None), None)


def tools_of(given: Any) -> tuple[ToolSpec, ...]:
    """Return the tools that a request offers."""
    return tuple(each for value in items(parsed(given)) for each in _tool(value))


def _tool(given: Any) -> Iterator[ToolSpec]:
    whole = mapping(parsed(given))
    outer = mapping(whole, "tool") or whole
    if "name" not in outer and "json_schema" in outer:
        outer = mapping(parsed(outer["json_schema"]))
    tool = mapping(outer, "function") or outer
    if name := word(tool, "name"):
        schema = mapping(parsed(at(tool, *_KNOWN["schemas"])))
        try:
            text = object_text(schema or {"type": "object"}, name)
        except WrongRequest:
            text = '{"type":"object"}'
        yield ToolSpec(name, word(tool, "description"), msgspec.Raw(text.encode()))

"""The input of OpenAI Responses: a list of items, some of which make one message.

Not here: the replies (openai_responses.py). The rules to keep: a result finds its call wherever it
stands, as at the provider; and no response is stored, so that a request has all that it needs.
"""

from collections.abc import Mapping
from typing import Any

from simloop.escape import writable
from simloop.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from simloop.wire.formats.payload import (
    JsonObject,
    content_text,
    list_at,
    model_of,
    object_text,
    objects,
    part_text,
    provider_tool,
    text_at,
    tool_spec,
)
from simloop.wire.formats.wire_format import WireRequest, WrongRequest

_NO_INPUT = (
    """One of "input" or "previous_response_id" or 'prompt' or 'conversation_id' """
    "must be provided."
)
_NOT_STORED = "simloop stores no responses: send the whole conversation as `input`."


def read_body(body: Mapping[str, Any]) -> WireRequest:
    """Return the contents of a request's body. Raises WrongRequest."""
    _check_stored(body)
    model = model_of(body)
    reader = _Reader()
    instructions = content_text(body.get("instructions"), "instructions")
    reader.system += [instructions] if instructions else []
    given = body.get("input")
    if isinstance(given, str):
        reader.messages.append(UserMessage(writable(given)))
    else:
        for key, item in objects(list_at(body, "input"), "input"):
            reader.read(item, key)
    system, messages = reader.conversation()
    tools = objects(list_at(body, "tools"), "tools")
    return WireRequest(
        model,
        system,
        messages,
        tuple(_read_tool(tool, key) for key, tool in tools),
        streams=bool(body.get("stream")),
    )


def _check_stored(body: JsonObject) -> None:
    previous = body.get("previous_response_id")
    if previous is not None:
        raise WrongRequest(
            "previous_response_id",
            f"Previous response with id '{previous}' not found. {_NOT_STORED}",
            "previous_response_not_found",
            is_limit=True,
        )
    if body.get("conversation") is not None:
        words = f"Conversation not found. {_NOT_STORED}"
        raise WrongRequest("conversation", words, is_limit=True)


class _Reader:
    """Reads the items of an input; the items of one reply become one message."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.messages: list[Message] = []
        self._text: str | None = None  # of the reply whose items come
        self._reasoning = ""
        self._calls: list[ToolCall] = []
        self._call_ids: list[str] = []
        self._answered: list[str] = []

    def read(self, item: JsonObject, key: str) -> None:
        """Read the next item."""
        kind = text_at(item, "type", key) or "message"
        if kind == "message":
            self._read_message(item, key)
        elif kind == "reasoning":
            parts = [*list_at(item, "summary", key), *list_at(item, "content", key)]
            self._reasoning += "".join(part_text(part, key) for part in parts)
        elif kind == "item_reference":
            words = f"Item with id '{item.get('id')}' not found. {_NOT_STORED}"
            raise WrongRequest("input", words)
        elif kind.endswith("_output") and "call_id" in item:
            self._read_result(item, key)
        elif kind.endswith("_call") and "call_id" in item:
            call = _read_call(item, kind, key)
            self._calls.append(call)
            self._call_ids.append(call.id)
        else:  # the provider's own tools, and items that simloop has no word for
            self._text = (self._text or "") + f"[{kind}]"

    def _read_message(self, item: JsonObject, key: str) -> None:
        role, content = text_at(item, "role", key), item.get("content")
        if role == "assistant":
            if self._text is not None:  # one reply has one text, so that this is another one
                self._end_reply()
            self._text = content_text(content, f"{key}.content", "")
            return
        self._end_reply()
        text = content_text(content, f"{key}.content")
        if role in ("system", "developer") and not self.messages:
            self.system.append(text)
        elif role in ("user", "system", "developer"):
            self.messages.append(UserMessage(text))
        else:
            known = "'assistant', 'system', 'developer', and 'user'"
            words = f"Invalid value: '{role}'. Supported values are: {known}."
            raise WrongRequest(f"{key}.role", words, "invalid_value")

    def _read_result(self, item: JsonObject, key: str) -> None:
        self._end_reply()
        call_id, output = text_at(item, "call_id", key), item.get("output")
        if call_id not in self._call_ids:
            raise WrongRequest(
                "input", f"No tool call found for function call output with call_id {call_id}."
            )
        self._answered.append(call_id)
        if isinstance(output, dict):
            output = [output]
        self.messages.append(ToolMessage(call_id, content_text(output, f"{key}.output")))

    def _end_reply(self) -> None:
        if self._text is not None or self._calls or self._reasoning:
            calls = tuple(self._calls)
            self.messages.append(AssistantMessage(self._text or "", calls, self._reasoning))
        self._text, self._reasoning, self._calls = None, "", []

    def conversation(self) -> tuple[str, tuple[Message, ...]]:
        """Return the system prompt and the messages, after the last item."""
        self._end_reply()
        if not self.messages and not self.system:
            raise WrongRequest("input", _NO_INPUT, "missing_required_parameter")
        for call_id in self._call_ids:
            if call_id not in self._answered:
                raise WrongRequest("input", f"No tool output found for function call {call_id}.")
        if not self.messages:  # a request has a message for the model to answer
            self.messages.append(UserMessage(self.system.pop()))
        return "\n\n".join(self.system), tuple(self.messages)


def _read_call(item: JsonObject, kind: str, key: str) -> ToolCall:
    """Return a call of a function, of a custom tool, or of a tool of the provider."""
    name = text_at(item, "name", key) or kind
    if "input" in item or "arguments" in item:
        arguments = text_at(item, "input" if "input" in item else "arguments", key)
    else:
        arguments = object_text(item.get("action") or item.get("operation") or {}, f"{key}.action")
    return ToolCall(text_at(item, "call_id", key), name, arguments)


def _read_tool(tool: JsonObject, key: str) -> ToolSpec:
    if tool.get("type") in ("function", "custom"):
        return tool_spec(tool, key, "parameters")
    return provider_tool(tool, key)

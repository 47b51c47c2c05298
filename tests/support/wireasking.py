"""A conversation as the body of a request, as clients write it in each wire format."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from simloop.messages import (
    AssistantMessage,
    Message,
    SummaryMessage,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

Json = dict[str, Any]


def ask_chat(system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Json:
    """Return the body of Chat Completions."""
    given: list[Json] = [{"role": "system", "content": system}] if system else []
    wire_tools = [
        {"type": "function", "function": {
            "name": one.name, "description": one.description,
            "parameters": json.loads(bytes(one.parameters))}}
        for one in tools
    ]  # fmt: skip
    return {"model": "m", "messages": given + [_chat(one) for one in messages], "tools": wire_tools}


def _chat(message: Message) -> Json:
    match message:
        case UserMessage() | SummaryMessage():
            return {"role": "user", "content": message.text}
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        case AssistantMessage():
            calls = [
                {"id": one.id, "type": "function",
                 "function": {"name": one.name, "arguments": one.arguments}}
                for one in message.calls
            ]  # fmt: skip
            more: Json = {"tool_calls": calls} if calls else {}
            more |= {"reasoning_content": message.reasoning} if message.reasoning else {}
            return {"role": "assistant", "content": message.text or None, **more}


def ask_responses(system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Json:
    """Return the body of Responses."""
    wire_tools = [
        {"type": "function", "name": one.name, "description": one.description,
         "parameters": json.loads(bytes(one.parameters))}
        for one in tools
    ]  # fmt: skip
    items = [item for one in messages for item in _items(one)]
    return {"model": "m", "instructions": system or None, "input": items, "tools": wire_tools}


def _items(message: Message) -> Iterator[Json]:
    match message:
        case UserMessage() | SummaryMessage():
            yield {"role": "user", "content": message.text}
        case ToolMessage():
            call = {"call_id": message.call_id, "output": message.text}
            yield {"type": "function_call_output", **call}
        case AssistantMessage():
            if message.reasoning:
                summary = [{"type": "summary_text", "text": message.reasoning}]
                yield {"type": "reasoning", "id": "rs", "summary": summary}
            if message.text:
                content = [{"type": "output_text", "text": message.text, "annotations": []}]
                yield {"type": "message", "role": "assistant", "content": content}
            for one in message.calls:
                call = {"call_id": one.id, "name": one.name, "arguments": one.arguments}
                yield {"type": "function_call", **call}


def ask_anthropic(system: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Json:
    """Return the body of Anthropic Messages: results in a row are in one message."""
    wire_tools = [
        {"name": one.name, "description": one.description,
         "input_schema": json.loads(bytes(one.parameters))}
        for one in tools
    ]  # fmt: skip
    given: list[Json] = []
    for kind, group in groupby(messages, type):
        if kind is ToolMessage:
            blocks = [block for one in group for block in _content(one)]
            given.append({"role": "user", "content": blocks})
            continue
        role = "assistant" if kind is AssistantMessage else "user"
        given += [{"role": role, "content": list(_content(one))} for one in group]
    more = {"system": system} if system else {}
    return {"model": "m", "max_tokens": 100, "messages": given, "tools": wire_tools, **more}


def _content(message: Message) -> Iterator[Json]:
    match message:
        case UserMessage() | SummaryMessage():
            yield {"type": "text", "text": message.text}
        case ToolMessage():
            result = {"tool_use_id": message.call_id, "content": message.text}
            yield {"type": "tool_result", **result}
        case AssistantMessage():
            if message.reasoning:
                yield {"type": "thinking", "thinking": message.reasoning, "signature": "s"}
            if message.text:
                yield {"type": "text", "text": message.text}
            for one in message.calls:
                given = {"id": one.id, "name": one.name, "input": json.loads(one.arguments)}
                yield {"type": "tool_use", **given}


ASKS: Mapping[str, Callable[[str, Sequence[Message], Sequence[ToolSpec]], Json]] = {
    "openai-chat": ask_chat,
    "openai-responses": ask_responses,
    "anthropic-messages": ask_anthropic,
}

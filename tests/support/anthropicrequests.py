"""The requests of Anthropic Messages: the bodies that clients send, and what they are read as."""

from typing import Any

from wirereading import ANYTHING, CALL, CANONICAL, MODEL, OTHER, SCHEMA, USER, RequestCases

from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage


def sent(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 9, "messages": list(messages), **more}


def use(call: ToolCall, given: Any = None) -> dict[str, Any]:
    value = {"at": int(call.arguments[-2])} if given is None else given
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": value}


def asks(*calls: ToolCall, text: str = "") -> dict[str, Any]:
    said = [{"type": "text", "text": text}] if text else []
    return {"role": "assistant", "content": [*said, *map(use, calls)]}


def result(call: ToolCall, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call.id, "content": "42", **more}


def says(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


READ: dict[str, tuple[dict[str, Any], str, list[Message]]] = {
    "text": (sent(USER), "", [UserMessage("hi")]),
    "a system text": (sent(USER, system="Be brief."), "Be brief.", [UserMessage("hi")]),
    "system blocks": (
        sent(USER, system=[text("Be brief."), text("Be kind.")]), "Be brief.\nBe kind.",
        [UserMessage("hi")],
    ),
    "system messages": (
        sent({"role": "system", "content": "Be kind."}, USER,
             {"role": "system", "content": "Be quick."}, system="Be brief."),
        "Be brief.\n\nBe kind.", [UserMessage("hi"), UserMessage("Be quick.")],
    ),
    "parts": (
        sent(says(text("see"), {"type": "image", "source": {}}, {"type": "document"},
                  {"type": "container_upload"})),
        "", [UserMessage("see\n[image]\n[file]\n[container_upload]")],
    ),
    "several results in one message": (
        sent(USER, asks(CALL, OTHER, text="So"), says(
            result(OTHER, is_error=True), result(CALL, content=[text("4"), text("2")]),
            text("go on"))),
        "", [UserMessage("hi"), AssistantMessage("So", (CALL, OTHER)),
             ToolMessage("call-2", "42", is_error=True), ToolMessage("call-1", "4\n2"),
             UserMessage("go on")],
    ),
    "results in several messages": (
        sent(USER, asks(CALL, OTHER), says(result(CALL)), says(result(OTHER))), "",
        [UserMessage("hi"), AssistantMessage("", (CALL, OTHER)), ToolMessage("call-1", "42"),
         ToolMessage("call-2", "42")],
    ),
    "calls in several messages": (
        sent(USER, asks(CALL), asks(OTHER), says(result(CALL), result(OTHER))), "",
        [UserMessage("hi"), AssistantMessage("", (CALL,)), AssistantMessage("", (OTHER,)),
         ToolMessage("call-1", "42"), ToolMessage("call-2", "42")],
    ),
    "a result without content": (
        sent(USER, asks(CALL), says({"type": "tool_result", "tool_use_id": "call-1"})), "",
        [UserMessage("hi"), AssistantMessage("", (CALL,)), ToolMessage("call-1", "")],
    ),
    "thinking": (
        sent(USER, {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "x"}, text("a"), text("b")]}),
        "", [UserMessage("hi"), AssistantMessage("ab", reasoning="Hm")],
    ),
    "a tool of the provider": (
        sent(USER, {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "x"}, text("So")]}),
        "", [UserMessage("hi"), AssistantMessage("[server_tool_use][web_search_tool_result]So")],
    ),
    "users in a row": (sent(USER, USER), "", [UserMessage("hi"), UserMessage("hi")]),
    "an empty last assistant": (
        sent(USER, {"role": "assistant", "content": []}), "",
        [UserMessage("hi"), AssistantMessage("")],
    ),
    "a lone surrogate": (sent(says(text("a\ud800b"))), "", [UserMessage("a\ufffdb")]),
}  # fmt: skip
TOOLS = [
    {"name": "a", "description": "A", "input_schema": SCHEMA},
    {"type": "custom", "name": "b", "input_schema": {"type": "object"}},
    {"type": "web_search_20260318", "name": "web_search"},
]
FOUND_WITHOUT = "`tool_use` ids were found without `tool_result` blocks immediately after: "
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no model": ({"max_tokens": 1, "messages": [USER]}, "model", "must provide a model"),
    "no limit": ({"model": "m", "messages": [USER]}, "max_tokens", "Field required"),
    "no messages": (sent(), "messages", "at least one message is required"),
    "a role": (sent({"role": "robot", "content": "x"}), "messages.0.role", "Input should be"),
    "an empty user": (sent({"role": "user", "content": ""}), "messages.0", "non-empty content"),
    "an empty assistant": (
        sent(USER, {"role": "assistant", "content": []}, USER), "messages.1", "non-empty content",
    ),
    "an empty text": (sent(says(text(""))), "messages", "text content blocks must be non-empty"),
    "a blank text": (sent(says(text("hi"), text(" \n"))), "messages", "non-whitespace text"),
    "a call without a result": (
        sent(USER, asks(CALL, OTHER), says(result(OTHER)), USER), "messages.1",
        f"{FOUND_WITHOUT}call-1. Each",
    ),
    "a last call without a result": (sent(USER, asks(CALL)), "messages.1", FOUND_WITHOUT),
    "a text before the result": (
        sent(USER, asks(CALL), says(text("so"), result(CALL))), "messages.1", FOUND_WITHOUT,
    ),
    "a result without a call": (
        sent(USER, asks(CALL), says(result(CALL), result(OTHER))), "messages.2.content.1",
        "unexpected `tool_use_id` found in `tool_result` blocks: call-2.",
    ),
    "a result of an older call": (
        sent(USER, asks(CALL), says(result(CALL)), asks(OTHER, text="So"),
             says(result(OTHER), result(CALL))),
        "messages.4.content.1", "unexpected `tool_use_id`",
    ),
    "two results of a call": (
        sent(USER, asks(CALL), says(result(CALL), result(CALL))), "messages.1",
        "Found multiple `tool_result` blocks with id: call-1",
    ),
    "two calls with one id": (
        sent(USER, asks(CALL, CALL), says(result(CALL))), "messages.1.content.1", "must be unique",
    ),
    "arguments that are text": (
        sent(USER, {"role": "assistant", "content": [use(CALL, "{oops")]}, says(result(CALL))),
        "messages.1.content.0.tool_use.input", "Input should be a valid dictionary",
    ),
}  # fmt: skip
ANTHROPIC_REQUESTS = RequestCases(
    read=READ,
    tools=(
        sent(USER, tools=TOOLS),
        [("a", "A", CANONICAL), ("b", "", ANYTHING), ("web_search_20260318", "", ANYTHING)],
    ),
    streams=[(sent(USER), False, True), (sent(USER, stream=True), True, True)],
    refused=WRONG,
)

"""The requests of Chat Completions: the bodies that clients send, and what they are read as."""

from typing import Any

from wirereading import ANYTHING, CALL, CANONICAL, MODEL, OTHER, SCHEMA, USER, RequestCases

from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage


def sent(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": list(messages), **more}


def wire_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def asks(*calls: ToolCall, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [wire_call(call) for call in calls], **more}


def result(call: ToolCall, content: Any = "42") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": content}


READ: dict[str, tuple[list[dict[str, Any]], str, list[Message]]] = {
    "text": ([USER], "", [UserMessage("hi")]),
    "a system message": ([{"role": "system", "content": "Be brief."}, USER], "Be brief.",
                         [UserMessage("hi")]),
    "several of them": (
        [{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
         {"role": "system", "content": "Be kind."}, USER],
        "Be brief.\n\nBe kind.", [UserMessage("hi")],
    ),
    "a late system message": (
        [USER, {"role": "system", "content": "Be brief."}], "",
        [UserMessage("hi"), UserMessage("Be brief.")],
    ),
    "nothing but a system message": (
        [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}], "a",
        [UserMessage("b")],
    ),
    "parts": (
        [{"role": "user", "content": [
            {"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}},
            {"type": "input_audio"}, {"type": "file"}, {"type": "hologram"}, "plain",
        ]}],
        "", [UserMessage("see\n[image]\n[audio]\n[file]\n[hologram]\nplain")],
    ),
    "calls and results": (
        [USER, asks(CALL, OTHER, content=None), result(OTHER), result(CALL, [
            {"type": "text", "text": "4"}, {"type": "text", "text": "2"}])],
        "", [UserMessage("hi"), AssistantMessage("", (CALL, OTHER)), ToolMessage("call-2", "42"),
             ToolMessage("call-1", "4\n2")],
    ),
    "text with a call": (
        [USER, asks(CALL, content="So"), result(CALL)], "",
        [UserMessage("hi"), AssistantMessage("So", (CALL,)), ToolMessage("call-1", "42")],
    ),
    "a custom call": (
        [USER, {"role": "assistant", "tool_calls": [
            {"id": "call-1", "type": "custom", "custom": {"name": "look", "input": "here"}}]},
         result(CALL)],
        "", [UserMessage("hi"), AssistantMessage("", (ToolCall("call-1", "look", "here"),)),
             ToolMessage("call-1", "42")],
    ),
    "a refusal": (
        [USER, {"role": "assistant", "content": None, "refusal": "No"}], "",
        [UserMessage("hi"), AssistantMessage("No")],
    ),
    "reasoning": (
        [USER, {"role": "assistant", "content": [{"type": "text", "text": "a"},
                                                 {"type": "refusal", "refusal": "b"}],
                "reasoning_content": "Hm"}],
        "", [UserMessage("hi"), AssistantMessage("ab", reasoning="Hm")],
    ),
    "a lone surrogate": ([{"role": "user", "content": "a\ud800b"}], "", [UserMessage("a\ufffdb")]),
    "two calls with one id": (
        [USER, asks(CALL, CALL), result(CALL), result(CALL)], "",
        [UserMessage("hi"), AssistantMessage("", (CALL, CALL)), *[ToolMessage("call-1", "42")] * 2],
    ),
}  # fmt: skip
TOOLS = [
    {"type": "function", "function": {"name": "a", "description": "A", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "b"}},
    {"type": "custom", "custom": {"name": "c", "description": "C"}},
    {"type": "web_search"},
]
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no model": ({"messages": [USER]}, "model", "you must provide a model parameter"),
    "no messages": (sent(), "messages", "Invalid 'messages': empty array."),
    "messages that are none": ({"model": "m", "messages": "hi"}, "messages", "got a string"),
    "a message that is none": ({"model": "m", "messages": ["hi"]}, "messages[0]", "an object"),
    "a role": (sent({"role": "robot"}), "messages[0].role", "Invalid value: 'robot'."),
    "a content": (sent({"role": "user", "content": 5}), "messages[0].content", "got an integer"),
    "two choices": (sent(USER, n=2), "n", "send n=1"),
    "an empty assistant": (sent(USER, {"role": "assistant", "content": None}),
                           "messages[1].content", "expected a string, got null"),
    "a call without a result": (
        sent(USER, asks(CALL, OTHER), result(OTHER), USER), "messages.[3].role",
        "did not have response messages: call-1",
    ),
    "a last call without a result": (
        sent(USER, asks(CALL)), "messages", "did not have response messages: call-1",
    ),
    "a message before the result": (
        sent(USER, asks(CALL), USER, result(CALL)), "messages.[2].role", "must be followed by tool",
    ),
    "a result without a call": (
        sent(USER, result(CALL)), "messages.[1].role", "must be a response to a preceeding message",
    ),
    "a result of another call": (
        sent(USER, asks(CALL), result(OTHER)), "messages.[2].tool_call_id", "'call-2' not found",
    ),
    "a tool without a name": (
        sent(USER, tools=[{"type": "function", "function": {}}]), "tools[0].function.name",
        "Missing required parameter",
    ),
    "a schema that is none": (
        sent(USER, tools=[{"type": "function", "function": {"name": "a", "parameters": []}}]),
        "tools[0].function.parameters", "got an array",
    ),
}  # fmt: skip
USAGE = {"include_usage": True}
CHAT_REQUESTS = RequestCases(
    read={name: (sent(*given), system, read) for name, (given, system, read) in READ.items()},
    tools=(
        sent(USER, tools=TOOLS),
        [
            ("a", "A", CANONICAL), ("b", "", ANYTHING), ("c", "C", ANYTHING),
            ("web_search", "", ANYTHING),
        ],
    ),
    streams=[
        (sent(USER), False, False),
        (sent(USER, stream=True), True, False),
        (sent(USER, stream=True, stream_options=USAGE), True, True),
        (sent(USER, stream=False, stream_options=None), False, False),
    ],
    refused=WRONG,
)  # fmt: skip

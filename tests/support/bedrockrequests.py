"""The requests of Bedrock's Converse: the bodies that clients send, and what they are read as."""

from typing import Any

from wirereading import ANYTHING, CALL, CANONICAL, OTHER, SCHEMA, RequestCases

from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

Block = dict[str, Any]


def says(role: str, *blocks: Block) -> Block:
    return {"role": role, "content": list(blocks)}


def sent(*messages: Block, **more: Any) -> Block:
    return {"messages": list(messages), "toolConfig": {"tools": []}, **more}


def text(said: str) -> Block:
    return {"text": said}


def use(call: ToolCall) -> Block:
    given = {"at": int(call.arguments[-2])}
    return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": given}}


def result(call: ToolCall, *content: Block, **more: Any) -> Block:
    return {"toolResult": {"toolUseId": call.id, "content": [*content] or [text("42")], **more}}


HI = says("user", text("hi"))
BOTH = says("assistant", text("So"), use(CALL), use(OTHER))
ASKED = AssistantMessage("So", (CALL, OTHER))
READ: dict[str, tuple[Block, str, list[Message]]] = {
    "text": (sent(HI), "", [UserMessage("hi")]),
    "system blocks": (
        sent(HI, system=[text("Be brief."), {"cachePoint": {}}, text("Be kind.")]),
        "Be brief.\nBe kind.", [UserMessage("hi")],
    ),
    "blocks": (
        sent(says("user", text("see"), {"image": {}}, {"document": {}}, {"cachePoint": {}},
                  {"guardContent": {}})),
        "", [UserMessage("see\n[image]\n[file]\n[guardContent]")],
    ),
    "several results in one message": (
        sent(HI, BOTH, says("user", result(OTHER, status="error"),
                            result(CALL, text("4"), {"json": {"b": 2, "a": 1}}), text("go on"))),
        "", [UserMessage("hi"), ASKED, ToolMessage("call-2", "42", is_error=True),
             ToolMessage("call-1", '4\n{"a":1,"b":2}'), UserMessage("go on")],
    ),
    "reasoning": (
        sent(HI, says("assistant", {"reasoningContent": {"reasoningText": {"text": "Hm"}}},
                      {"reasoningContent": {"redactedContent": "eA=="}}, text("a"), text("b"))),
        "", [UserMessage("hi"), AssistantMessage("ab", reasoning="Hm")],
    ),
    "a cache point alone": (
        sent(HI, says("assistant", text("a")), says("user", {"cachePoint": {}})), "",
        [UserMessage("hi"), AssistantMessage("a")],
    ),
    "a lone surrogate": (sent(says("user", text("a\ud800b"))), "", [UserMessage("a\ufffdb")]),
}  # fmt: skip
TOOLS = [
    {"toolSpec": {"name": "a", "description": "A", "inputSchema": {"json": SCHEMA}}},
    {"toolSpec": {"name": "b"}},
    {"cachePoint": {"type": "default"}},
    {"systemTool": {"name": "nova_grounding"}},
]
EXPECTED = "Expected toolResult blocks at messages.2.content for the following Ids: "
WRONG: dict[str, tuple[Block, str, str]] = {
    "no messages": ({}, "", "must start with a user message"),
    "an assistant first": (
        sent(says("assistant", text("x"))), "", "must start with a user message",
    ),
    "users in a row": (sent(HI, HI), "", "must alternate between user and assistant"),
    "a role": (
        sent(says("robot", text("x"))), "", "Value 'robot' at 'messages.1.member.role' failed",
    ),
    "no content": (sent(HI, says("assistant")), "", "Message object at messages.1 is empty"),
    "a blank text": (
        sent(says("user", text("hi"), text(" \n"))), "", "messages.0.content.1 is blank",
    ),
    "a call without a result": (
        sent(HI, BOTH, says("user", result(OTHER))), "", f"{EXPECTED}call-1",
    ),
    "a last call without a result": (sent(HI, BOTH), "", f"{EXPECTED}call-1, call-2"),
    "a call without tools": (
        {"messages": [HI, BOTH, says("user", result(CALL), result(OTHER))]}, "",
        "The toolConfig field must be defined",
    ),
    "a result without a call": (
        sent(HI, says("assistant", text("x")), says("user", result(CALL))), "",
        "toolResult blocks at messages.2.content exceeds",
    ),
}  # fmt: skip
BEDROCK_REQUESTS = RequestCases(
    read=READ,
    tools=(
        sent(HI, toolConfig={"tools": TOOLS}),
        [("a", "A", CANONICAL), ("b", "", ANYTHING), ("systemTool", "", ANYTHING)],
    ),
    streams=[(sent(HI), False, True), (sent(HI), True, True)],
    refused=WRONG,
)

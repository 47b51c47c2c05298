"""The requests of Gemini: the bodies that clients send, and what they are read as."""

from typing import Any

from wirereading import ANYTHING, CALL, CANONICAL, OTHER, SCHEMA, RequestCases

from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

Part = dict[str, Any]


def says(role: str, *parts: Part) -> Part:
    return {"role": role, "parts": list(parts)}


def sent(*contents: Part, **more: Any) -> Part:
    return {"contents": list(contents), **more}


def text(said: str, **more: Any) -> Part:
    return {"text": said, **more}


def call(each: ToolCall, *, named: bool = True) -> Part:
    own = {"id": each.id} if named else {}
    return {"functionCall": {"name": each.name, "args": {"at": int(each.arguments[-2])}, **own}}


def result(each: ToolCall, response: Any = None, *, named: bool = True) -> Part:
    own = {"id": each.id} if named else {}
    given = {"result": "42"} if response is None else response
    return {"functionResponse": {"name": each.name, "response": given, **own}}


HI = says("user", text("hi"))
ASKED = AssistantMessage("So", (CALL, OTHER))
BOTH = says("model", text("So"), call(CALL), call(OTHER))
ANSWERED = [ToolMessage("call-1", "42"), ToolMessage("call-2", "42")]
READ: dict[str, tuple[Part, str, list[Message]]] = {
    "text": (sent(HI), "", [UserMessage("hi")]),
    "no role": (sent({"parts": [text("hi")]}), "", [UserMessage("hi")]),
    "a system text": (
        sent(HI, systemInstruction={"parts": [text("Be brief."), text("Be kind.")]}),
        "Be brief.\nBe kind.", [UserMessage("hi")],
    ),
    "snake case": (
        sent(HI, system_instruction={"parts": [text("Be brief.")]}), "Be brief.",
        [UserMessage("hi")],
    ),
    "parts": (
        sent(says("user", text("see"), {"inlineData": {"mimeType": "image/png"}},
                  {"fileData": {"mimeType": "audio/mp3"}}, {"fileData": {"mimeType": "video/mp4"}},
                  {"file_data": {"mime_type": "application/pdf"}}, {"videoMetadata": {}})),
        "", [UserMessage("see\n[image]\n[audio]\n[video]\n[file]\n[videoMetadata]")],
    ),
    "calls and results": (
        sent(HI, BOTH, says("user", result(OTHER), result(CALL), text("go on"))), "",
        [UserMessage("hi"), ASKED, *ANSWERED[::-1], UserMessage("go on")],
    ),
    "calls without ids": (
        sent(HI, says("model", text("So"), call(CALL, named=False), call(OTHER, named=False)),
             says("function", result(CALL, named=False), result(OTHER, named=False))), "",
        [UserMessage("hi"), ASKED, *ANSWERED],
    ),
    "calls without ids in two turns": (
        sent(HI, says("model", call(CALL, named=False)), says("user", result(CALL, named=False)),
             says("model", call(OTHER, named=False)), says("user", result(OTHER, named=False))),
        "", [UserMessage("hi"), AssistantMessage("", (CALL,)), ANSWERED[0],
             AssistantMessage("", (OTHER,)), ANSWERED[1]],
    ),
    "results in several contents": (
        sent(HI, BOTH, says("user", result(CALL)), says("user", result(OTHER))), "",
        [UserMessage("hi"), ASKED, *ANSWERED],
    ),
    "the pieces of a stream": (
        sent(HI, says("model", text("So")), says("model", call(CALL)),
             says("model", call(OTHER), text("")), says("user", result(CALL), result(OTHER))),
        "", [UserMessage("hi"), ASKED, *ANSWERED],
    ),
    "responses": (
        sent(HI, BOTH, says("user", result(CALL, {"error": "no"}), result(OTHER, {"a": [1]}))),
        "", [UserMessage("hi"), ASKED, ToolMessage("call-1", "no", is_error=True),
             ToolMessage("call-2", '{"a":[1]}')],
    ),
    "a response that is a value": (
        sent(HI, BOTH, says("user", result(CALL, {"output": {"a": 1}}), result(OTHER, {}))),
        "", [UserMessage("hi"), ASKED, ToolMessage("call-1", '{"a":1}'),
             ToolMessage("call-2", "{}")],
    ),
    "thinking": (
        sent(HI, says("model", text("Hm", thought=True, thoughtSignature="c2ln"), text("a"),
                      text("b"), {"thoughtSignature": "c2ln", "executableCode": {}})), "",
        [UserMessage("hi"), AssistantMessage("ab[executableCode]", reasoning="Hm")],
    ),
    "a lone surrogate": (
        sent(says("user", text("a\ud800b"))), "", [UserMessage("a\ufffdb")],
    ),
    "the request of a count": (
        {"generateContentRequest": sent(HI)}, "", [UserMessage("hi")],
    ),
}  # fmt: skip
CAPITALS = {"type": "OBJECT", "properties": {"at": {"type": "INTEGER"}}}
TOOLS = [
    {
        "functionDeclarations": [
            {"name": "a", "description": "A", "parameters": CAPITALS},
            {"name": "b", "parametersJsonSchema": SCHEMA},
            {"name": "c"},
        ]
    },
    {"function_declarations": [{"name": "d", "parameters_json_schema": SCHEMA}]},
    {"googleSearch": {}},
    {"functionDeclarations": [
        {"name": "e", "parameters": {
            "type": "OBJECT", "properties": {"type": {"anyOf": [{"type": "STRING"}]}}}},
    ]},
]  # fmt: skip
UNANSWERED = "number of function response parts is equal"
WRONG: dict[str, tuple[Part, str, str]] = {
    "no contents": ({}, "* GenerateContentRequest.contents", "contents is not specified"),
    "no parts": (
        sent(says("user")), "* GenerateContentRequest.contents[0].parts", "must not be empty",
    ),
    "a role": (sent(says("robot", text("x"))), "", "use a valid role"),
    "a call without a response": (sent(HI, BOTH, says("user", result(CALL))), "", UNANSWERED),
    "a text before the response": (
        sent(HI, BOTH, HI, says("user", result(CALL), result(OTHER))), "", UNANSWERED,
    ),
    "a last call without a response": (sent(HI, BOTH), "", UNANSWERED),
    "a reply before the response": (
        sent(HI, BOTH, says("user", result(CALL)), says("model", text("x"))), "", UNANSWERED,
    ),
    "a response without a call": (sent(HI, says("user", result(CALL))), "", UNANSWERED),
    "two responses of a call": (
        sent(HI, BOTH, says("user", result(CALL), result(CALL))), "", UNANSWERED,
    ),
    "a response of another name": (
        sent(HI, says("model", call(CALL, named=False)),
             says("user", {"functionResponse": {"name": "other", "response": {}}})),
        "", UNANSWERED,
    ),
    "a tool without a name": (
        sent(HI, tools=[{"functionDeclarations": [{}]}]), "tools[0].functionDeclarations[0].name",
        "Missing required parameter",
    ),
}  # fmt: skip
GEMINI_REQUESTS = RequestCases(
    read=READ,
    tools=(
        sent(HI, tools=TOOLS),
        [("a", "A", CANONICAL), ("b", "", CANONICAL), ("c", "", ANYTHING), ("d", "", CANONICAL),
         ("googleSearch", "", ANYTHING),
         ("e", "", b'{"properties":{"type":{"anyOf":[{"type":"string"}]}},"type":"object"}')],
    ),
    streams=[(sent(HI), False, True), (sent(HI), True, True)],
    refused=WRONG,
)  # fmt: skip

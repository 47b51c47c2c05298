"""The requests of Responses: the bodies that clients send, and what they are read as."""

from typing import Any

from wirereading import ANYTHING, CALL, CANONICAL, MODEL, OTHER, SCHEMA, USER, RequestCases

from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

HI = UserMessage("hi")


def sent(*items: Any, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "input": list(items), **more}


def calls(call: ToolCall) -> dict[str, Any]:
    names = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
    return {"type": "function_call", "id": "fc_1", "status": "completed", **names}


def result(call: ToolCall, output: Any = "42") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call.id, "output": output}


def said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content}


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": text}]}


READ: dict[str, tuple[dict[str, Any], str, list[Message]]] = {
    "a string": ({"model": MODEL, "input": "hi"}, "", [HI]),
    "instructions": ({"model": MODEL, "input": "hi", "instructions": "Be brief."}, "Be brief.",
                     [HI]),
    "messages of the system": (
        sent({"role": "developer", "content": "Be kind."}, USER,
             {"role": "system", "content": "Be quick."}, instructions="Be brief."),
        "Be brief.\n\nBe kind.", [HI, UserMessage("Be quick.")],
    ),
    "nothing but instructions": (
        sent(instructions="Be brief."), "", [UserMessage("Be brief.")],
    ),
    "parts": (
        sent({"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "x"},
            {"type": "input_file"}]}),
        "", [UserMessage("see\n[image]\n[file]")],
    ),
    "one reply": (
        sent(USER, thought("Hm"), said("So"), calls(CALL), calls(OTHER), result(OTHER),
             result(CALL, [{"type": "input_text", "text": "4"},
                           {"type": "input_text", "text": "2"}])),
        "", [HI, AssistantMessage("So", (CALL, OTHER), "Hm"), ToolMessage("call-2", "42"),
             ToolMessage("call-1", "4\n2")],
    ),
    "a reply with its text last": (
        sent(USER, calls(CALL), said("So"), result(CALL)), "",
        [HI, AssistantMessage("So", (CALL,)), ToolMessage("call-1", "42")],
    ),
    "replies in a row": (
        sent(USER, said("a"), {"role": "assistant", "content": "b"}), "",
        [HI, AssistantMessage("a"), AssistantMessage("b")],
    ),
    "reasoning alone": (sent(USER, thought("Hm")), "", [HI, AssistantMessage("", (), "Hm")]),
    "reasoning as text": (
        sent(USER, {"type": "reasoning", "summary": [], "encrypted_content": "x", "content": [
            {"type": "reasoning_text", "text": "Hm"}]}, said("a")),
        "", [HI, AssistantMessage("a", (), "Hm")],
    ),
    "a refusal": (
        sent(USER, {"type": "message", "role": "assistant", "content": [
            {"type": "refusal", "refusal": "No"}]}),
        "", [HI, AssistantMessage("No")],
    ),
    "a custom tool": (
        sent(USER, {"type": "custom_tool_call", "call_id": "c", "name": "run", "input": "ls"},
             {"type": "custom_tool_call_output", "call_id": "c", "output": "a"}),
        "", [HI, AssistantMessage("", (ToolCall("c", "run", "ls"),)), ToolMessage("c", "a")],
    ),
    "a tool of the provider with a result": (
        sent(USER, {"type": "computer_call", "call_id": "c", "action": {"type": "wait", "ms": 1}},
             {"type": "computer_call_output", "call_id": "c",
              "output": {"type": "computer_screenshot"}}),
        "", [HI, AssistantMessage("", (ToolCall("c", "computer_call", '{"ms":1,"type":"wait"}'),)),
             ToolMessage("c", "[computer_screenshot]")],
    ),
    "a tool of the provider": (
        sent(USER, {"type": "web_search_call", "id": "w", "status": "completed"}, said("So")), "",
        [HI, AssistantMessage("[web_search_call]"), AssistantMessage("So")],
    ),
    "a message between a call and its result": (
        sent(USER, calls(CALL), USER, result(CALL)), "",
        [HI, AssistantMessage("", (CALL,)), HI, ToolMessage("call-1", "42")],
    ),
    "a lone surrogate": ({"model": MODEL, "input": "a\ud800b"}, "", [UserMessage("a\ufffdb")]),
}  # fmt: skip
TOOLS = [
    {"type": "function", "name": "a", "description": "A", "parameters": SCHEMA, "strict": True},
    {"type": "function", "name": "b", "parameters": None},
    {"type": "web_search_preview"},
]
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no model": ({"input": "hi"}, "model", "you must provide a model"),
    "no input": ({"model": MODEL}, "input", 'One of "input" or'),
    "an empty input": (sent(), "input", 'One of "input" or'),
    "a role": (sent({"role": "robot", "content": "x"}), "input[0].role", "Invalid value: 'robot'"),
    "a stored response": (
        sent(USER, previous_response_id="resp-1"), "previous_response_id",
        "Previous response with id 'resp-1' not found.",
    ),
    "a conversation that nobody has begun": (
        sent(USER, conversation={"id": "c"}), "", "Conversation with id 'c' not found.",
    ),
    "a conversation that is none": (
        sent(USER, conversation=1), "conversation.id", "expected a string, but got an integer",
    ),
    "two ways to go on": (
        sent(USER, conversation="c", previous_response_id="r"), "",
        ("Mutually exclusive parameters: ''. "
         "Ensure you are only providing one of: 'pre..._id' or 'conversation'."),
    ),
    "an unknown item": (
        sent({"type": "item_reference", "id": "x"}), "input",
        "'x' not found. Items are not persisted when `store` is set to false.",
    ),
    "a call without a result": (
        sent(USER, calls(CALL), calls(OTHER), result(OTHER)), "input",
        "No tool output found for function call call-1.",
    ),
    "a result without a call": (
        sent(USER, result(CALL)), "input",
        "No tool call found for function call output with call_id call-1.",
    ),
    "a result before its call": (sent(USER, result(CALL), calls(CALL)), "input", "No tool call"),
    "an item that is none": (sent("hi"), "input[0]", "expected an object, but got a string"),
}  # fmt: skip
RESPONSES_REQUESTS = RequestCases(
    read=READ,
    tools=(
        sent(USER, tools=TOOLS),
        [("a", "A", CANONICAL), ("b", "", ANYTHING), ("web_search_preview", "", ANYTHING)],
    ),
    streams=[(sent(USER, stream=one), one is True, True) for one in (None, False, True)],
    refused=WRONG,
)

"""Chat Completions: what clients send is read, and replies are written as OpenAI and others do."""

from typing import Any

import pytest
from wirereading import MODEL, data, streamed, whole

from simloop.adapters.dialects.dialect import WrongRequest
from simloop.adapters.dialects.openai_chat import OpenAIChat
from simloop.adapters.dialects.openai_responses import OpenAIResponses
from simloop.adapters.dialects.options import WireOptions
from simloop.messages import (
    AssistantMessage,
    Fault,
    Finish,
    FinishReason,
    Message,
    Part,
    ReasoningDelta,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    ToolMessage,
    Usage,
    UserMessage,
)

CHAT = OpenAIChat()
CALL, OTHER = ToolCall("call-1", "look", '{"at":1}'), ToolCall("call-2", "look", '{"at":2}')
STOP, CALLS = Finish(FinishReason.STOP, "stop"), Finish(FinishReason.TOOL_CALLS, "tool-calls")
USER = {"role": "user", "content": "hi"}


def sent(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": list(messages), **more}


def wire_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def asks(*calls: ToolCall, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [wire_call(call) for call in calls], **more}


def result(call: ToolCall, content: Any = "42") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def deltas(parts: list[Part], options: WireOptions = WireOptions(), **more: Any) -> list[Any]:  # noqa: B008 - immutable
    """Return what each frame says, in the short form of the tables below."""
    events = data(streamed(OpenAIChat(options), parts, **more))
    return [short(event) for event in events]


def short(event: Any) -> Any:
    if not isinstance(event, dict) or not event.get("choices"):
        return event if isinstance(event, str) else {key: event[key] for key in KEPT & set(event)}
    (choice,) = event["choices"]
    return choice["finish_reason"] or choice["delta"]


KEPT = {"usage", "error"}
TEXT_ROLE = {"role": "assistant", "content": "", "refusal": None}
ROLE = {"role": "assistant", "content": None, "refusal": None}


def call_frame(index: int, arguments: str, call: ToolCall | None = None) -> dict[str, Any]:
    if call is None:
        return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}
    function = {"name": call.name, "arguments": arguments}
    first = {"index": index, "id": call.id, "type": "function", "function": function}
    return {"tool_calls": [first]}


FRAMES: dict[str, tuple[list[Part], list[Any]]] = {
    "text": (
        [TextDelta("Hel"), TextDelta("lo"), STOP],
        [TEXT_ROLE, {"content": "Hel"}, {"content": "lo"}, "stop", "[DONE]"],
    ),
    "empty": ([STOP], [TEXT_ROLE, "stop", "[DONE]"]),
    "empty text": ([TextDelta(""), STOP], [TEXT_ROLE, "stop", "[DONE]"]),
    "reasoning": (
        [ReasoningDelta("Hm"), TextDelta("Yes"), STOP],
        [TEXT_ROLE, {"reasoning_content": "Hm"}, {"content": "Yes"}, "stop", "[DONE]"],
    ),
    "a call that is whole": (
        [ToolCallPart(CALL), CALLS],
        [ROLE, call_frame(0, CALL.arguments, CALL), "tool_calls", "[DONE]"],
    ),
    "parallel calls after text": (
        [TextDelta("So"), ToolCallPart(CALL), ToolCallPart(OTHER), CALLS],
        [
            TEXT_ROLE, {"content": "So"}, call_frame(0, CALL.arguments, CALL),
            call_frame(1, OTHER.arguments, OTHER), "tool_calls", "[DONE]",
        ],
    ),
    "pieces": (
        [
            ToolCallDelta("call-1", "look", '{"at"'), ToolCallDelta("call-1", "look", ":1}"),
            ToolCallPart(CALL), CALLS,
        ],
        [
            ROLE, call_frame(0, "", CALL), call_frame(0, '{"at"'), call_frame(0, ":1}"),
            "tool_calls", "[DONE]",
        ],
    ),
    "pieces that leave a rest": (
        [ToolCallDelta("call-1", "look", '{"at"'), ToolCallPart(CALL), CALLS],
        [ROLE, call_frame(0, "", CALL), call_frame(0, '{"at"'), call_frame(0, ":1}"), "tool_calls",
         "[DONE]"],
    ),
    "pieces in turn": (
        [
            ToolCallDelta("call-1", "look", '{"at"'), ToolCallDelta("call-2", "look", '{"at":2'),
            ToolCallDelta("call-1", "look", ":1}"), ToolCallDelta("call-2", "look", "}"),
            ToolCallPart(CALL), ToolCallPart(OTHER), CALLS,
        ],
        [
            ROLE, call_frame(0, "", CALL), call_frame(0, '{"at"'), call_frame(1, "", OTHER),
            call_frame(1, '{"at":2'), call_frame(0, ":1}"), call_frame(1, "}"), "tool_calls",
            "[DONE]",
        ],
    ),
    "half a call": (
        [ToolCallDelta("call-1", "look", '{"a'), Finish(FinishReason.LENGTH, "length")],
        [ROLE, call_frame(0, "", CALL), call_frame(0, '{"a'), "length", "[DONE]"],
    ),
    "refusal": (
        [TextDelta("I can"), TextDelta("not"), Finish(FinishReason.CONTENT_FILTER, "refusal")],
        [ROLE, {"refusal": "I can"}, {"refusal": "not"}, "stop", "[DONE]"],
    ),
    "interrupted": ([TextDelta("Hel")], [TEXT_ROLE, {"content": "Hel"}]),
    "a model that says nothing of its end": (
        [TextDelta("Hel"), Finish(FinishReason.INTERRUPTED)], [TEXT_ROLE, {"content": "Hel"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "frames"), FRAMES.values(), ids=FRAMES)
def test_a_reply_streams_in_the_frames_of_the_provider(
    parts: list[Part], frames: list[Any]
) -> None:
    assert deltas(parts, usage=False) == frames


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ("stop", "stop"), ("end_turn", "stop"), ("length", "length"), ("MAX_TOKENS", "length"),
        ("model_context_window_exceeded", "length"), ("tool-calls", "tool_calls"),
        ("tool_use", "tool_calls"), ("function_call", "function_call"),
        ("content-filter", "content_filter"), ("SAFETY", "content_filter"), ("error", "error"),
        ("MALFORMED_FUNCTION_CALL", "error"), ("pause_turn", "pause_turn"),
        ("network_error", "network_error"), ("weird_reason", "weird_reason"), ("other", "other"),
    ],
)  # fmt: skip
def test_each_finish_word_goes_out_as_the_format_says_it(raw: str, word: str) -> None:
    parts: list[Part] = [TextDelta("x"), Finish(FinishReason.read(raw), raw)]
    assert deltas(parts, usage=False)[-2] == word
    assert whole(CHAT, parts)["choices"][0]["finish_reason"] == word


def test_usage_comes_in_a_chunk_of_its_own_if_the_client_asks() -> None:
    parts: list[Part] = [TextDelta("x"), Finish(FinishReason.STOP, "stop", Usage(11, 7))]
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    events = data(streamed(CHAT, parts))
    assert [event["usage"] for event in events[:-1]] == [None, None, None, usage]
    assert (events[-2]["choices"], events[-1]) == ([], "[DONE]")
    unasked = data(streamed(CHAT, parts, usage=False))
    assert [event for event in unasked[:-1] if "usage" in event] == []


@pytest.mark.parametrize("dialect", [OpenAIChat, OpenAIResponses])
def test_a_whole_reply_reports_usage_even_if_the_script_states_none(dialect: type[Any]) -> None:
    parts: list[Part] = [TextDelta("x"), Finish(FinishReason.STOP, "stop")]
    reported = whole(dialect(), parts)["usage"]
    assert reported["total_tokens"] == 0
    silent = dialect(WireOptions(unstated_usage="none"))
    assert whole(silent, parts).get("usage") is None


def test_usage_comes_with_the_finish_where_the_provider_sends_it_so() -> None:
    parts: list[Part] = [TextDelta("x"), Finish(FinishReason.STOP, "stop", Usage(11, 7))]
    options = WireOptions(chat_usage="finish-chunk")
    events = data(streamed(OpenAIChat(options), parts, usage=False))
    (choice,) = events[-2]["choices"]
    assert (choice["finish_reason"], events[-2]["usage"]["total_tokens"]) == ("stop", 18)


@pytest.mark.parametrize("form", ["reasoning_content", "reasoning"])
def test_reasoning_stands_in_the_field_of_the_provider(form: Any) -> None:
    parts: list[Part] = [ReasoningDelta("Hm"), STOP]
    options = WireOptions(chat_reasoning=form)
    assert {form: "Hm"} in deltas(parts, options)
    assert whole(OpenAIChat(options), parts)["choices"][0]["message"][form] == "Hm"


FAILURE = StreamError(Fault("Overloaded", code="overloaded_error"))
ERROR = {"message": "Overloaded", "type": "server_error", "param": None, "code": "overloaded_error"}


@pytest.mark.parametrize(("form", "name"), [("data", ""), ("event", "error")])
def test_an_error_in_a_stream_is_its_last_event(form: Any, name: str) -> None:
    chat = OpenAIChat(WireOptions(chat_error=form))
    event = streamed(chat, [TextDelta("x"), FAILURE])[-1]
    assert (event.name, data([event])) == (name, [{"error": ERROR}])


def test_an_error_can_be_part_of_a_chunk() -> None:
    chat = OpenAIChat(WireOptions(chat_error="chunk"))
    (event,) = data(streamed(chat, [FAILURE]))
    assert (event["error"], event["object"]) == (ERROR, "chat.completion.chunk")
    assert event["choices"][0]["finish_reason"] is None


def test_an_error_without_output_is_the_first_event() -> None:
    assert data(streamed(CHAT, [FAILURE])) == [{"error": ERROR}]


def test_a_whole_reply_has_all_that_a_stream_has() -> None:
    parts: list[Part] = [
        ReasoningDelta("Hm"), TextDelta("So "), TextDelta("be it"), ToolCallPart(CALL),
        ToolCallDelta("call-2", "look", '{"at'),
        Finish(FinishReason.LENGTH, "length", Usage(1, 2)),
    ]  # fmt: skip
    body = whole(CHAT, parts)
    (choice,) = body.pop("choices")
    half = ToolCall("call-2", "look", '{"at')
    message = {
        "role": "assistant", "content": "So be it", "refusal": None,
        "tool_calls": [wire_call(CALL), wire_call(half)], "reasoning_content": "Hm",
    }  # fmt: skip
    assert choice == {
        "index": 0, "message": message, "logprobs": None, "finish_reason": "length"
    }  # fmt: skip
    assert body == {
        "id": "chatcmpl-3", "object": "chat.completion", "created": 1_000_000_000, "model": MODEL,
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "content", "refusal"),
    [
        ([TextDelta("x"), STOP], "x", None),
        ([STOP], "", None),
        ([ToolCallPart(CALL), CALLS], None, None),
        ([TextDelta("No"), Finish(FinishReason.CONTENT_FILTER, "refusal")], None, "No"),
        ([TextDelta("No"), Finish(FinishReason.CONTENT_FILTER, "content-filter")], "No", None),
    ],
    ids=["text", "empty", "calls", "refusal", "filter"],
)
def test_the_text_of_a_whole_reply_is_null_where_the_provider_has_none(
    parts: list[Part], content: str | None, refusal: str | None
) -> None:
    message = whole(CHAT, parts)["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == (content, refusal)


def test_a_whole_reply_without_a_finish_has_no_reason() -> None:
    (choice,) = whole(CHAT, [TextDelta("x")])["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("x", None)


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


@pytest.mark.parametrize(("given", "system", "messages"), READ.values(), ids=READ)
def test_messages_are_read_whatever_their_form(
    given: list[dict[str, Any]], system: str, messages: list[Message]
) -> None:
    request = CHAT.read(sent(*given))
    assert (request.system_prompt, list(request.messages)) == (system, messages)


def test_tools_are_read_with_their_schemas() -> None:
    schema = {"type": "object", "properties": {"at": {"type": "integer"}}}
    tools = [
        {"type": "function", "function": {"name": "a", "description": "A", "parameters": schema}},
        {"type": "function", "function": {"name": "b"}},
        {"type": "custom", "custom": {"name": "c", "description": "C"}},
        {"type": "web_search"},
    ]
    read = [
        (one.name, one.description, bytes(one.parameters))
        for one in CHAT.read(sent(USER, tools=tools)).tools
    ]
    canonical = b'{"properties":{"at":{"type":"integer"}},"type":"object"}'
    anything = b'{"type":"object"}'
    assert read == [
        ("a", "A", canonical), ("b", "", anything), ("c", "C", anything),
        ("web_search", "", anything),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({}, (False, False)),
        ({"stream": True}, (True, False)),
        ({"stream": True, "stream_options": {"include_usage": True}}, (True, True)),
        ({"stream": False, "stream_options": None}, (False, False)),
    ],
    ids=["plain", "stream", "usage", "nulls"],
)
def test_a_stream_and_its_usage_are_asked_for(
    more: dict[str, Any], asked: tuple[bool, bool]
) -> None:
    request = CHAT.read(sent(USER, **more))
    assert (request.streams, request.reports_usage) == asked
    assert request.model == MODEL


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


@pytest.mark.parametrize(("body", "key", "reason"), WRONG.values(), ids=WRONG)
def test_a_request_that_the_provider_refuses_is_refused(
    body: dict[str, Any], key: str, reason: str
) -> None:
    with pytest.raises(WrongRequest) as caught:
        CHAT.read(body)
    assert caught.value.key == key
    assert reason in caught.value.message

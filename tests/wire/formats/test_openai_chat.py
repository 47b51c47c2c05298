"""Chat Completions: replies are written as OpenAI and others do."""

from typing import Any

import pytest
from chatrequests import wire_call
from wirereading import (
    CALL,
    CALLS,
    MODEL,
    OTHER,
    STOP,
    data,
    streamed,
    whole,
)

from simloop.messages import (
    Fault,
    Finish,
    FinishReason,
    Part,
    ReasoningDelta,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    Usage,
)
from simloop.wire.formats.openai_chat import OpenAIChat
from simloop.wire.formats.openai_responses import OpenAIResponses
from simloop.world.wire_options import WireOptions

CHAT = OpenAIChat()


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
    "pieces that do not fit": (
        [ToolCallDelta("call-1", "look", "[1"), ToolCallPart(CALL), CALLS],
        [ROLE, call_frame(0, "", CALL), call_frame(0, "[1"), call_frame(1, CALL.arguments, CALL),
         "tool_calls", "[DONE]"],
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


@pytest.mark.parametrize("form", [OpenAIChat, OpenAIResponses])
def test_a_whole_reply_reports_usage_even_if_the_script_states_none(form: type[Any]) -> None:
    parts: list[Part] = [TextDelta("x"), Finish(FinishReason.STOP, "stop")]
    reported = whole(form(), parts)["usage"]
    assert reported["total_tokens"] == 0
    silent = form(WireOptions(unstated_usage="none"))
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

"""Responses: replies are written in the events of OpenAI."""

from typing import Any

import pytest
from wirereading import (
    CALL,
    CALLS,
    CREATED_S,
    MODEL,
    OTHER,
    STAMP,
    STOP,
    asked,
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
    ToolCallDelta,
    ToolCallPart,
    Usage,
)
from simloop.wire.formats.openai_responses import OpenAIResponses
from simloop.world.wire_options import WireOptions

RESPONSES = OpenAIResponses()
REFUSED = Finish(FinishReason.CONTENT_FILTER, "refusal")
BEGUN = ["created", "in_progress"]
TEXT_BEGUN, TEXT_DONE = (
    ["output_item.added message", "content_part.added"],
    ["output_text.done", "content_part.done", "output_item.done message"],
)
CALL_ADDED, CALL_DONE = (
    ["output_item.added function_call"],
    ["function_call_arguments.done", "output_item.done function_call"],
)
PIECE = "function_call_arguments.delta"
FRAMES: dict[str, tuple[list[Part], list[str]]] = {
    "text": (
        [TextDelta("Hel"), TextDelta("lo"), STOP],
        [*TEXT_BEGUN, "output_text.delta Hel", "output_text.delta lo", *TEXT_DONE, "completed"],
    ),
    "empty": ([STOP], ["completed"]),
    "reasoning": (
        [ReasoningDelta("Hm"), TextDelta("x"), STOP],
        ["output_item.added reasoning", "reasoning_summary_part.added",
         "reasoning_summary_text.delta Hm", "reasoning_summary_text.done",
         "reasoning_summary_part.done", "output_item.done reasoning", *TEXT_BEGUN,
         "output_text.delta x", *TEXT_DONE, "completed"],
    ),
    "a call that is whole": (
        [ToolCallPart(CALL), CALLS],
        [*CALL_ADDED, f'{PIECE} {{"at":1}}', *CALL_DONE, "completed"],
    ),
    "text and pieces in turn": (
        [TextDelta("So"), ToolCallDelta("call-1", "look", '{"at"'),
         ToolCallDelta("call-2", "look", '{"at":2}'), ToolCallPart(CALL), ToolCallPart(OTHER),
         CALLS],
        [*TEXT_BEGUN, "output_text.delta So", *TEXT_DONE, *CALL_ADDED, f'{PIECE} {{"at"',
         *CALL_ADDED, f'{PIECE} {{"at":2}}', f"{PIECE} :1}}", *CALL_DONE, *CALL_DONE, "completed"],
    ),
    "half a call": (
        [ToolCallDelta("call-1", "look", '{"a'), Finish(FinishReason.LENGTH, "length")],
        [*CALL_ADDED, f'{PIECE} {{"a', *CALL_DONE, "incomplete"],
    ),
    "refusal": (
        [TextDelta("No"), REFUSED],
        [*TEXT_BEGUN, "refusal.delta No", "refusal.done", *TEXT_DONE[1:], "completed"],
    ),
    "interrupted": ([TextDelta("Hel")], [*TEXT_BEGUN, "output_text.delta Hel"]),
}  # fmt: skip


def short(event: dict[str, Any]) -> str:
    kind = event["type"].removeprefix("response.")
    if "output_item" in kind:
        return f"{kind} {event['item']['type']}"
    return f"{kind} {event['delta']}" if kind.endswith(".delta") else kind


@pytest.mark.parametrize(("parts", "frames"), FRAMES.values(), ids=FRAMES)
def test_a_reply_streams_in_the_frames_of_the_provider(
    parts: list[Part], frames: list[str]
) -> None:
    events = data(streamed(RESPONSES, parts))
    assert [short(event) for event in events] == [*BEGUN, *frames]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_an_item_is_added_empty_and_done_whole() -> None:
    parts: list[Part] = [TextDelta("Hi"), ToolCallPart(CALL), CALLS]
    events = data(streamed(RESPONSES, parts))
    items = [event["item"] for event in events if "item" in event]
    message = {"id": "msg_3_0", "type": "message", "role": "assistant"}
    said = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}
    call = {"id": "fc_3_1", "type": "function_call", "call_id": "call-1", "name": "look"}
    assert items == [
        {**message, "status": "in_progress", "content": []},
        {**message, "status": "completed", "content": [said]},
        {**call, "status": "in_progress", "arguments": ""},
        {**call, "status": "completed", "arguments": '{"at":1}'},
    ]
    assert events[-1]["response"]["output"] == [items[1], items[3]]
    assert whole(RESPONSES, parts)["output"] == [items[1], items[3]]


ENDINGS: dict[str, tuple[str, str, str | None]] = {
    "stop": ("completed", "completed", None),
    "end_turn": ("completed", "completed", None),
    "tool-calls": ("completed", "completed", None),
    "length": ("incomplete", "incomplete", "max_output_tokens"),
    "model_context_window_exceeded": ("incomplete", "incomplete", "max_output_tokens"),
    "content-filter": ("incomplete", "incomplete", "content_filter"),
    "SAFETY": ("incomplete", "incomplete", "content_filter"),
    "pause_turn": ("incomplete", "incomplete", "pause_turn"),
    "network_error": ("incomplete", "incomplete", "network_error"),
    "weird_reason": ("incomplete", "incomplete", "weird_reason"),
    "error": ("failed", "failed", None),
    "MALFORMED_FUNCTION_CALL": ("failed", "failed", None),
    "failed": ("failed", "failed", None),
    "cancelled": ("failed", "cancelled", None),
}


@pytest.mark.parametrize(("raw", "expected"), ENDINGS.items(), ids=ENDINGS)
def test_each_finish_word_goes_out_as_the_format_says_it(
    raw: str, expected: tuple[str, str, str | None]
) -> None:
    parts: list[Part] = [TextDelta("x"), Finish(FinishReason.read(raw), raw)]
    last, body = data(streamed(RESPONSES, parts))[-1], whole(RESPONSES, parts)
    details = body["incomplete_details"]
    kind = last["type"].removeprefix("response.")
    assert (kind, body["status"], details and details["reason"]) == expected
    assert last["response"] == body
    assert (body["error"] is not None) == (body["status"] == "failed")


CUT: dict[str, tuple[list[Part], str]] = {
    "by a limit": ([TextDelta("x"), Finish(FinishReason.LENGTH, "length")], "message"),
    "in a call": ([ToolCallDelta("call-1", "look", '{"a')], "function_call"),
    "without an end": ([TextDelta("x")], "message"),
}


@pytest.mark.parametrize(("parts", "kind"), CUT.values(), ids=CUT)
def test_a_reply_that_is_cut_off_is_incomplete(parts: list[Part], kind: str) -> None:
    body = whole(RESPONSES, parts)
    (item,) = body["output"]
    assert (body["status"], item["type"], item["status"]) == ("incomplete", kind, "incomplete")
    assert (body["id"], body["created_at"], body["model"]) == ("resp_3", CREATED_S, MODEL)


def test_usage_comes_with_the_response_that_has_ended() -> None:
    events = data(streamed(RESPONSES, [Finish(FinishReason.STOP, "stop", Usage(11, 7))]))
    assert [event["response"]["usage"] for event in events] == [
        None, None,
        {"input_tokens": 11, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
         "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 18},
    ]  # fmt: skip


def test_a_refusal_that_is_not_known_ahead_is_filtered_text() -> None:
    writer = RESPONSES.encoder(asked(), STAMP)
    events = [*writer.begin(None), *writer.feed(TextDelta("No")), *writer.feed(REFUSED)]
    assert data(events)[-1]["response"]["incomplete_details"] == {"reason": "content_filter"}


def test_a_response_begins_with_its_first_part_at_the_latest() -> None:
    writer = RESPONSES.encoder(asked(), STAMP)
    events = data(writer.feed(TextDelta("x")))
    assert [event["type"] for event in events][:2] == ["response.created", "response.in_progress"]


FAILURE = StreamError(Fault("Overloaded", code="overloaded_error"))


def test_a_flat_error_has_its_fields_in_the_event() -> None:
    event = data(streamed(RESPONSES, [TextDelta("x"), FAILURE]))[-1]
    assert event == {
        "type": "error", "sequence_number": 5, "code": "overloaded_error", "message": "Overloaded",
        "param": None,
    }  # fmt: skip


def test_a_nested_error_has_an_object_in_the_event() -> None:
    nested = OpenAIResponses(WireOptions(responses_error="nested"))
    event = data(streamed(nested, [FAILURE]))[-1]
    assert (event["type"], event["error"]["code"]) == ("error", "overloaded_error")


def test_a_failed_response_has_its_error() -> None:
    failed = OpenAIResponses(WireOptions(responses_error="failed"))
    event = data(streamed(failed, [TextDelta("x"), FAILURE]))[-1]
    response = event["response"]
    assert (event["type"], response["status"]) == ("response.failed", "failed")
    assert response["error"] == {"code": "overloaded_error", "message": "Overloaded"}

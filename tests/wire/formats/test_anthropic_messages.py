"""Anthropic Messages: replies are written as Anthropic does."""

from typing import Any

import pytest
from anthropicrequests import result, says, text, use
from anthropicrequests import sent as anthropic
from wirereading import (
    CALL,
    MODEL,
    OTHER,
    USER,
    data,
    streamed,
    whole,
)
from wirereading import sent as http

from simloop.messages import (
    Finish,
    FinishReason,
    Part,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    Usage,
)
from simloop.wire.formats.anthropic_messages import AnthropicMessages
from simloop.wire.formats.wire_format import WrongRequest
from simloop.world.wire_options import WireOptions

CLAUDE = AnthropicMessages()
QUIET = AnthropicMessages(WireOptions(pings=False))
STOP = Finish(FinishReason.STOP, "stop", Usage(11, 7))
CALLS = Finish(FinishReason.TOOL_CALLS, "tool-calls", Usage(11, 7))


def frames(parts: list[Part]) -> list[Any]:
    """Return the blocks and the end of a stream, in the short form of the table below."""
    events = data(streamed(QUIET, parts))
    return [short(event) for event in events if event["type"] != "message_start"]


def short(event: dict[str, Any]) -> Any:
    match event["type"]:
        case "content_block_start":
            return (event["index"], event["content_block"])
        case "content_block_delta":
            (value,) = [one for key, one in event["delta"].items() if key != "type"]
            return (event["index"], event["delta"]["type"], value)
        case "content_block_stop":
            return event["index"]
        case "message_delta":
            return event["delta"]["stop_reason"]
        case kind:
            return kind


TEXT = {"type": "text", "text": ""}
THINKING = {"type": "thinking", "thinking": "", "signature": ""}
USES = {
    call.id: {"type": "tool_use", "id": call.id, "name": "look", "input": {}}
    for call in (CALL, OTHER)
}
FRAMES: dict[str, tuple[list[Part], list[Any]]] = {
    "text": (
        [TextDelta("Hel"), TextDelta("lo"), STOP],
        [(0, TEXT), (0, "text_delta", "Hel"), (0, "text_delta", "lo"), 0, "end_turn",
         "message_stop"],
    ),
    "empty": ([TextDelta(""), STOP], ["end_turn", "message_stop"]),
    "reasoning": (
        [ReasoningDelta("Hm"), TextDelta("Yes"), STOP],
        [(0, THINKING), (0, "thinking_delta", "Hm"), (0, "signature_delta", "signature-3"), 0,
         (1, TEXT), (1, "text_delta", "Yes"), 1, "end_turn", "message_stop"],
    ),
    "a call that is whole": (
        [ToolCallPart(CALL), CALLS],
        [(0, USES["call-1"]), (0, "input_json_delta", ""), (0, "input_json_delta", '{"at":1}'), 0,
         "tool_use", "message_stop"],
    ),
    "pieces in turn": (
        [TextDelta("So"), ToolCallDelta("call-1", "look", '{"at"'),
         ToolCallDelta("call-2", "look", '{"at":2}'), ToolCallPart(CALL), ToolCallPart(OTHER),
         CALLS],
        [(0, TEXT), (0, "text_delta", "So"), 0,
         (1, USES["call-1"]), (1, "input_json_delta", ""), (1, "input_json_delta", '{"at"'),
         (2, USES["call-2"]), (2, "input_json_delta", ""), (2, "input_json_delta", '{"at":2}'),
         (1, "input_json_delta", ":1}"), 1, 2, "tool_use", "message_stop"],
    ),
    "half a call": (
        [ToolCallDelta("call-1", "look", '{"a'), Finish(FinishReason.LENGTH, "length")],
        [(0, USES["call-1"]), (0, "input_json_delta", ""), (0, "input_json_delta", '{"a'), 0,
         "max_tokens", "message_stop"],
    ),
    "text after a call": (
        [ToolCallPart(CALL), TextDelta("So"), CALLS],
        [(0, USES["call-1"]), (0, "input_json_delta", ""), (0, "input_json_delta", '{"at":1}'), 0,
         (1, TEXT), (1, "text_delta", "So"), 1, "tool_use", "message_stop"],
    ),
    "interrupted": ([TextDelta("Hel")], [(0, TEXT), (0, "text_delta", "Hel")]),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "expected"), FRAMES.values(), ids=FRAMES)
def test_a_reply_streams_in_the_frames_of_the_provider(
    parts: list[Part], expected: list[Any]
) -> None:
    assert frames(parts) == expected


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ("stop", "end_turn"), ("end_turn", "end_turn"), ("stop_sequence", "stop_sequence"),
        ("tool-calls", "tool_use"), ("function_call", "tool_use"), ("length", "max_tokens"),
        ("model_context_window_exceeded", "model_context_window_exceeded"),
        ("content_filter", "refusal"), ("refusal", "refusal"), ("SAFETY", "refusal"),
        ("pause_turn", "pause_turn"), ("compaction", "compaction"), ("error", "error"),
        ("network_error", "network_error"), ("weird_reason", "weird_reason"),
    ],
)  # fmt: skip
def test_each_finish_word_goes_out_as_the_format_says_it(raw: str, word: str) -> None:
    parts: list[Part] = [TextDelta("x"), Finish(FinishReason.read(raw), raw)]
    assert frames(parts)[-2] == word
    assert whole(CLAUDE, parts)["stop_reason"] == word


@pytest.mark.parametrize("raw", ["refusal", "content-filter"])
def test_a_refusal_has_its_details(raw: str) -> None:
    parts: list[Part] = [TextDelta("No"), Finish(FinishReason.CONTENT_FILTER, raw)]
    details = {"type": "refusal", "category": None, "explanation": None}
    assert data(streamed(CLAUDE, parts))[-2]["delta"]["stop_details"] == details
    assert whole(CLAUDE, parts)["stop_details"] == details


def counts(given: dict[str, Any]) -> tuple[int, int]:
    return given["input_tokens"], given["output_tokens"]


def test_the_first_event_has_the_input_tokens_and_the_last_has_all() -> None:
    events = data(streamed(CLAUDE, [TextDelta("x"), STOP]))
    assert (events[0]["type"], counts(events[0]["message"]["usage"])) == ("message_start", (11, 0))
    assert (events[-2]["type"], counts(events[-2]["usage"])) == ("message_delta", (11, 7))


def test_usage_that_is_absent_is_zeros() -> None:
    events = data(streamed(CLAUDE, [TextDelta("x"), Finish(FinishReason.STOP, "stop")]))
    assert counts(events[0]["message"]["usage"]) == counts(events[-2]["usage"]) == (0, 0)


def test_a_ping_comes_after_the_first_block_starts_unless_it_is_switched_off() -> None:
    parts: list[Part] = [ReasoningDelta("Hm"), TextDelta("x"), STOP]
    pinged = data(streamed(CLAUDE, parts))
    assert [event["type"] for event in pinged].count("ping") == 1
    assert [event["type"] for event in pinged][1:3] == ["content_block_start", "ping"]
    assert [event for event in pinged if event["type"] != "ping"] == data(streamed(QUIET, parts))


def test_a_whole_reply_has_its_blocks_in_order() -> None:
    parts: list[Part] = [
        ReasoningDelta("Hm"), TextDelta("So "), TextDelta("be it"), ToolCallPart(CALL), CALLS,
    ]  # fmt: skip
    assert whole(CLAUDE, parts) == {
        "id": "msg-3", "type": "message", "role": "assistant", "model": MODEL,
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": "signature-3"}, text("So be it"),
            use(CALL),
        ],
        "stop_reason": "tool_use", "stop_sequence": None,
        "usage": {
            "input_tokens": 11, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "output_tokens": 7,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (ToolCallPart(ToolCall("c", "f", '{"a":[1,null]}')), {"a": [1, None]}),
        (ToolCallPart(ToolCall("c", "f", "")), {}),
        (ToolCallPart(ToolCall("c", "f", "[1]")), {}),
        (ToolCallPart(ToolCall("c", "f", "{oops")), {}),
        (ToolCallPart(ToolCall("c", "f", "null")), {}),
        (ToolCallDelta("c", "f", '{"a":1}'), {}),
    ],
    ids=["object", "nothing", "list", "no JSON", "null", "half"],
)
def test_the_arguments_of_a_whole_reply_are_an_object(part: Part, value: Any) -> None:
    (block,) = whole(CLAUDE, [part, CALLS])["content"]
    assert block["input"] == value


ENABLED = {"thinking": {"type": "enabled", "budget_tokens": 1_024}}


def thought_over(form: AnthropicMessages) -> dict[str, Any]:
    """Return what the model says: a thought, and then a call."""
    said = whole(form, [ReasoningDelta("Hm"), ToolCallPart(CALL), CALLS])
    return {"role": "assistant", "content": said["content"]}


def test_the_thought_before_calls_that_are_answered_comes_with_them() -> None:
    form = AnthropicMessages()
    reply, answer = thought_over(form), says(result(CALL))
    form.read(http(anthropic(USER, reply, answer, **ENABLED), form.name))
    bare = {**reply, "content": reply["content"][1:]}
    with pytest.raises(WrongRequest) as refused:
        form.read(http(anthropic(USER, bare, answer, **ENABLED), form.name))
    assert refused.value.key == "messages.1.content.0.type"
    assert refused.value.message.startswith(
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`."
    )


def test_a_thought_may_be_left_out_where_none_is_asked_for_or_there_was_none() -> None:
    form = AnthropicMessages()
    reply, answer = thought_over(form), says(result(CALL))
    bare = {**reply, "content": reply["content"][1:]}
    form.read(http(anthropic(USER, bare, answer), form.name))
    later = {"role": "assistant", "content": [text("It is 42.")]}
    form.read(http(anthropic(USER, bare, answer, later, USER, **ENABLED), form.name))
    other = AnthropicMessages()
    other.read(http(anthropic(USER, bare, answer, **ENABLED), other.name))

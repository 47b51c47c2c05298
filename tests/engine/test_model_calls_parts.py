"""One model call, read part by part to the end of its stream."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from builders import counters_of
from growth import LINEAR, growth
from stopping import call_ids
from toolcalling import STOP, play, says

from simloop import Callbacks, Reply
from simloop.engine.model_calls import read_part
from simloop.kernel.policies import ReplyReading
from simloop.messages import (
    Fault,
    Finish,
    FinishReason,
    Part,
    ReasoningDelta,
    Request,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    ToolSpec,
)
from simloop.trace import entries
from simloop.trace.codec import encode

# ------------------------------------------------------------------------- the end of a stream


def test_a_stream_that_ends_without_a_finish_is_recorded_as_cut_and_not_as_finished() -> None:
    trace = play(says(TextDelta("Half."))).trace
    assert [e.request for e in trace.entries if isinstance(e, entries.StreamCut)] == [1]
    assert not [e for e in trace.entries if isinstance(e, entries.Finish)]


@pytest.mark.parametrize(
    ("reply", "error_class", "cause"),
    [
        (Reply(say="Half.", unfinished=True), "interrupted", "the stream ended without a finish"),
        (Reply(call={"look": {}}, unfinished=True), "interrupted",
         "the stream ended without a finish"),
        (Reply(finish="stop"), "empty-reply", "the reply is empty"),
        (Reply(say="Hm.", finish="tool-calls"), "missing-calls",
         "the reply announced tool calls and has none"),
    ],
)  # fmt: skip
def test_a_useless_reply_says_what_is_wrong_with_it(
    reply: Reply, error_class: str, cause: str
) -> None:
    result = play(lambda _: reply, max_error_count=2)
    (backoff,) = [entry for entry in result.trace.entries if isinstance(entry, entries.Backoff)]
    assert backoff.error_class == error_class
    assert result.message == f"Failed after 2 errors: {cause}"


@pytest.mark.parametrize(("steps", "counted"), [(0, 1), (1, 1), (3, 3), (-2, 1)])
def test_a_reply_counts_at_least_as_one_step(steps: int, counted: int) -> None:
    finish = Finish(FinishReason.STOP, "stop", steps=steps)
    assert counters_of(play(says(TextDelta("Done."), finish))).total_steps == counted


def test_a_generator_is_closed_before_the_run_goes_on() -> None:
    log: list[str] = []

    async def model(_: Request) -> AsyncIterator[Part]:
        try:
            yield TextDelta("Done.")
            yield STOP
            yield STOP
        finally:
            log.append("closed")

    play(model, callbacks=Callbacks(on_step_finish=lambda *_: log.append("step")))
    assert log == ["closed", "step"]


# ------------------------------------------------------------------------- parts


def test_every_part_is_recorded_in_order() -> None:
    call = ToolCall("a", "look", "{}")
    trace = play(
        says(ReasoningDelta("r"), TextDelta("t"), ToolCallDelta("a", "look", "{"),
             ToolCallPart(call), Finish(FinishReason.LENGTH, "max_tokens"))
    ).trace  # fmt: skip
    kinds = (
        entries.ReasoningDelta, entries.TextDelta, entries.ToolCallDelta, entries.ToolCall,
        entries.Finish,
    )  # fmt: skip
    assert [type(e) for e in trace.entries if isinstance(e, kinds)] == list(kinds)


def test_a_model_that_always_gives_the_same_id_costs_no_more_than_another() -> None:
    calls = [ToolCallPart(ToolCall(each, "t", "{}")) for each in ("same", "same#3", "", "same")]

    def ids_of(count: int) -> list[str]:
        same = [ToolCallPart(ToolCall("same", "t", "{}"))] * count
        trace = play(says(*calls, *same, Finish(FinishReason.ERROR, "error"))).trace
        return call_ids(trace)

    ids = ids_of(500)
    assert ids[:6] == ["same", "same#3", "call#2", "same#2", "same#4", "same#5"]
    assert len(set(ids)) == 504
    assert growth(ids_of, 500) < LINEAR


def test_on_chunk_is_told_every_part() -> None:
    parts = (ReasoningDelta("r"), TextDelta("t"), ToolCallDelta("a", "look", "{"), STOP)
    heard: list[Part] = []
    play(says(*parts), callbacks=Callbacks(on_chunk=heard.append))
    assert heard == list(parts)


@pytest.mark.parametrize(
    "parts",
    [
        (TextDelta("\ud800"), STOP),
        (ReasoningDelta("\ud800"), TextDelta("a"), STOP),
        (ToolCallDelta("\ud800", "a", "a"), TextDelta("a"), STOP),
        (ToolCallDelta("a", "\ud800", "a"), TextDelta("a"), STOP),
        (ToolCallDelta("a", "a", "\ud800"), TextDelta("a"), STOP),
        (ToolCallPart(ToolCall("\ud800", "\ud800", "\ud800")),
         Finish(FinishReason.LENGTH, "length")),
        (TextDelta("a"), Finish(FinishReason.OTHER, "\ud800")),
        (StreamError(Fault("\ud800")),),
        (StreamError(Fault("a", code="\ud800")),),
        (StreamError(Fault("a", headers=(("a", "\ud800"),))),),
    ],
)  # fmt: skip
def test_a_trace_of_a_hostile_stream_can_be_written(parts: tuple[Part, ...]) -> None:
    assert encode(play(says(*parts)).trace)


TOOL = ToolSpec("look", "", msgspec.Raw(b"{}"))
REQUEST = Request(1, "main", "", (), (TOOL,))


def read(reading: ReplyReading, *parts: Part) -> list[Part]:
    return [read_part(part, REQUEST, reading) for part in parts]


def test_by_default_every_part_is_passed_on() -> None:
    call = ToolCallPart(ToolCall("1", "Look", "{}"))
    parts: list[Part] = [TextDelta("a"), call, Finish(FinishReason.STOP, "STOP")]
    assert read(ReplyReading(), *parts) == parts


@pytest.mark.parametrize(
    ("word", "reason"),
    [("stop", FinishReason.STOP), ("STOP", FinishReason.OTHER), ("", FinishReason.STOP)],
)
def test_a_finish_word_that_is_not_known_as_spelled_is_other(
    word: str, reason: FinishReason
) -> None:
    reading = ReplyReading(finish_words=frozenset({"stop"}))
    assert read(reading, Finish(FinishReason.STOP, word)) == [Finish(reason, word)]


def test_a_failing_word_stands_as_an_error_with_that_code() -> None:
    reading = ReplyReading(failing_words=frozenset({"network_error"}))
    (part,) = read(reading, Finish(FinishReason.INTERRUPTED, "network_error"))
    assert isinstance(part, StreamError)
    assert part.fault.code == "network_error"


@pytest.mark.parametrize(
    ("name", "read_as"), [("LOOK", "look"), ("look", "look"), ("FIND", "FIND")]
)
def test_a_name_is_lowered_only_if_a_tool_has_it_then(name: str, read_as: str) -> None:
    reading = ReplyReading(lower_case_names=True)
    (part,) = read(reading, ToolCallPart(ToolCall("1", name, "{}")))
    assert isinstance(part, ToolCallPart)
    assert part.call.name == read_as

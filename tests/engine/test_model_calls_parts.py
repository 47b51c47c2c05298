"""One model call, read part by part to the end of its stream."""

from collections.abc import AsyncIterator, Iterator

import pytest
from builders import counters_of
from growth import LINEAR, growth
from hypothesis import given
from hypothesis import strategies as st
from modelcalling import STOP, play, says
from stopping import call_ids

from simloop import Callbacks, Reply
from simloop.escape import writable
from simloop.kernel.signals import ModelReplied
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
)
from simloop.trace import entries
from simloop.trace.codec import encode

# ------------------------------------------------------------------------- the end of a stream


@pytest.mark.parametrize("after", [TextDelta(" More."), StreamError(Fault("late")), STOP])
def test_what_comes_after_the_finish_is_not_read(after: Part) -> None:
    assert play(says(TextDelta("Done."), STOP, after)).text == "Done."


def test_a_stream_that_ends_without_a_finish_is_interrupted() -> None:
    trace = play(says(TextDelta("Half."))).trace
    signals = [e.signal for e in trace.entries if isinstance(e, entries.Transition)]
    (replied,) = [signal for signal in signals if isinstance(signal, ModelReplied)]
    assert replied.finish is FinishReason.INTERRUPTED


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


def test_a_plain_generator_is_closed_before_the_run_goes_on() -> None:
    log: list[str] = []

    def model(_: Request) -> Iterator[Part]:
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


def test_reasoning_is_no_part_of_the_text() -> None:
    assert play(says(ReasoningDelta("Hm."), TextDelta("Done."), STOP)).text == "Done."


def test_reasoning_alone_is_an_empty_reply() -> None:
    result = play(says(ReasoningDelta("Hm."), STOP))
    assert result.message == "Failed after 1 errors: the reply is empty"


def test_on_text_is_told_every_piece() -> None:
    heard: list[str] = []
    play(says(TextDelta("a"), TextDelta(""), TextDelta("b"), STOP),
         callbacks=Callbacks(on_text=heard.append))  # fmt: skip
    assert heard == ["a", "", "b"]


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


@given(st.text())
def test_writable_text_can_be_written_and_keeps_its_length(text: str) -> None:
    assert len(writable(text).encode()) >= len(text)


@given(st.text(st.characters(codec="utf-8")))
def test_text_that_can_be_written_stays_as_it_is(text: str) -> None:
    assert writable(text) == text


def test_a_pair_of_surrogates_becomes_the_character_that_it_spells() -> None:
    assert writable("\ud83d\ude00") == "\U0001f600"

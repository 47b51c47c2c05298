"""One model call: bounded in time, and a failure is a value."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest
from builders import counters_of
from growth import LINEAR, growth
from hypothesis import given
from hypothesis import strategies as st
from pacing import MS, paced
from stopping import call_ids
from toolcalling import STOP, classified, fault_of, play, says

from simloop import Callbacks, Http, Outcome, Reply, Result
from simloop.engine.model_calls import read_part
from simloop.errors import RunawayRun
from simloop.kernel.errorclass import ErrorClass
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
from simloop.trace import entries, recorder
from simloop.trace.codec import encode
from simloop.virtual.clock.timeouts import GRACE_NS

# ------------------------------------------------------------------------- timeouts


@pytest.mark.parametrize(
    "reply",
    [
        Reply(stall="before-headers"),
        Reply(say="late", pace=paced(first_part="1h")),
        Reply(http=Http(status=503), pace=paced(first_part="1h")),
    ],
)
def test_a_first_part_that_does_not_come_in_time_fails_the_call(reply: Reply) -> None:
    result = play(lambda _: reply, first_part_timeout_ms=30)
    assert (classified(result).error_class, result.elapsed_ns) == (ErrorClass.TIMEOUT, 30 * MS)


@pytest.mark.parametrize("part", [ReasoningDelta("Hm."), ToolCallDelta("a", "look", "{")])
def test_any_part_ends_the_wait_for_the_first_one(part: Part) -> None:
    async def model(_: Request) -> AsyncIterator[Part]:
        yield part
        await asyncio.sleep(0.05)
        yield TextDelta("Done.")
        yield STOP

    assert play(model, first_part_timeout_ms=30).outcome is Outcome.COMPLETED


def test_a_call_that_takes_too_long_as_a_whole_fails() -> None:
    pace = paced(per_part="20ms")
    result = play(lambda _: Reply(say="a b c d", pace=pace), model_call_timeout_ms=50)
    assert (classified(result).error_class, result.elapsed_ns) == (ErrorClass.TIMEOUT, 50 * MS)


@pytest.mark.parametrize("goes_on", ["silent", "with a part"])
def test_a_model_that_swallows_its_timeout_does_not_outlast_it(goes_on: str) -> None:
    async def model(_: Request) -> AsyncIterator[Part]:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3_600)
        if goes_on == "with a part":
            yield TextDelta("late")
        await asyncio.sleep(3_600)
        yield STOP

    result = play(model, first_part_timeout_ms=30, model_call_timeout_ms=1_000)
    assert result.elapsed_ns <= 1_000 * MS + GRACE_NS


@pytest.mark.parametrize(
    "callbacks", [None, Callbacks(on_text=lambda _: None)], ids=["alone", "with a callback"]
)
def test_a_model_that_cleans_up_for_ever_does_not_outlast_its_call(
    callbacks: Callbacks | None,
) -> None:
    async def model(_: Request) -> AsyncIterator[Part]:
        try:
            await asyncio.sleep(0.6)
            yield TextDelta("Done.")
            yield STOP
        finally:
            await asyncio.sleep(3_600)

    result = play(model, callbacks=callbacks, model_call_timeout_ms=1_000)
    assert (result.elapsed_ns, classified(result).error_class) == (1_000 * MS, ErrorClass.TIMEOUT)


def held_up_by_a_callback() -> Result:
    async def dawdles(_: object) -> None:
        await asyncio.sleep(4)

    callbacks = Callbacks(on_text=dawdles)
    return play(says(TextDelta("a"), STOP), callbacks=callbacks, model_call_timeout_ms=1_000)


def test_a_callback_does_not_hold_up_a_model_call_beyond_its_end() -> None:
    assert held_up_by_a_callback().elapsed_ns == 1_000 * MS


@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(0, 50),
    st.lists(st.integers(0, 30), max_size=3),
)  # fmt: skip
def test_a_call_ends_at_the_first_bound_that_it_passes(
    first_ms: int, whole_ms: int, wait_ms: int, gaps_ms: list[int]
) -> None:
    async def model(_: Request) -> AsyncIterator[Part]:
        await asyncio.sleep(wait_ms / 1_000)
        yield TextDelta("a")
        for gap_ms in gaps_ms:
            await asyncio.sleep(gap_ms / 1_000)
            yield TextDelta("b")
        yield STOP

    result = play(model, first_part_timeout_ms=first_ms, model_call_timeout_ms=whole_ms)
    total_ms = wait_ms + sum(gaps_ms)
    bound_ms = min(first_ms, whole_ms) if wait_ms >= first_ms else whole_ms
    if wait_ms < first_ms and total_ms < whole_ms:
        assert (result.outcome, result.elapsed_ns) == (Outcome.COMPLETED, total_ms * MS)
    elif result.outcome is Outcome.COMPLETED:  # in one instant the end of the stream may win
        assert total_ms in {whole_ms, first_ms}
    else:
        assert result.elapsed_ns == bound_ms * MS


# ------------------------------------------------------------------------- entries


def test_a_stream_that_goes_on_and_on_without_waiting_is_a_runaway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recorder, "MAX_ENTRIES", 50)
    with pytest.raises(RunawayRun, match="passed 50 entries without an outcome"):
        play(says(*[TextDelta("on and ")] * 100, STOP))


# ------------------------------------------------------------------------- faults


class StatusError(Exception):
    def __init__(self, status: object, name: str = "status_code") -> None:
        super().__init__("said the provider")
        setattr(self, name, status)


class Unreadable(Exception):  # noqa: N818 - it is the message that is wrong with it
    def __str__(self) -> str:
        raise ValueError("no message")


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (StatusError(429), ErrorClass.RATE_LIMIT),
        (StatusError(503, "status"), ErrorClass.OVERLOADED),
        (StatusError(401), ErrorClass.AUTH),
        (StatusError("429"), ErrorClass.UNKNOWN),
        (TimeoutError("slow"), ErrorClass.TIMEOUT),
        (ConnectionError("lost"), ErrorClass.CONNECTION),
        (ConnectionResetError("lost"), ErrorClass.CONNECTION),
        (ValueError("else"), ErrorClass.UNKNOWN),
        (asyncio.CancelledError(), ErrorClass.UNKNOWN),
        (Unreadable(), ErrorClass.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_an_exception_of_a_model_is_a_failed_call(
    error: BaseException, error_class: ErrorClass
) -> None:
    async def model(_: Request) -> AsyncIterator[Part]:
        yield TextDelta("Half.")
        raise error

    assert classified(play(model)).error_class == error_class


def test_what_ends_the_program_is_no_failed_call() -> None:
    def model(_: Request) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(model)


def test_a_failure_records_the_fault_as_it_is() -> None:
    fault = Fault("no", status=429, code="insufficient_quota", headers=(("retry-after", "5"),))
    result = play(says(StreamError(fault)))
    judged = classified(result)
    assert fault_of(result) == fault
    assert (judged.error_class, judged.retryable) == (ErrorClass.QUOTA, False)


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


# ------------------------------------------------------------------------- parts


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

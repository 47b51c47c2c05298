"""The fake model: plays its script exactly, and keeps account of it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupting import is_stopped, now_ms
from pacing import MS

from simloop import (
    Limits,
    Reply,
    Result,
    Scenario,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
    run,
    simulate,
)
from simloop.messages import (
    Finish,
    FinishReason,
    Part,
    Request,
    TextDelta,
    ToolCallDelta,
    ToolCallPart,
    UserMessage,
)
from simloop.runs.run import Simulation
from simloop.scenario.replies import Pace, When
from simloop.trace import entries
from simloop.virtual.simulate import run_virtual, running_loop
from simloop.world.fake_model import (
    FakeModel,
    Model,
    Stream,
    TimedPart,
    TimedStream,
    WholeStream,
    stream_of,
)

LOOK = Reply(say="I look.", call={"look": {}})
STOP = Finish(FinishReason.STOP, "stop")


def paced(**waits: str) -> Pace:
    return Pace.model_validate(waits)


def request(text: str = "Go.", purpose: str = "main") -> Request:
    return Request(1, purpose, "", (UserMessage(text),), ())


async def parts_of(model: Model, asked: Request) -> list[tuple[int, Part]]:
    """The parts, each with the millisecond at which it came."""
    return [(running_loop().now_ns // MS, part) async for part in model.stream(asked)]


def played(*replies: Reply, asked: Sequence[Request] = (request(),)) -> list[list[Part]]:
    """What a model that is asked these requests answers to each."""
    model = FakeModel([reply.entry(f"model.{index}") for index, reply in enumerate(replies)])

    async def main() -> list[list[Part]]:
        return [[part for _, part in await parts_of(model, one)] for one in asked]

    return simulate(main())


def timed(reply: Reply) -> list[int]:
    async def main() -> list[int]:
        model = FakeModel([reply.entry("model.0")])
        return [at_ms for at_ms, _ in await parts_of(model, request())]

    return simulate(main())


def text_of(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextDelta))


# ------------------------------------------------------------------------- one reply


@pytest.mark.parametrize(
    ("pace", "at_ms"),
    [
        (paced(), [0, 0, 0]),
        (paced(first_part="5ms"), [5, 5, 5]),
        (paced(per_part="3ms"), [0, 3, 6]),
        (paced(first_part="5ms", per_part="3ms"), [5, 8, 11]),
        (paced(per_token="2ms"), [2, 6, 6]),
    ],
)
def test_parts_come_at_the_pace_of_the_reply(pace: Pace, at_ms: list[int]) -> None:
    assert timed(Reply(say=["1234", "12345678"], pace=pace)) == at_ms


def test_no_call_has_the_id_of_one_that_broke_off() -> None:
    first, second = played(
        Reply(call={"a": {}}, fragments=2, half_call={"b": "{"}),
        Reply(call={"c": {}}),
        asked=[request(), request()],
    )
    pieces = [part.call_id for part in first if isinstance(part, ToolCallDelta)]
    calls = [part.call.id for part in (*first, *second) if isinstance(part, ToolCallPart)]
    assert (pieces, calls) == (["call-1", "call-1", "call-2"], ["call-1", "call-3"])


# ------------------------------------------------------------------------- the account


def say(text: str, times: Any = None, contains: str | None = None) -> Reply:
    return Reply(say=[text], times=times, when=When(contains=contains) if contains else None)


def texts(*replies: Reply, asked: str) -> str:
    """What is said to one request after the other, one letter each."""
    answers = played(*replies, asked=[request(letter) for letter in asked])
    return "".join(text_of(parts) for parts in answers)


@pytest.mark.parametrize(
    ("replies", "asked", "answers"),
    [
        ((say("1"), say("2"), say("3")), "xxx", "123"),
        ((say("1", times=2), say("2")), "xxx", "112"),
        ((say("1"), say("2", times="always")), "xxxx", "1222"),
        ((say("1"), say("r", contains="a"), say("2")), "xax", "1r2"),
        ((say("r", contains="a"), say("1")), "aaxaa", "rr1rr"),
        ((say("r", times=1, contains="a"), say("1")), "aa", "r1"),
        ((say("r", contains="b"), say("s", contains="a")), "aba", "srs"),
        ((say("r", times=1, contains="a"), say("s", contains="a")), "aaa", "rss"),
    ],
)
def test_rules_answer_before_replies_in_order_each_as_often_as_it_says(
    replies: tuple[Reply, ...], asked: str, answers: str
) -> None:
    assert texts(*replies, asked=asked) == answers


def test_one_request_too_many_is_an_error_that_names_its_number() -> None:
    with pytest.raises(
        ScriptExhausted, match=r"no reply for request 2: the run used 1 ordered reply"
    ):
        run(Scenario(prompt="Go.", model=[LOOK]))


@pytest.mark.parametrize(
    ("replies", "named"),
    [
        ([say("Done."), say("unused")], "model.1"),
        ([say("Done."), say("unused"), say("unused")], "model.1, model.2"),
        ([say("Done.", times=2)], "model.0"),
        ([say("Done."), say("unused", times="always")], "model.1"),
        ([say("Done."), say("unused", contains="never")], "model.1"),
        ([say("Done.", times="always"), say("unreachable")], "model.1"),
    ],
)
def test_replies_that_nobody_asked_for_are_an_error_that_names_them(
    replies: list[Reply], named: str
) -> None:
    with pytest.raises(ScriptUnused, match=rf"did not use {named} "):
        run(Scenario(prompt="Go.", model=replies))


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 12))
def test_a_script_is_satisfied_by_exactly_as_many_requests_as_it_has_replies(
    times: list[int], count: int
) -> None:
    script = [say(str(index), times=number) for index, number in enumerate(times)]
    model = FakeModel([reply.entry(f"model.{index}") for index, reply in enumerate(script)])

    async def main() -> None:
        for _ in range(count):
            await parts_of(model, request())
        model.check_account()

    if count == sum(times):
        simulate(main())
    else:
        error = ScriptUnused if count < sum(times) else ScriptExhausted
        with pytest.raises(error):
            simulate(main())


# ------------------------------------------------------------------------- functions as models


def answered(function: Callable[[Request], Any], **limits: int) -> Result:
    scenario = Scenario(prompt="Go.", limits=Limits(**limits))
    return Simulation(scenario, model=function, tools={"look": lambda: "seen"}).run()


def text(_: Request) -> str:
    return "Done."


def reply(_: Request) -> Reply:
    return Reply(say="Done.")


def parts(_: Request) -> list[Part]:
    return [TextDelta("Done."), STOP]


def generator(_: Request) -> Iterator[Part]:
    yield TextDelta("Done.")
    yield STOP


async def coroutine(_: Request) -> str:
    await asyncio.sleep(0)
    return "Done."


async def coroutine_of_a_reply(_: Request) -> Reply:
    return Reply(say="Done.")


async def async_generator(_: Request) -> AsyncIterator[Part]:
    yield TextDelta("Done.")
    await asyncio.sleep(0)
    yield STOP


async def coroutine_of_a_generator(asked: Request) -> AsyncIterator[Part]:
    return async_generator(asked)


@pytest.mark.parametrize(
    "function",
    [text, reply, parts, generator, coroutine, coroutine_of_a_reply, async_generator,
     coroutine_of_a_generator],
)  # fmt: skip
def test_a_function_may_answer_in_any_form(function: Callable[[Request], Any]) -> None:
    assert answered(function).text == "Done."


def test_a_function_may_take_virtual_time() -> None:
    async def slow(_: Request) -> str:
        await asyncio.sleep(3_600)
        return "Done."

    result = answered(slow, first_part_timeout_ms=10**7, model_call_timeout_ms=10**7)
    assert result.elapsed_s == 3_600


def test_calls_of_a_functions_replies_are_numbered_over_the_whole_run() -> None:
    call = Reply(call={"look": {}})
    result = answered(lambda asked: "Done." if len(asked.messages) > 3 else call)
    calls = [e.call_id for e in result.trace.entries if isinstance(e, entries.ToolCall)]
    assert calls == ["call-1", "call-2"]


def test_an_error_of_ours_in_a_model_is_raised_as_it_is() -> None:
    def model(_: Request) -> str:
        raise ScenarioError("the author is wrong")

    with pytest.raises(ScenarioError, match="the author is wrong"):
        answered(model)


@pytest.mark.parametrize("answer", [None, 5, object(), 1.5, True])
def test_a_function_that_returns_something_else_is_told_what_to_return(answer: Any) -> None:
    with pytest.raises(ScenarioError, match="return text, a Reply, or parts"):
        answered(lambda _: answer)


def strings(_: Request) -> Iterator[str]:
    yield "Done."


async def async_strings(_: Request) -> AsyncIterator[str]:
    yield "Done."


@pytest.mark.parametrize("function", [strings, async_strings])
def test_a_function_whose_parts_are_no_parts_is_told_so(function: Callable[[Request], Any]) -> None:
    with pytest.raises(ScenarioError):
        answered(function)


def test_a_scenario_has_one_model() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(say="Done.")])
    with pytest.raises(ScenarioError, match="two models"):
        Simulation(scenario, model=text)


END = Finish(FinishReason.STOP, "refusal")
A, B, C = (TextDelta(text) for text in "abc")
Seen = list[tuple[float, Part]]
SEEDED = settings(derandomize=True)


async def generated(*timed: tuple[int, Part]) -> AsyncIterator[Part]:
    for delay_ns, part in timed:
        if delay_ns:
            await asyncio.sleep(delay_ns / 1e9)
        yield part


async def taken(stream: Stream, *, most: int = 1_000) -> Seen:
    """Take parts as the port does, but stop in the middle of what is due after `most` of them."""
    seen: Seen = []
    while True:
        here = 0
        for part in stream.due():
            seen.append((now_ms(), part))
            here += 1
            if here == most:
                break
        if not here and not await stream.wait():
            return seen


def played_streams(stream: Any, *, most: int = 1_000) -> Seen:
    async def main() -> Seen:
        return await taken(stream_of(stream), most=most)

    return run_virtual(main())


EITHER = pytest.mark.parametrize(
    "made", [TimedStream, lambda timed: generated(*timed)],
    ids=["timed", "generated"],
)  # fmt: skip


@SEEDED
@given(
    st.lists(st.tuples(st.sampled_from([0, 0, MS, 3 * MS]), st.sampled_from([A, B, C]))),
    st.integers(1, 4),
)
def test_timed_and_generated_streams_give_the_same_parts_at_the_same_times(
    timed: list[TimedPart], most: int
) -> None:
    parts: Any = timed
    assert played_streams(TimedStream(timed), most=most) == played_streams(
        generated(*parts), most=most
    )


@EITHER
def test_a_stream_that_has_ended_stays_ended(made: Any) -> None:
    async def main() -> list[bool]:
        stream = stream_of(made([(0, A)]))
        await taken(stream)
        return [await stream.wait(), await stream.wait()]

    assert run_virtual(main()) == [False, False]


def test_a_stall_waits_for_ever() -> None:
    async def main() -> tuple[bool, float]:
        stream = TimedStream([(2 * MS, None)])
        task = asyncio.current_task()
        assert task is not None
        assert list(stream.due()) == []
        running_loop().call_later(3_600, task.cancel)
        return await is_stopped(stream.wait()), now_ms()

    assert run_virtual(main()) == (True, 3_600_000)


@pytest.mark.parametrize("delay_ns", [0, MS])
def test_an_exception_in_a_timed_stream_is_raised_in_its_turn(delay_ns: int) -> None:
    async def main() -> Part:
        stream = TimedStream([(0, A), (delay_ns, ValueError("no")), (0, B)])
        first = await anext(stream)
        with pytest.raises(ValueError, match="no"):
            await anext(stream)
        return first

    assert run_virtual(main()) == A


@pytest.mark.parametrize(
    "made", [TimedStream, lambda timed: generated(*timed),
             lambda timed: WholeStream([part for _, part in timed])],
    ids=["timed", "generated", "whole"],
)  # fmt: skip
def test_a_stream_that_is_given_up_gives_nothing_more(made: Any) -> None:
    async def main() -> tuple[list[Part], bool]:
        stream = stream_of(made([(0, A), (0, B)]))
        if not next(stream.due(), None):
            await stream.wait()
        await stream.aclose()
        return list(stream.due()), await stream.wait()

    assert run_virtual(main()) == ([], False)


def test_a_stream_that_is_there_whole_goes_on_where_its_reader_stopped() -> None:
    async def main() -> list[object]:
        stream = WholeStream([A, B, C])
        first = next(stream.due())
        more = await stream.wait()
        rest = list(stream.due())
        return [first, more, *rest, await stream.wait(), list(stream.due())]

    assert run_virtual(main()) == [A, True, B, C, False, []]


@pytest.mark.parametrize(
    ("stream", "finish"),
    [
        (WholeStream([A, B, END]), END),
        (WholeStream([A, B]), None),
        (WholeStream([]), None),
        (TimedStream([(0, A), (MS, B), (0, END)]), END),
        (TimedStream([(0, A), (MS, END)]), END),
        (TimedStream([(0, A), (MS, None)]), None),
        (TimedStream([(0, A), (MS, RuntimeError("no"))]), None),
        (TimedStream((0, part) for part in (A, END)), None),
    ],
    ids=["whole", "unfinished", "empty", "timed", "next", "stall", "raises", "lazy"],
)
def test_the_finish_ahead_is_known_where_the_script_is(
    stream: WholeStream | TimedStream, finish: Finish | None
) -> None:
    for _ in stream.due():
        break  # the first part: a stream asks its model when it is first read
    assert stream.ahead() == finish

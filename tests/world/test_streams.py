"""Streams: each part is given once, in order, when it is due."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupting import is_stopped, now_ms
from pacing import MS

from simloop.messages import (
    Finish,
    FinishReason,
    Part,
    TextDelta,
)
from simloop.virtual.simulate import run_virtual, running_loop
from simloop.world.streams import (
    Stream,
    TimedPart,
    TimedStream,
    WholeStream,
    stream_of,
)

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


def played(stream: Any, *, most: int = 1_000) -> Seen:
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
    assert played(TimedStream(timed), most=most) == played(generated(*parts), most=most)


@EITHER
def test_a_stream_that_has_ended_stays_ended(made: Any) -> None:
    async def main() -> list[bool]:
        stream = stream_of(made([(0, A)]))
        await taken(stream)
        return [await stream.wait(), await stream.wait()]

    assert run_virtual(main()) == [False, False]


def test_an_iterator_that_cannot_be_closed_is_given_up_all_the_same() -> None:
    class Parts:
        def __aiter__(self) -> "Parts":
            return self

        async def __anext__(self) -> Part:
            return A

    async def main() -> bool:
        stream = stream_of(Parts())
        await stream.wait()
        await stream.aclose()
        return await stream.wait()

    assert run_virtual(main()) is False


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


def test_a_look_ahead_takes_nothing_from_the_stream() -> None:
    async def main(stream: WholeStream | TimedStream) -> tuple[Finish | None, Seen]:
        return stream.ahead(), await taken(stream)

    for stream in (WholeStream([A, B, END]), TimedStream([(0, A), (0, B), (0, END)])):
        assert run_virtual(main(stream)) == (END, [(0.0, A), (0.0, B), (0.0, END)])


def test_a_finish_that_was_waited_for_is_still_ahead() -> None:
    async def main() -> Finish | None:
        stream = TimedStream([(MS, END)])
        list(stream.due())
        await stream.wait()
        return stream.ahead()

    assert run_virtual(main()) == END

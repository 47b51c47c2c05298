"""A loop is busy while something other than the running callback can run now."""

import asyncio
import time

from hypothesis import given, settings
from hypothesis import strategies as st
from pacing import MS, nap

from simloop import simulate
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.simulate import run_virtual, running_loop


def passes(seconds: int) -> None:
    """Let time pass without waiting, as a blocking tool does."""
    time.sleep(seconds)


def busy() -> bool:
    return running_loop().busy


async def nothing() -> None:
    pass


def test_a_task_that_runs_alone_is_not_busy() -> None:
    async def main() -> list[bool]:
        before = busy()
        await nap(5)
        return [before, busy()]

    assert run_virtual(main()) == [False, False]


def test_a_task_that_is_ready_makes_the_loop_busy_until_it_has_had_its_turn() -> None:
    async def main() -> list[bool]:
        task = asyncio.create_task(nothing())
        seen = [busy()]
        await asyncio.sleep(0)
        assert task.done()
        return [*seen, busy()]

    assert run_virtual(main()) == [True, False]


def test_a_timer_of_the_future_does_not_make_the_loop_busy() -> None:
    async def main() -> bool:
        running_loop().call_later(0.001, lambda: None)
        return busy()

    assert run_virtual(main()) is False


def test_a_timer_that_is_due_as_time_passes_without_waiting_makes_the_loop_busy() -> None:
    async def main() -> list[bool]:
        running_loop().call_later(2, lambda: None)
        passes(seconds=1)
        seen = [busy()]
        passes(seconds=1)
        seen.append(busy())
        await asyncio.sleep(0)  # the timer fires behind the task that gives the turn
        seen.append(busy())
        await asyncio.sleep(0)
        return [*seen, busy()]

    assert simulate(main()) == [False, True, True, False]


def test_a_timer_that_is_set_for_now_makes_the_loop_busy() -> None:
    async def main() -> bool:
        loop = running_loop()
        loop.call_at_ns(loop.now_ns, lambda: None)
        return busy()

    assert run_virtual(main()) is True


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5))
@settings(derandomize=True)
def test_a_loop_is_busy_exactly_if_there_is_something_that_turns_would_run(
    steps: list[tuple[int, int]],
) -> None:
    async def main(loop: VirtualLoop) -> None:
        ran: list[int] = []
        for timer_ms, passes_ms in steps:
            loop.call_at_ns(loop.now_ns + timer_ms * MS, ran.append, timer_ms)
            loop.advance_ns(passes_ms * MS)
            was_busy, count = loop.busy, len(ran)
            for _ in range(2):
                await asyncio.sleep(0)
            assert was_busy is (len(ran) > count)
            assert not loop.busy

    async def inside() -> None:
        await main(running_loop())

    run_virtual(inside())

"""A loop is busy while something other than the running callback can run now."""

import asyncio
import time

from hypothesis import given, settings
from hypothesis import strategies as st
from pacing import MS, nap

from simloop import simulate
from simloop.virtual.clock import VirtualLoop, run_virtual
from simloop.virtual.simulate import running_loop


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
        time.sleep(1)
        seen = [busy()]
        time.sleep(1)
        seen.append(busy())
        await asyncio.sleep(0)
        return [*seen, busy()]

    assert simulate(main()) == [False, True, False]


def test_a_timer_that_is_set_for_now_makes_the_loop_busy() -> None:
    async def main() -> bool:
        loop = running_loop()
        loop.call_at_ns(loop.now_ns, lambda: None)
        return busy()

    assert run_virtual(main()) is True


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_a_loop_that_is_not_busy_has_nothing_that_a_turn_would_run(
    steps: list[tuple[int, int]],
) -> None:
    async def main(loop: VirtualLoop) -> None:
        ran: list[int] = []
        for timer_ms, passes_ms in steps:
            loop.call_at_ns(loop.now_ns + timer_ms * MS, ran.append, timer_ms)
            loop.advance_ns(passes_ms * MS)
            was_busy, count = loop.busy, len(ran)
            await asyncio.sleep(0)
            assert was_busy or len(ran) == count
            assert not loop.busy

    async def inside() -> None:
        await main(running_loop())

    run_virtual(inside())

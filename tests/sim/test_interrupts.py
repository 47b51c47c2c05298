"""The end of the run: it stops a task that waits, there and then and only once."""

import asyncio

import pytest
from interrupting import current, is_stopped, now_ms, play
from pacing import MS, nap

from simloop.kernel.signals import AbortRequested, WallClockExpired
from simloop.sim.clock import run_virtual
from simloop.sim.interrupts import GRACE_NS, Interrupts, Watch
from simloop.sim.simulate import running_loop


def test_a_task_that_waits_is_stopped_there_and_then() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> tuple[bool, float]:
        running_loop().call_later(0.005, interrupts.end_run, AbortRequested())
        return await is_stopped(nap(10)), now_ms()

    assert play(main) == (True, 5)


def test_a_task_that_stops_itself_is_stopped_at_its_next_wait() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> tuple[bool, float]:
        interrupts.end_run(AbortRequested())
        return await is_stopped(nap(10)), now_ms()

    assert play(main) == (True, 0)


def test_a_check_stops_a_task_that_does_not_wait() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> None:
        interrupts.end_run(AbortRequested())
        with pytest.raises(asyncio.CancelledError):
            interrupts.check()
        interrupts.take()

    play(main)


def test_a_check_lets_a_run_pass_that_is_not_to_end() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> None:
        interrupts.check()

    play(main)


def test_the_first_signal_counts() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> object:
        interrupts.end_run(AbortRequested())
        interrupts.end_run(WallClockExpired())
        return interrupts.take()

    assert play(main) == AbortRequested()


def test_after_the_signal_is_taken_nothing_interrupts_any_more() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> bool:
        interrupts.end_run(AbortRequested())
        interrupts.take()
        interrupts.end_run(WallClockExpired())
        return await is_stopped(nap(1))

    assert play(main) is False


@pytest.mark.parametrize("stops", [1, 2, 3])
def test_taking_the_signal_takes_back_every_cancellation(stops: int) -> None:
    async def main(interrupts: Interrupts, _: Watch) -> int:
        for _stop in range(stops):
            running_loop().call_later(0.001, interrupts.end_run, AbortRequested())
        await is_stopped(nap(10))
        interrupts.take()
        return current()[1].cancelling()

    assert play(main) == 0


def test_taking_the_signal_does_not_hide_a_cancellation_from_outside() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> int:
        loop, task = current()
        loop.call_later(0.001, interrupts.end_run, AbortRequested())
        loop.call_later(0.001, task.cancel)
        await is_stopped(nap(10))
        with pytest.raises(asyncio.CancelledError):
            interrupts.take()
        return task.cancelling()

    assert play(main) == 1


def test_a_task_that_was_being_cancelled_before_the_run_may_still_run() -> None:
    async def inside() -> object:
        loop, task = current()
        task.cancel()
        await is_stopped(nap(1))
        interrupts = Interrupts(loop, task)
        interrupts.end_run(AbortRequested())
        return interrupts.take()

    assert run_virtual(inside()) == AbortRequested()


def test_after_the_end_of_the_run_nothing_interrupts_the_task_any_more() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> bool:
        interrupts.plan(5 * MS, WallClockExpired())
        interrupts.close()
        interrupts.end_run(AbortRequested())
        return await is_stopped(nap(10))

    assert play(main) is False


def test_a_stop_asked_for_by_another_task_stops_ours() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> tuple[bool, float]:
        async def other() -> None:
            await nap(2)
            interrupts.end_run(AbortRequested())

        task = asyncio.create_task(other())
        stopped = await is_stopped(nap(10)), now_ms()
        await task
        return stopped

    assert play(main) == (True, 2)


def test_code_that_swallows_the_end_of_the_run_is_stopped_again_after_the_grace() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> tuple[bool, float, int]:
        running_loop().call_later(0.005, interrupts.end_run, AbortRequested())
        await is_stopped(nap(100))
        stopped = await is_stopped(nap(10_000))
        interrupts.take()
        return stopped, now_ms() - GRACE_NS / MS, current()[1].cancelling()

    assert play(main) == (True, 5, 0)


def test_after_the_signal_is_taken_no_grace_runs_on() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> bool:
        running_loop().call_later(0.005, interrupts.end_run, AbortRequested())
        await is_stopped(nap(100))
        interrupts.take()
        return await is_stopped(nap(10_000))

    assert play(main) is False


def test_a_planned_end_stops_a_task_that_waits() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> tuple[bool, float]:
        interrupts.plan(5 * MS, WallClockExpired())
        return await is_stopped(nap(10)), now_ms()

    assert play(main) == (True, 5)


def test_a_planned_end_stops_a_task_for_which_time_passes_without_waiting() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> object:
        interrupts.plan(5 * MS, WallClockExpired())
        running_loop().advance_ns(6 * MS)
        with pytest.raises(asyncio.CancelledError):
            interrupts.check()
        return interrupts.take()

    assert play(main) == WallClockExpired()


def test_of_two_planned_ends_the_earlier_one_counts() -> None:
    async def main(interrupts: Interrupts, _: Watch) -> object:
        interrupts.plan(5 * MS, WallClockExpired())
        interrupts.plan(3 * MS, AbortRequested())
        running_loop().advance_ns(6 * MS)
        with pytest.raises(asyncio.CancelledError):
            interrupts.check()
        return interrupts.take()

    assert play(main) == AbortRequested()

"""The end of the run: it stops a task that waits, there and then and only once."""

import asyncio

import pytest
from interrupting import cancellation, current, is_stopped, now_ms, play
from pacing import MS, nap

from simloop.kernel.signals import AbortRequested, HookFailed, Signal, WallClockExpired
from simloop.virtual.clock.timeouts import GRACE_NS, Timeouts
from simloop.virtual.simulate import run_virtual, running_loop
from simloop.world.cancellation import Cancellation


def test_a_task_that_waits_is_stopped_there_and_then() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float]:
        running_loop().call_later(0.005, cancelling.end_run, AbortRequested())
        return await is_stopped(nap(10)), now_ms()

    assert play(main) == (True, 5)


def test_a_check_stops_a_task_that_does_not_wait() -> None:
    async def main(cancelling: Cancellation) -> None:
        cancelling.end_run(AbortRequested())
        with pytest.raises(asyncio.CancelledError):
            cancelling.check()
        cancelling.take()

    play(main)


def test_the_first_signal_counts() -> None:
    async def main(cancelling: Cancellation) -> object:
        cancelling.end_run(AbortRequested())
        cancelling.end_run(WallClockExpired())
        return cancelling.take()

    assert play(main) == AbortRequested()


@pytest.mark.parametrize("stops", [1, 2, 3])
def test_taking_the_signal_takes_back_every_cancellation(stops: int) -> None:
    async def main(cancelling: Cancellation) -> int:
        for _stop in range(stops):
            running_loop().call_later(0.001, cancelling.end_run, AbortRequested())
        await is_stopped(nap(10))
        cancelling.take()
        return current()[1].cancelling()

    assert play(main) == 0


def test_taking_the_signal_does_not_hide_a_cancellation_from_outside() -> None:
    async def main(cancelling: Cancellation) -> int:
        loop, task = current()
        loop.call_later(0.001, cancelling.end_run, AbortRequested())
        loop.call_later(0.001, task.cancel)
        await is_stopped(nap(10))
        with pytest.raises(asyncio.CancelledError):
            cancelling.take()
        return task.cancelling()

    assert play(main) == 1


def test_a_task_that_was_being_cancelled_before_the_run_may_still_run() -> None:
    async def inside() -> object:
        loop, task = current()
        task.cancel()
        await is_stopped(nap(1))
        cancelling = Cancellation(loop)
        cancelling.open(task, None)
        cancelling.end_run(AbortRequested())
        return cancelling.take()

    assert run_virtual(inside()) == AbortRequested()


def test_code_that_swallows_the_end_of_the_run_is_stopped_again_after_the_grace() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float, int]:
        running_loop().call_later(0.005, cancelling.end_run, AbortRequested())
        await is_stopped(nap(100))
        stopped = await is_stopped(nap(10_000))
        cancelling.take()
        return stopped, now_ms() - GRACE_NS / MS, current()[1].cancelling()

    assert play(main) == (True, 5, 0)


def test_of_two_planned_ends_the_earlier_one_counts() -> None:
    async def main(cancelling: Cancellation) -> object:
        cancelling.plan(5 * MS, WallClockExpired())
        cancelling.plan(3 * MS, AbortRequested())
        running_loop().advance_ns(6 * MS)
        with pytest.raises(asyncio.CancelledError):
            cancelling.check()
        return cancelling.take()

    assert play(main) == AbortRequested()


# ---------------------------------------------------------------------- asking instead of stopping


def test_while_it_polls_an_abort_cancels_nothing_and_is_found_by_the_next_check() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float, int, object]:
        cancelling.polls = True
        running_loop().call_later(0.005, cancelling.end_run, AbortRequested())
        stopped = await is_stopped(nap(10))
        with pytest.raises(asyncio.CancelledError):
            cancelling.check()
        return stopped, now_ms(), current()[1].cancelling(), cancelling.take()

    assert play(main) == (False, 10, 0, AbortRequested())


@pytest.mark.parametrize("signal", [WallClockExpired(), HookFailed()], ids=repr)
def test_while_it_polls_whatever_else_ends_the_run_still_cancels(signal: Signal) -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float, object]:
        cancelling.polls = True
        running_loop().call_later(0.005, cancelling.end_run, signal)
        return await is_stopped(nap(10)), now_ms(), cancelling.take()

    assert play(main) == (True, 5, signal)


def test_the_wall_clock_cancels_also_after_an_abort_that_nobody_has_asked_about() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float, object, int]:
        cancelling.polls = True
        cancelling.plan(5 * MS, AbortRequested())
        cancelling.plan(8 * MS, WallClockExpired())
        stopped = await is_stopped(nap(100)), now_ms()
        return *stopped, cancelling.take(), current()[1].cancelling()

    assert play(main) == (True, 8, WallClockExpired(), 0)


# ---------------------------------------------------------------------- the next run


def test_what_is_opened_again_can_be_stopped_again() -> None:
    async def main(cancelling: Cancellation) -> tuple[object, bool, object, int]:
        cancelling.end_run(AbortRequested())
        first = cancelling.take()
        cancelling.open(current()[1], None)
        running_loop().call_later(0.005, cancelling.end_run, WallClockExpired())
        stopped = await is_stopped(nap(10))
        return first, stopped, cancelling.take(), current()[1].cancelling()

    assert play(main) == (AbortRequested(), True, WallClockExpired(), 0)


def test_what_was_planned_for_one_run_does_not_stop_the_next_one() -> None:
    async def main(cancelling: Cancellation) -> bool:
        cancelling.plan(5 * MS, WallClockExpired())
        cancelling.close()
        cancelling.open(current()[1], None)
        stopped = await is_stopped(nap(10))
        cancelling.check()
        return stopped

    assert play(main) is False


def test_a_run_that_was_stopped_by_itself_leaves_no_cancellation_for_the_next_one() -> None:
    async def main(cancelling: Cancellation) -> bool:
        cancelling.end_run(AbortRequested())
        cancelling.take()
        cancelling.open(current()[1], None)
        return await is_stopped(nap(1_000))

    assert play(main) is False


def test_the_next_run_begins_without_polling() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float]:
        cancelling.polls = True
        cancelling.close()
        cancelling.open(current()[1], None)
        running_loop().call_later(0.005, cancelling.end_run, AbortRequested())
        return await is_stopped(nap(10)), now_ms()

    assert play(main) == (True, 5)


def test_a_run_is_stopped_as_soon_as_an_end_is_pending_or_due() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, bool]:
        cancelling.plan(5 * MS, WallClockExpired())
        before = cancelling.stopped
        running_loop().advance_ns(6 * MS)
        return before, cancelling.stopped

    assert play(main) == (False, True)


# ---------------------------------------------------------------------- an abort as a flag


def flagged(cancelling: Cancellation) -> list[float]:
    """Let an abort be a flag; return the times at which it is noted."""
    noted: list[float] = []
    cancelling.note_abort = lambda: noted.append(now_ms())
    return noted


def test_where_an_abort_is_a_flag_it_ends_nothing_and_is_noted_once() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, bool, bool, list[float]]:
        noted = flagged(cancelling)
        for delay in (0.002, 0.003):
            running_loop().call_later(delay, cancelling.end_run, AbortRequested())
        before = cancelling.aborted
        stopped = await is_stopped(nap(10))
        cancelling.check()
        return before, stopped, cancelling.aborted, noted

    assert play(main) == (False, False, True, [2])


def test_an_abort_that_is_a_flag_is_found_also_when_time_passes_without_waiting() -> None:
    async def main(cancelling: Cancellation) -> bool:
        flagged(cancelling)
        cancelling.plan(5 * MS, AbortRequested())
        running_loop().advance_ns(6 * MS)
        return cancelling.aborted

    assert play(main) is True


def test_where_an_abort_is_a_flag_the_wall_clock_still_ends_the_run() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float, object]:
        flagged(cancelling)
        cancelling.end_run(AbortRequested())
        cancelling.plan(5 * MS, WallClockExpired())
        return await is_stopped(nap(10)), now_ms(), cancelling.take()

    assert play(main) == (True, 5, WallClockExpired())


def test_an_abort_that_is_a_flag_breaks_off_the_wait_that_it_is_for_and_no_other() -> None:
    async def main(cancelling: Cancellation) -> list[float]:
        flagged(cancelling)
        timeouts, ended = Timeouts(*current()), []
        running_loop().call_later(0.005, cancelling.end_run, AbortRequested())
        with timeouts.after(None) as timeout, cancelling.breaking(timeout):
            await nap(100)
        ended.append(now_ms())
        with timeouts.after(None):
            await nap(100)
        return [*ended, now_ms()]

    assert play(main) == [5, 105]


def test_an_abort_that_is_a_flag_breaks_off_a_wait_that_begins_after_it() -> None:
    async def main(cancelling: Cancellation) -> float:
        flagged(cancelling)
        cancelling.end_run(AbortRequested())
        timeouts = Timeouts(*current())
        with timeouts.after(None) as timeout, cancelling.breaking(timeout):
            await nap(100)
        return now_ms()

    assert play(main) == 0


# ---------------------------------------------------------------------- a run that goes on


def test_a_run_that_goes_on_after_its_end_can_be_ended_again_by_the_same_wall_clock() -> None:
    async def main() -> tuple[object, bool, float, object]:
        cancelling = cancellation(wall_clock_ms=8)
        cancelling.end_run(AbortRequested())
        first = cancelling.take()
        cancelling.reopen()
        return first, await is_stopped(nap(10)), now_ms(), cancelling.take()

    assert run_virtual(main()) == (AbortRequested(), True, 8, WallClockExpired())


def test_what_counts_as_the_end_is_told_once() -> None:
    async def main() -> list[Signal]:
        told: list[Signal] = []
        loop, task = current()
        cancelling = Cancellation(loop, told.append)
        cancelling.open(task, None)
        cancelling.end_run(AbortRequested())
        cancelling.end_run(WallClockExpired())
        cancelling.take()
        cancelling.end_run(AbortRequested())
        return told

    assert run_virtual(main()) == [AbortRequested()]

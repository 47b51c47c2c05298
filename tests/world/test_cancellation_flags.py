"""An abort that is a flag, a run that goes on after its end, and who is told of an end."""

from interrupting import cancellation, current, is_stopped, now_ms, play
from pacing import MS, nap

from simloop.kernel.signals import AbortRequested, Signal, WallClockExpired
from simloop.virtual.clock.timeouts import Timeouts
from simloop.virtual.simulate import run_virtual, running_loop
from simloop.world.cancellation import Cancellation

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


def test_an_abort_that_is_a_flag_is_found_also_when_time_passes_without_waiting() -> None:
    async def main(cancelling: Cancellation) -> bool:
        flagged(cancelling)
        cancelling.plan(5 * MS, AbortRequested())
        running_loop().advance_ns(6 * MS)
        return cancelling.aborted

    assert play(main) is True


# ---------------------------------------------------------------------- a run that goes on


def test_a_run_that_goes_on_after_its_end_can_be_ended_again_by_the_same_wall_clock() -> None:
    async def main() -> tuple[object, bool, float, object]:
        cancelling = cancellation(wall_clock_ms=8)
        cancelling.end_run(AbortRequested())
        first = cancelling.take()
        cancelling.reopen()
        return first, await is_stopped(nap(10)), now_ms(), cancelling.take()

    assert run_virtual(main()) == (AbortRequested(), True, 8, WallClockExpired())


def test_a_run_is_stopped_as_soon_as_an_end_is_pending_or_due() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, bool]:
        cancelling.plan(5 * MS, WallClockExpired())
        before = cancelling.stopped
        running_loop().advance_ns(6 * MS)
        return before, cancelling.stopped

    assert play(main) == (False, True)


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

"""A deadline on one thing: it stops what takes longer, and nothing else."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupting import current, is_stopped, now_ms, play
from pacing import MS, nap

from simloop.engine.cancellation import GRACE_NS, Cancellation, Timeouts
from simloop.kernel.signals import AbortRequested
from simloop.virtual.clock import run_virtual
from simloop.virtual.simulate import running_loop


def lasts(milliseconds: float, timeout_ms: int) -> tuple[bool, float]:
    """Whether a deadline is reached by something that takes so long, and when it is over."""

    async def main(_: Cancellation, watch: Timeouts) -> tuple[bool, float]:
        with watch.deadline(timeout_ms) as deadline:
            await nap(milliseconds)
        return deadline.expired, now_ms()

    return play(main)


def test_what_ends_before_its_deadline_is_left_alone() -> None:
    assert lasts(9, timeout_ms=10) == (False, 9)


def test_what_takes_longer_than_its_deadline_ends_there() -> None:
    assert lasts(11, timeout_ms=10) == (True, 10)


def test_what_never_ends_ends_at_its_deadline() -> None:
    assert lasts(float("inf"), timeout_ms=10) == (True, 10)


def test_a_deadline_that_is_moved_away_does_not_strike_at_its_old_time() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> tuple[bool, float]:
        with watch.deadline(10) as deadline:
            await nap(5)
            deadline.move(20 * MS)
            await nap(10)
        return deadline.expired, now_ms()

    assert play(main) == (False, 15)


def test_a_deadline_that_is_moved_away_strikes_at_its_new_time() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> tuple[bool, float]:
        with watch.deadline(10) as deadline:
            await nap(5)
            deadline.move(20 * MS)
            await nap(100)
        return deadline.expired, now_ms()

    assert play(main) == (True, 20)


def test_a_deadline_that_is_moved_nearer_strikes_there() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> tuple[bool, float]:
        with watch.deadline(100) as deadline:
            deadline.move(3 * MS)
            await nap(50)
        return deadline.expired, now_ms()

    assert play(main) == (True, 3)


def test_a_deadline_of_the_past_has_no_effect_on_what_comes_after_it() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> float:
        with watch.deadline(5):
            await nap(1)
        await nap(20)
        return now_ms()

    assert play(main) == 21


def test_an_inner_deadline_strikes_before_the_outer_one() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> tuple[bool, bool, float]:
        with watch.deadline(10) as outer, watch.deadline(3) as inner:
            await nap(100)
        return inner.expired, outer.expired, now_ms()

    assert play(main) == (True, False, 3)


def test_an_outer_deadline_still_strikes_after_an_inner_one_was_met() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> tuple[bool, bool, float]:
        with watch.deadline(10) as outer:
            with watch.deadline(50) as inner:
                await nap(5)
            await nap(100)
        return inner.expired, outer.expired, now_ms()

    assert play(main) == (False, True, 10)


def test_an_inner_deadline_lasts_no_longer_than_the_outer_one() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> tuple[bool, bool, float]:
        with watch.deadline(10) as outer:
            with watch.deadline(50) as inner:
                await nap(20)
            await nap(100)
        return inner.expired, outer.expired, now_ms()

    assert play(main) == (True, True, 10)


def test_code_that_swallows_a_deadline_does_not_hide_it() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> bool:
        with watch.deadline(5) as deadline:
            await is_stopped(nap(100))
        return deadline.expired

    assert play(main) is True


def test_code_that_swallows_a_deadline_and_goes_on_is_stopped_again_after_the_grace() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> tuple[float, int]:
        with watch.deadline(5):
            await is_stopped(nap(100))
            await nap(10_000)
        return now_ms() - GRACE_NS / MS, current()[1].cancelling()

    assert play(main) == (5, 0)


def test_code_that_cleans_up_within_the_grace_is_left_to_it() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> float:
        with watch.deadline(5):
            await is_stopped(nap(100))
            await nap(GRACE_NS / MS - 1)
        return now_ms() - GRACE_NS / MS

    assert play(main) == 4


def test_an_expired_deadline_takes_its_cancellation_back() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> int:
        with watch.deadline(5):
            await nap(100)
        return current()[1].cancelling()

    assert play(main) == 0


def test_an_exception_in_a_deadline_passes_through() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> None:
        with pytest.raises(ValueError, match="mine"), watch.deadline(5):
            raise ValueError("mine")

    play(main)


def test_a_cancellation_of_ones_own_passes_through_a_deadline() -> None:
    async def main(_: Cancellation, watch: Timeouts) -> None:
        with pytest.raises(asyncio.CancelledError), watch.deadline(5):
            raise asyncio.CancelledError

    play(main)


@pytest.mark.parametrize("order", ["deadline first", "cancel first"])
def test_a_cancellation_from_outside_passes_through_a_deadline_of_the_same_instant(
    order: str,
) -> None:
    async def bounded(watch: Timeouts) -> None:
        loop, task = current()
        if order == "cancel first":
            loop.call_at_ns(5 * MS, task.cancel)
        with watch.deadline(5):
            if order == "deadline first":
                loop.call_at_ns(5 * MS, task.cancel)
            await nap(100)

    async def main(_: Cancellation, watch: Timeouts) -> bool:
        return await is_stopped(bounded(watch))

    assert play(main) is True


def test_an_interrupt_passes_through_a_deadline_of_the_same_instant() -> None:
    async def main(interrupts: Cancellation, watch: Timeouts) -> int:
        running_loop().call_at_ns(5 * MS, interrupts.end_run, AbortRequested())
        with pytest.raises(asyncio.CancelledError), watch.deadline(5):
            await nap(100)
        interrupts.take()
        return current()[1].cancelling()

    assert play(main) == 0


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 25)), max_size=6))
@settings(deadline=None, max_examples=60)
def test_deadlines_one_after_the_other_end_as_timeouts_of_asyncio_do(
    blocks: list[tuple[int, int]],
) -> None:
    async def ours(_: Cancellation, watch: Timeouts) -> list[tuple[bool, float]]:
        seen = []
        for timeout_ms, takes_ms in blocks:
            with watch.deadline(timeout_ms) as deadline:
                await nap(takes_ms)
            seen.append((deadline.expired, now_ms()))
        return seen

    async def asyncios() -> list[tuple[bool, float]]:
        seen = []
        for timeout_ms, takes_ms in blocks:
            expired = False
            try:
                async with asyncio.timeout(timeout_ms / 1_000):
                    await nap(takes_ms)
            except TimeoutError:
                expired = True
            seen.append((expired, now_ms()))
        return seen

    assert play(ours) == run_virtual(asyncios())

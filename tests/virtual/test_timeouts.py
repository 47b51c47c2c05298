"""Timeouts: each ends its block at its bound, and nothing else."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interrupting import cancellation, current, is_stopped, now_ms
from pacing import MS, nap

from simloop.kernel.signals import AbortRequested
from simloop.virtual.clock.timeouts import GRACE_NS, MOST_CANCELS, Timeout
from simloop.virtual.simulate import run_virtual, running_loop


def test_what_never_ends_ends_at_its_timeout_and_takes_its_cancellation_back() -> None:
    async def main() -> tuple[bool, float, int]:
        with Timeout.after(running_loop(), 10) as timeout:
            await nap(float("inf"))
        return timeout.expired, now_ms(), current()[1].cancelling()

    assert run_virtual(main()) == (True, 10, 0)


@pytest.mark.parametrize(
    ("outer_ms", "inner_ms", "takes_ms", "ends"),
    [
        (10, 3, 100, (True, False, 3)),
        (10, 50, 5, (False, True, 10)),
        (10, 50, 20, (True, True, 10)),
        (10, None, 20, (True, True, 10)),
        (None, None, 3_600_000, (False, False, 3_600_100)),
    ],
)
def test_an_inner_timeout_strikes_first_and_lasts_no_longer_than_the_outer_one(
    outer_ms: int | None, inner_ms: int | None, takes_ms: int, ends: tuple[bool, bool, float]
) -> None:
    async def main() -> tuple[bool, bool, float]:
        with Timeout.after(running_loop(), outer_ms) as outer:
            with Timeout.after(running_loop(), inner_ms) as inner:
                await nap(takes_ms)
            if ends[1] or outer_ms is None:
                await nap(100)
        return inner.expired, outer.expired, now_ms()

    assert run_virtual(main()) == ends


def test_two_blocks_with_a_timeout_at_one_instant_have_that_bound_together() -> None:
    async def main() -> tuple[bool, bool, float]:
        with Timeout(running_loop(), 10 * MS) as first:
            await nap(6)
        with Timeout(running_loop(), 10 * MS) as second:
            await nap(6)
        return first.expired, second.expired, now_ms()

    assert run_virtual(main()) == (False, True, 10)


def test_code_that_swallows_a_timeout_does_not_hide_it() -> None:
    async def main() -> bool:
        with Timeout.after(running_loop(), 5) as timeout:
            await is_stopped(nap(100))
        return timeout.expired

    assert run_virtual(main()) is True


def test_code_that_swallows_a_timeout_and_goes_on_is_stopped_again_after_the_grace() -> None:
    async def main() -> tuple[float, int]:
        with Timeout.after(running_loop(), 5):
            await is_stopped(nap(100))
            await nap(10_000)
        return now_ms() - GRACE_NS / MS, current()[1].cancelling()

    assert run_virtual(main()) == (5, 0)


def test_code_that_cleans_up_within_the_grace_is_left_to_it() -> None:
    async def main() -> float:
        with Timeout.after(running_loop(), 5):
            await is_stopped(nap(100))
            await nap(GRACE_NS / MS - 1)
        return now_ms() - GRACE_NS / MS

    assert run_virtual(main()) == 4


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
def test_an_error_of_ones_own_passes_through_a_timeout(error: type[BaseException]) -> None:
    async def main() -> None:
        with pytest.raises(error), Timeout.after(running_loop(), 5):
            raise error

    run_virtual(main())


@pytest.mark.parametrize("order", ["timeout first", "cancel first"])
def test_a_cancellation_from_outside_passes_through_a_timeout_of_the_same_instant(
    order: str,
) -> None:
    async def bounded_block() -> None:
        loop, task = current()
        if order == "cancel first":
            loop.call_at_ns(5 * MS, task.cancel)
        with Timeout.after(running_loop(), 5):
            if order == "timeout first":
                loop.call_at_ns(5 * MS, task.cancel)
            await nap(100)

    async def main() -> bool:
        return await is_stopped(bounded_block())

    assert run_virtual(main()) is True


def test_an_interrupt_passes_through_a_timeout_of_the_same_instant() -> None:
    async def main() -> int:
        cancelling = cancellation()
        running_loop().call_at_ns(5 * MS, cancelling.end_run, AbortRequested())
        with pytest.raises(asyncio.CancelledError), Timeout.after(running_loop(), 5):
            await nap(100)
        cancelling.take()
        return current()[1].cancelling()

    assert run_virtual(main()) == 0


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 25)), max_size=6))
def test_timeouts_one_after_the_other_end_as_timeouts_of_asyncio_do(
    blocks: list[tuple[int, int]],
) -> None:
    async def ours() -> list[tuple[bool, float]]:
        seen = []
        for timeout_ms, takes_ms in blocks:
            with Timeout.after(running_loop(), timeout_ms) as timeout:
                await nap(takes_ms)
            seen.append((timeout.expired, now_ms()))
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

    assert run_virtual(ours()) == run_virtual(asyncios())


# ------------------------------------------------------------------------- breaking off


def test_a_block_that_waits_is_broken_off_at_once_and_has_not_expired() -> None:
    async def main() -> tuple[bool, bool, float, int]:
        with Timeout.after(running_loop(), 100) as timeout:
            running_loop().call_later(0.005, timeout.break_off)
            await nap(50)
        return timeout.broken, timeout.expired, now_ms(), current()[1].cancelling()

    assert run_virtual(main()) == (True, False, 5, 0)


def test_a_block_that_breaks_itself_off_ends_at_its_next_wait() -> None:
    async def main() -> tuple[list[str], float]:
        seen = []
        with Timeout.after(running_loop(), 100) as timeout:
            timeout.break_off()
            seen.append("goes on")
            await nap(50)
            seen.append("waited")
        return seen, now_ms()

    assert run_virtual(main()) == (["goes on"], 0)


def test_a_block_that_breaks_itself_off_and_does_not_wait_disturbs_no_later_wait() -> None:
    async def main() -> float:
        with Timeout.after(running_loop(), 100) as timeout:
            timeout.break_off()
        await nap(50)
        return now_ms()

    assert run_virtual(main()) == 50


def test_a_block_around_another_is_broken_off_when_the_inner_one_has_ended() -> None:
    async def main() -> tuple[bool, float]:
        with Timeout.after(running_loop(), 100) as outer:
            running_loop().call_later(0.005, outer.break_off)
            with Timeout.after(running_loop(), 20):
                await nap(10)
            await nap(50)
        return outer.broken, now_ms()

    assert run_virtual(main()) == (True, 10)


def test_code_that_swallows_a_breaking_off_is_left_alone() -> None:
    async def main() -> tuple[bool, float]:
        with Timeout.after(running_loop(), None) as timeout:
            running_loop().call_later(0.005, timeout.break_off)
            swallowed = await is_stopped(nap(50))
            await nap(10_000)
        return swallowed, now_ms()

    assert run_virtual(main()) == (True, 10_005)


def test_an_expired_timeout_cannot_be_broken_off() -> None:
    async def main() -> tuple[bool, bool]:
        with Timeout.after(running_loop(), 5) as timeout:
            await is_stopped(nap(50))
            timeout.break_off()
        return timeout.expired, timeout.broken

    assert run_virtual(main()) == (True, False)


def test_code_that_never_stops_swallowing_is_cancelled_so_often_and_no_more() -> None:
    async def main() -> tuple[int, float]:
        with Timeout.after(running_loop(), 5) as timeout:
            while not await is_stopped(nap(3_600_000)) or timeout.cancels < MOST_CANCELS:
                pass
            await nap(1_000_000)
        return timeout.cancels, now_ms()

    last_ms = 5 + (MOST_CANCELS - 1) * GRACE_NS / MS
    assert run_virtual(main()) == (MOST_CANCELS, last_ms + 1_000_000)

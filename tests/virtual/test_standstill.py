"""A program without progress ends soon."""
# ruff: noqa: ASYNC110 - programs that poll are what is tested

import asyncio
import datetime as dt
import itertools
import random
import ssl
import sys
import threading
import time
import types
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import pytest

from simloop import RunawayRun, simulate
from simloop.virtual.standstill import MAX_CALLBACKS, Standstill

Main = Callable[[], Coroutine[Any, Any, None]]
STRIDE = 300


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Standstill, "stride", STRIDE)


async def spins() -> None:
    while True:
        await asyncio.sleep(0)


async def spins_in_a_list() -> None:
    for _ in [1, 2]:
        while True:
            await asyncio.sleep(0)


async def polls() -> None:
    while True:
        await asyncio.sleep(1)


async def looks_at_the_clock() -> None:
    started = time.time()
    while True:
        now, waited = time.monotonic(), time.time() - started
        await asyncio.sleep(1)
        del now, waited


async def waits_again() -> None:
    while True:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        except TimeoutError:
            continue


async def tries_again() -> None:
    async def fail() -> None:
        await asyncio.sleep(0.2)
        raise ValueError

    while True:
        try:
            await asyncio.create_task(fail())
        except ValueError:
            await asyncio.sleep(1)


async def polls_at_several_paces() -> None:
    async def poll(pause: float) -> None:
        while True:
            await asyncio.sleep(pause)

    await asyncio.gather(poll(1), poll(1.7), poll(0.3))


async def calls_itself() -> None:
    loop = asyncio.get_running_loop()

    def again() -> None:
        loop.call_soon(again)

    again()
    await asyncio.Event().wait()


async def sets_its_timer_again() -> None:
    loop = asyncio.get_running_loop()

    def again() -> None:
        loop.call_later(1, again)

    again()
    await asyncio.Event().wait()


async def wakes_each_other() -> None:
    here, there = asyncio.Event(), asyncio.Event()
    here.set()

    async def play(mine: asyncio.Event, other: asyncio.Event) -> None:
        while True:
            await mine.wait()
            mine.clear()
            other.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(play(here, there))
        group.create_task(play(there, here))


async def iterates_without_end() -> None:
    async def ticks() -> AsyncGenerator[None, None]:
        while True:
            await asyncio.sleep(0)
            yield None

    async for _ in ticks():
        pass


async def holds_objects_without_a_visible_state() -> None:
    held = threading.Lock(), ssl.create_default_context(), dt.UTC, asyncio.Lock()
    while True:
        await asyncio.sleep(0)
        assert held


async def turns_a_ring() -> None:
    ring = deque("abc")
    while True:
        ring.rotate(1)
        await asyncio.sleep(0)


WITHOUT_CHANGE = [
    spins, spins_in_a_list, polls, looks_at_the_clock, waits_again, tries_again,
    polls_at_several_paces, calls_itself, sets_its_timer_again, wakes_each_other,
    iterates_without_end, holds_objects_without_a_visible_state, turns_a_ring,
]  # fmt: skip


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("main", WITHOUT_CHANGE)
def test_a_program_in_which_nothing_but_time_changes_is_ended_soon(main: Main) -> None:
    with pytest.raises(RunawayRun) as caught:
        simulate(main())
    found = str(caught.value)
    assert found.startswith(("no progress: nothing changed in", "no progress: only time changed"))
    assert int(found.partition(" callbacks")[0].split()[-1]) < 5 * STRIDE + 1_000
    assert f"in {main.__qualname__}" in found


async def counts() -> None:
    n = 0
    while True:
        n += 1
        await asyncio.sleep(0)


async def counts_polls() -> None:
    n = 0
    while True:
        n += 1
        await asyncio.sleep(1)


async def counts_with_an_iterator() -> None:
    for n in itertools.count():
        await asyncio.sleep(0)
        del n


async def counts_and_takes_turns() -> None:
    n = turn = 0
    while True:
        n += 1
        turn = (turn + 1) % 3
        await asyncio.sleep(0)


async def counts_past_a_limit() -> None:
    n = 0
    while True:
        n += n < 2_000
        n += 1
        await asyncio.sleep(0)


async def counts_in_an_object() -> None:
    box = types.SimpleNamespace(n=0)
    while True:
        box.n += 1
        await asyncio.sleep(0)


async def counts_in_a_window() -> None:
    n = 0
    latest: deque[int] = deque(maxlen=5)
    while True:
        n += 1
        latest.append(n)
        await asyncio.sleep(0)


async def counts_its_failures() -> None:
    n = 0
    while True:
        n += 1
        try:
            raise ValueError(n)  # noqa: TRY301 - as programs do
        except ValueError as error:
            kept = error
            await asyncio.sleep(min(60, 2**n))
            del kept


async def waits_at_random() -> None:
    while True:
        d = random.uniform(1, 2)
        await asyncio.sleep(d)


async def counts_in_a_callback() -> None:
    loop = asyncio.get_running_loop()
    n = 0

    def again() -> None:
        nonlocal n
        n += 1
        loop.call_soon(again)

    again()
    await asyncio.Event().wait()


async def hands_a_ball_to_and_fro() -> None:
    here, there = asyncio.Queue[int](), asyncio.Queue[int]()
    here.put_nowait(0)

    async def play(mine: asyncio.Queue[int], other: asyncio.Queue[int]) -> None:
        while True:
            other.put_nowait(await mine.get() + 1)

    await asyncio.gather(play(here, there), play(there, here))


WITH_NUMBERS = {
    counts: "only `n` changed",
    counts_polls: "only time and `n` changed",
    counts_with_an_iterator: "only `n` changed",
    counts_and_takes_turns: "only `n` changed",
    counts_past_a_limit: "only `n` changed",
    counts_in_an_object: "only `box.n` changed",
    counts_in_a_window: "only `n` changed",
    counts_its_failures: "only time and `n` changed",
    waits_at_random: "only time and `d` changed",
    counts_in_a_callback: "only `n` changed",
    hands_a_ball_to_and_fro: "only numbers changed",
}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("main", WITH_NUMBERS)
def test_a_program_that_only_counts_is_ended_and_the_number_named(main: Main) -> None:
    with pytest.raises(RunawayRun) as caught:
        simulate(main())
    found = str(caught.value)
    assert found.startswith(f"no progress: {WITH_NUMBERS[main]} in ")
    assert int(found.partition(" callbacks")[0].split()[-1]) < 12 * STRIDE + 2_000
    assert f"in {main.__qualname__}" in found


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("main", [calls_itself, sets_its_timer_again])
def test_a_callback_that_repeats_is_named_with_its_place(main: Main) -> None:
    callback = rf"\n  callback: test_standstill.py:\d+ in {main.__qualname__}.<locals>.again\n"
    with pytest.raises(RunawayRun, match=callback):
        simulate(main())


async def counts_down() -> None:
    n = 4_000
    while n:
        n -= 1
        await asyncio.sleep(0)


@pytest.mark.usefixtures("short")
def test_a_bound_of_the_user_replaces_the_default() -> None:
    with pytest.raises(RunawayRun, match="more than max_callbacks=5000 ran"):
        simulate(spins(), max_callbacks=5_000)
    with pytest.raises(RunawayRun, match="more than max_callbacks=100 ran"):
        simulate(counts_down(), max_callbacks=100)


@pytest.mark.slow
@pytest.mark.parametrize(
    "main", [spins, polls, counts, wakes_each_other, hands_a_ball_to_and_fro, calls_itself]
)
def test_the_default_bounds_end_a_program_within_a_million_callbacks(main: Main) -> None:
    with pytest.raises(RunawayRun, match=r"^no progress") as caught:
        simulate(main())
    assert int(str(caught.value).partition(" callbacks")[0].split()[-1]) < 700_000


@pytest.mark.slow
@pytest.mark.parametrize("pause_s", [0, 1])
def test_the_default_bounds_let_a_million_rounds_of_progress_run(pause_s: int) -> None:
    async def main() -> None:
        n = 0
        while n < 1_000_000:
            n += 1
            await asyncio.sleep(pause_s)

    simulate(main())


def test_the_default_bound_on_progress_is_over_ten_million() -> None:
    assert MAX_CALLBACKS > 10_000_000
    assert sys.modules["simloop.virtual.clock"].MAX_CALLBACKS == MAX_CALLBACKS

"""A program that makes progress is not ended, however long it runs."""
# ruff: noqa: ASYNC110 - programs that poll are what is tested

import asyncio
import datetime as dt
import random
import time
from collections.abc import AsyncGenerator

import pytest
from test_standstill import STRIDE, Main, counts_down

from simloop import simulate
from simloop.virtual.standstill import Standstill

ROUNDS = 4_000
FAR_S = 3_000


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Standstill, "stride", STRIDE)


async def waits_for_an_instant() -> None:
    end = FAR_S
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(1)


async def waits_for_a_literal_instant() -> None:
    while time.monotonic() < 3000:
        await asyncio.sleep(1)


async def waits_for_a_duration() -> None:
    start = time.time()
    while time.time() - start < float(FAR_S):
        await asyncio.sleep(1)


async def waits_for_nanoseconds() -> None:
    end = time.monotonic_ns() + FAR_S * 10**9
    while time.monotonic_ns() < end:
        await asyncio.sleep(1)


async def waits_for_a_date() -> None:
    end = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=FAR_S)
    while dt.datetime.now(dt.UTC) < end:
        await asyncio.sleep(1)


async def waits_for_days() -> None:
    start = dt.datetime.now(dt.UTC)
    while dt.datetime.now(dt.UTC) - start < dt.timedelta(days=0.05):
        await asyncio.sleep(1)


async def waits_for_a_timer() -> None:
    reached = asyncio.Event()
    asyncio.get_running_loop().call_later(FAR_S, reached.set)
    while not reached.is_set():
        await asyncio.sleep(1)


async def is_ended_by_another_task() -> None:
    done = False

    async def work() -> None:
        nonlocal done
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        done = True

    task = asyncio.create_task(work())
    while not done:
        await asyncio.sleep(0)
    await task


async def starts_tasks() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    for _ in range(ROUNDS):
        await asyncio.create_task(work())


async def counts_up_to_a_limit() -> None:
    n = 0
    while n < ROUNDS:
        n += 1
        await asyncio.sleep(0)


async def adds_up_random_numbers() -> None:
    total = 0.0
    while total < ROUNDS / 2:
        total += random.random()
        await asyncio.sleep(0)


async def runs_nested_loops() -> None:
    for _ in range(17):
        for _ in range(17):
            for _ in range(17):
                await asyncio.sleep(0)


async def runs_nested_counters() -> None:
    a = b = 0
    while a < 60:
        b = 0
        while b < 60:
            b += 1
            await asyncio.sleep(0)
        a += 1


async def empties_a_queue() -> None:
    queue = asyncio.Queue[None]()
    for _ in range(ROUNDS):
        queue.put_nowait(None)
    while not queue.empty():
        await queue.get()
        await asyncio.sleep(0)


async def reads_a_generator() -> None:
    async def numbers() -> AsyncGenerator[None, None]:
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
            yield None

    async for _ in numbers():
        pass


WITH_PROGRESS = [
    waits_for_an_instant, waits_for_a_literal_instant, waits_for_a_duration, waits_for_nanoseconds,
    waits_for_a_date, waits_for_days, waits_for_a_timer, is_ended_by_another_task, starts_tasks,
    counts_up_to_a_limit, counts_down, adds_up_random_numbers, runs_nested_loops,
    runs_nested_counters, empties_a_queue, reads_a_generator,
]  # fmt: skip


@pytest.mark.parametrize("main", WITH_PROGRESS)
def test_a_long_program_that_makes_progress_is_not_ended(main: Main) -> None:
    simulate(main())

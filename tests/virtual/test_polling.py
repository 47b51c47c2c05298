"""A program that waits without an await is ended."""
# ruff: noqa: DTZ005, PLW0108 - what people write is what is tested, looked up when it is called

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import Callable

import pytest

from simloop import RunawayRun, simulate
from simloop.virtual import polling


def goes_on() -> None:
    while True:
        with contextlib.suppress(Exception):
            time.time()


def test_a_program_that_polls_with_a_blocking_sleep_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "MOST_SLEEPS", 100)

    async def polls() -> None:
        while True:
            time.sleep(1)  # noqa: ASYNC251 - what blocks is tested

    async def awaits() -> float:
        for _ in range(3):
            for _ in range(100):
                time.sleep(1)  # noqa: ASYNC251 - what blocks is tested
            await asyncio.sleep(1)
        return time.monotonic()

    assert simulate(awaits()) == 303
    with pytest.raises(RunawayRun, match=r"no progress: 100 .* the last at test_polling.py:\d+ in"):
        simulate(polls())


def test_a_program_that_waits_for_the_time_without_a_wait_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "MOST_READS", 100)

    async def spins(read: Callable[[], float]) -> None:
        start = read()
        while read() - start < 1:
            pass

    async def swallows() -> str:
        try:
            await spins(lambda: time.time())
        except RunawayRun:
            return "on"
        return "ended"

    async def swallows_all() -> None:
        goes_on()

    async def waits() -> float:
        for _ in range(3):
            for _ in range(100):
                time.perf_counter()
            await asyncio.sleep(0)
        return time.monotonic()

    assert simulate(waits()) == 0
    for read in (
        lambda: time.time(),
        lambda: time.monotonic_ns() / 1e9,
        lambda: dt.datetime.now().timestamp(),
    ):
        with pytest.raises(RunawayRun, match=r"no progress: 100 reads of the clock.* in test_"):
            simulate(spins(read))
    with pytest.raises(RunawayRun, match=r"the last at test_polling.py:\d+ in .*swallows"):
        simulate(swallows())
    with pytest.raises(RunawayRun, match=r"the last at test_polling.py:\d+ in goes_on"):
        simulate(swallows_all())


def test_a_thread_that_waits_for_the_time_without_a_wait_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polling, "MOST_READS", 100)

    def spins() -> None:
        while time.monotonic() < 1:
            pass

    for function in (spins, goes_on):
        with pytest.raises(RunawayRun, match=rf"100 reads of the clock.* in .*{function.__name__}"):
            simulate(asyncio.to_thread(function))

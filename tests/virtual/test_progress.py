"""A program that goes on without saying anything is ended, and its place is named."""
# ruff: noqa: ASYNC110, DTZ005, PLW0108 - what people write is tested, looked up when called

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from threadcases import in_thread

from simloop import RunawayRun, Scenario, ToolCall, World, run, simulate
from simloop.virtual import progress
from simloop.virtual.simulate import running_loop

Main = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MOST_CALLBACKS", 500)
    monkeypatch.setattr(progress, "MOST_WITHOUT_NEWS", 300)
    monkeypatch.setattr(progress, "MOST_READS", 100)


async def spins() -> None:
    while True:
        await asyncio.sleep(0)


async def polls() -> None:
    while True:
        await asyncio.sleep(1)


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


async def blocks() -> None:
    while True:
        time.sleep(1)  # noqa: ASYNC251 - what blocks is tested


async def blocks_and_swallows() -> None:
    while True:
        with contextlib.suppress(Exception):
            time.sleep(1)  # noqa: ASYNC251 - what blocks is tested


async def waits_for_a_thread_that_polls() -> None:
    def poll() -> None:
        while True:
            time.sleep(1)

    await asyncio.to_thread(poll)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "main",
    [
        spins, polls, calls_itself, sets_its_timer_again, wakes_each_other, blocks,
        blocks_and_swallows, waits_for_a_thread_that_polls,
    ],
)  # fmt: skip
def test_a_program_that_goes_on_for_ever_is_ended_with_its_place(main: Main) -> None:
    with pytest.raises(RunawayRun, match=r"^more than max_callbacks=500 ran, at ") as caught:
        simulate(main())
    assert f"in {main.__qualname__}" in str(caught.value)
    assert "a larger max_callbacks" in str(caught.value)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("main", [calls_itself, sets_its_timer_again])
def test_a_callback_that_repeats_is_named_with_its_place(main: Main) -> None:
    callback = rf"\n  callback: test_progress.py:\d+ in {main.__qualname__}.<locals>.again\n"
    with pytest.raises(RunawayRun, match=callback):
        simulate(main())


@pytest.mark.usefixtures("short")
def test_a_bound_of_the_user_replaces_the_default() -> None:
    async def counts(rounds: int) -> int:
        for _ in range(rounds):
            await asyncio.sleep(0)
        return rounds

    assert simulate(counts(4_000), max_callbacks=5_000) == 4_000
    with pytest.raises(RunawayRun, match="more than max_callbacks=5000 ran"):
        simulate(counts(6_000), max_callbacks=5_000)


@pytest.mark.parametrize("pause_s", [0, 1])
def test_the_default_bound_lets_a_million_rounds_run(pause_s: int) -> None:
    async def main() -> int:
        for _ in range(1_000):
            await asyncio.sleep(pause_s)
        return running_loop().progress.callbacks

    assert simulate(main()) * 1_000 < progress.MOST_CALLBACKS


async def sleeps_for_ever(_: str) -> None:
    while True:
        await asyncio.sleep(1)


def sleeps_in_a_thread(_: str) -> None:
    while True:
        time.sleep(1)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("agent", [sleeps_for_ever, sleeps_in_a_thread])
def test_an_agent_that_says_nothing_to_its_world_is_ended_with_its_place(agent: Any) -> None:
    with pytest.raises(RunawayRun, match=r"no progress: 300 callbacks ran and said no") as caught:
        run(Scenario(prompt="Go."), loop=agent)
    line = agent.__code__.co_firstlineno + 2
    assert f"test_progress.py:{line} in {agent.__name__}" in str(caught.value)


@pytest.mark.usefixtures("short")
def test_an_agent_that_says_something_new_at_times_may_sleep_for_as_long_as_it_likes() -> None:
    async def agent(_: str, world: World) -> str:
        for number in range(20):
            for _pause in range(50):
                await asyncio.sleep(1)
            await world.tools.run(ToolCall("call", "look", f'{{"at": {number}}}'))
        return "done"

    def look(at: int) -> str:
        return f"seen {at}"

    assert run(Scenario(prompt="Go."), tools=[look], loop=agent).text == "done"


def goes_on() -> None:
    while True:
        with contextlib.suppress(Exception):
            time.time()


@pytest.mark.usefixtures("short")
def test_a_program_that_waits_for_the_time_without_a_wait_is_ended() -> None:
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
    with pytest.raises(RunawayRun, match=r"the last at test_progress.py:\d+ in .*swallows"):
        simulate(swallows())
    with pytest.raises(RunawayRun, match=r"the last at test_progress.py:\d+ in goes_on"):
        simulate(swallows_all())


@pytest.mark.usefixtures("short")
def test_a_thread_that_waits_for_the_time_without_a_wait_is_ended() -> None:
    def spins() -> None:
        while time.monotonic() < 1:
            pass

    for function in (spins, goes_on):
        with pytest.raises(RunawayRun, match=rf"100 reads of the clock.* in .*{function.__name__}"):
            in_thread(function)

"""A program without progress ends soon; one that makes progress goes on, however long."""
# ruff: noqa: ASYNC110 - programs that poll are what is tested

import asyncio
import collections
import contextvars
import datetime as dt
import itertools
import sys
import time
import types
from collections.abc import AsyncGenerator, Callable, Coroutine
from io import BufferedReader
from pathlib import Path
from typing import Any

import pytest

from simloop import RunawayRun, simulate
from simloop.virtual.standstill import Standstill

this_module: Any = sys.modules[__name__]
ROUNDS = 3_000
FAR_S = 3_000


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Standstill, "stride", 300)
    monkeypatch.setattr(this_module, "rounds", 0)
    monkeypatch.setattr(Counter, "total", 0)


async def spins() -> None:
    while True:
        await asyncio.sleep(0)


async def polls() -> None:
    while True:
        await asyncio.sleep(1)


async def looks_at_the_clock() -> None:
    while True:
        now = time.monotonic()
        await asyncio.sleep(1)
        del now


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


async def hands_a_ball_to_and_fro() -> None:
    here, there = asyncio.Queue[str](), asyncio.Queue[str]()
    here.put_nowait("ball")

    async def play(mine: asyncio.Queue[str], other: asyncio.Queue[str]) -> None:
        while True:
            other.put_nowait(await mine.get())

    async with asyncio.TaskGroup() as group:
        group.create_task(play(here, there))
        group.create_task(play(there, here))


@pytest.mark.parametrize(
    "main",
    [
        spins,
        polls,
        looks_at_the_clock,
        waits_again,
        tries_again,
        polls_at_several_paces,
        calls_itself,
        hands_a_ball_to_and_fro,
    ],
)
def test_a_program_whose_state_comes_back_is_ended_soon(main: Callable[[], Any]) -> None:
    with pytest.raises(RunawayRun, match=r"^no progress: after \d{4} callbacks .*\n  main: ") as e:
        simulate(main())
    callbacks = int(str(e.value).split()[3])
    assert callbacks < 4 * 300 + 1_500
    assert f"in {main.__qualname__}, awaiting" in str(e.value)


async def counts() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


async def repeats() -> None:
    for _ in itertools.repeat(None, ROUNDS):
        await asyncio.sleep(0)


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


async def counts_in_an_attribute() -> None:
    counter = collections.Counter[str]()

    def done() -> bool:
        counter["n"] += 1
        return counter["n"] > ROUNDS

    while not done():
        await asyncio.sleep(0)


async def counts_in_a_closure() -> None:
    number = 0

    def done() -> bool:
        nonlocal number
        number += 1
        return number > ROUNDS

    while not done():
        await asyncio.sleep(0)


rounds = 0


def one_more() -> bool:
    global rounds  # noqa: PLW0603 - as programs do
    rounds += 1
    return rounds > ROUNDS


async def counts_in_a_global() -> None:
    while not one_more():
        await asyncio.sleep(0)


class Counter:
    total = 0

    def goes_on(self) -> bool:
        return not one_more()

    @classmethod
    def another(cls) -> bool:
        cls.total += 1
        return cls.total > ROUNDS


async def counts_in_a_global_behind_a_method() -> None:
    counter = Counter()
    while counter.goes_on():
        await asyncio.sleep(0)


async def counts_in_a_class() -> None:
    while not Counter.another():
        await asyncio.sleep(0)


elsewhere: Any = types.ModuleType("elsewhere")
elsewhere.__file__ = __file__


async def counts_in_another_module() -> None:
    elsewhere.number = 0
    while elsewhere.number < ROUNDS:
        elsewhere.number += 1
        await asyncio.sleep(0)


async def counts_in_a_module_that_it_imports() -> None:
    here = elsewhere
    here.number = 0
    while here.number < ROUNDS:
        here.number += 1
        await asyncio.sleep(0)


async def counts_with_an_iterator() -> None:
    numbers = itertools.count()
    while next(numbers) < ROUNDS:
        await asyncio.sleep(0)


seen = contextvars.ContextVar("seen", default=0)


async def counts_in_a_context_variable() -> None:
    while seen.get() < ROUNDS:
        seen.set(seen.get() + 1)
        await asyncio.sleep(0)


async def reads_a_file(file: BufferedReader) -> None:
    while file.tell() < ROUNDS and file.read(1):
        await asyncio.sleep(0)


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


@pytest.mark.parametrize(
    "main",
    [
        counts,
        repeats,
        waits_for_an_instant,
        waits_for_a_literal_instant,
        waits_for_a_duration,
        waits_for_a_date,
        waits_for_days,
        waits_for_a_timer,
        counts_in_an_attribute,
        counts_in_a_closure,
        counts_in_a_global,
        counts_in_a_global_behind_a_method,
        counts_in_a_class,
        counts_in_another_module,
        counts_in_a_module_that_it_imports,
        counts_with_an_iterator,
        counts_in_a_context_variable,
        empties_a_queue,
        reads_a_generator,
        is_ended_by_another_task,
    ],
)
def test_a_long_program_that_makes_progress_is_not_ended(
    main: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    simulate(main())


def test_a_program_that_reads_a_file_makes_progress() -> None:
    with Path(sys.executable).open("rb") as file:
        simulate(reads_a_file(file))


def test_a_bound_of_the_user_replaces_both_bounds() -> None:
    with pytest.raises(RunawayRun, match="more than max_callbacks=5000 ran"):
        simulate(spins(), max_callbacks=5_000)
    with pytest.raises(RunawayRun, match="more than max_callbacks=100 ran"):
        simulate(counts(), max_callbacks=100)


def test_looking_at_a_program_keeps_nothing_of_it_alive() -> None:
    gone: list[int] = []

    class Held:
        def __del__(self) -> None:
            gone.append(1)

    async def main() -> None:
        held = Held()
        for _ in range(400):
            await asyncio.sleep(0)
        del held
        assert gone == [1]

    simulate(main())


def test_a_large_program_counts_as_making_progress() -> None:
    async def main() -> None:
        many = [[number] for number in range(30_000)]
        for _ in itertools.repeat(None, 2_000):
            await asyncio.sleep(0)
        del many

    simulate(main())


def test_the_default_bound_lets_ten_million_callbacks_of_progress_run() -> None:
    from simloop.virtual.clock import MAX_CALLBACKS  # noqa: PLC0415 - the one that is tested

    assert MAX_CALLBACKS > 10_000_000
    assert Standstill.stride * 4 < 500_000

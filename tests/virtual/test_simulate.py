"""`simulate`: what it takes, and what its errors say."""

import asyncio
import contextlib
import datetime as dt
import functools
import inspect
import random
import socket
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from simloop import ScenarioError, loop_factory, simulate
from simloop.errors import Deadlock


async def answer() -> int:
    return 42


def plain() -> int:
    return 42


async def numbers() -> AsyncGenerator[int, None]:
    yield 42


@pytest.mark.parametrize(
    ("main", "message"),
    [
        (answer, r"not `answer` \(call the function: simulate\(answer\(\)\)\)"),
        (plain, r"not `plain` \(make it an `async def` and call it"),
        (lambda: answer(), r"not `<lambda>` \("),  # noqa: PLW0108 - a mistake of people
        (numbers(), r"not `numbers` \(give it a coroutine, such as main\(\)\)"),
        (None, r"not `NoneType`"),
    ],
)
def test_a_main_that_is_no_coroutine_is_refused_with_advice(main: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        simulate(main)


@pytest.mark.parametrize(
    "bounds",
    [
        {"max_virtual_s": "5"},
        {"max_virtual_s": float("nan")},
        {"max_virtual_s": float("inf")},
        {"max_virtual_s": True},
        {"max_virtual_s": 0},
        {"max_callbacks": "5"},
        {"max_callbacks": 0},
        {"max_callbacks": 2.5},
    ],
)
def test_a_bound_that_is_no_positive_number_is_refused_by_its_name(bounds: Any) -> None:
    with pytest.raises(ScenarioError, match=r" is .* .give a positive ") as caught:
        simulate(asyncio.sleep(1), **bounds)
    assert caught.value.key == next(iter(bounds))


def test_a_coroutine_that_was_started_before_is_refused() -> None:
    main = answer()
    assert simulate(main) == 42
    with pytest.raises(ScenarioError, match="started before"):
        simulate(main)


def test_a_coroutine_is_closed_if_its_simulation_cannot_begin() -> None:
    main = answer()  # pytest fails on the warning of a coroutine that was never awaited
    with pytest.raises(ScenarioError, match="the seed is -1"):
        simulate(main, seed=-1)
    assert inspect.getcoroutinestate(main) == inspect.CORO_CLOSED


async def fails(error: BaseException) -> None:
    raise error


def test_a_failed_assertion_carries_the_seed_and_the_shuffle_setting() -> None:
    error = AssertionError("two is not three")
    for _ in range(2):
        with pytest.raises(AssertionError) as caught:
            simulate(fails(error), seed=7, shuffle_ties=True)
        assert caught.value is error
        assert error.args == ("two is not three",)
        assert error.__notes__ == ["simulated with seed=7, shuffle_ties=True"]
    with pytest.raises(KeyError) as other:
        simulate(fails(KeyError("lost")))
    assert other.value.__notes__ == ["simulated with seed=0, shuffle_ties=False"]


def test_the_clean_up_of_what_main_left_behind_is_simulated_too() -> None:
    import time  # noqa: PLC0415 - read through the module, as programs do

    seen: list[float] = []

    async def lingers() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(time.monotonic())

    async def main() -> None:
        asyncio.create_task(lingers())  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(5)

    simulate(main())
    assert seen == [5.0]


async def hour() -> float:
    before = time.monotonic()
    await asyncio.sleep(3600)
    return time.monotonic() - before


def test_a_runner_has_virtual_time_that_goes_on_from_run_to_run() -> None:
    async def now() -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(hour()) == 3600
        assert runner.run(hour()) == 3600
        assert runner.run(now()) == dt.datetime(2026, 1, 1, 2, tzinfo=dt.UTC)


def test_randomness_is_that_of_the_seed_and_goes_on_from_run_to_run() -> None:
    async def draw() -> float:
        return random.random()

    def draws(seed: int) -> list[float]:
        with asyncio.Runner(loop_factory=functools.partial(loop_factory, seed=seed)) as runner:
            return [runner.run(draw()) for _ in range(3)]

    assert len(set(draws(1) + draws(2))) == 6
    assert draws(1) == draws(1)


def test_anyio_runs_on_it() -> None:
    async def main() -> bool:
        with anyio.move_on_after(10) as scope:
            await anyio.sleep(1000)
        return scope.cancelled_caught

    assert anyio.run(main, backend_options={"loop_factory": loop_factory})


def test_tasks_that_are_left_are_ended_by_the_runner() -> None:
    ended = []

    async def stays() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(True)

    async def main() -> None:
        asyncio.create_task(stays())  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
        assert ended == []
    assert ended == [True]


def test_a_deadlock_and_a_reach_for_the_real_world_are_errors() -> None:
    async def dead() -> None:
        await asyncio.Event().wait()

    async def reaches() -> None:
        with contextlib.suppress(ScenarioError):
            socket.create_connection(("localhost", 1))

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        with pytest.raises(Deadlock, match="nothing can run"):
            runner.run(dead())
        with pytest.raises(ScenarioError, match="not available in a simulation"):
            runner.run(reaches())


def test_ties_are_shuffled_by_the_seed() -> None:
    async def order() -> str:
        seen: list[str] = []

        async def tick(name: str) -> None:
            await asyncio.sleep(1)
            seen.append(name)

        async with asyncio.TaskGroup() as group:
            for name in "abcd":
                group.create_task(tick(name))
        return "".join(seen)

    def orders(*, shuffle_ties: bool) -> list[str]:
        made = [
            functools.partial(loop_factory, seed=seed, shuffle_ties=shuffle_ties)
            for seed in range(5)
        ]
        return [asyncio.Runner(loop_factory=each).run(order()) for each in made]

    assert set(orders(shuffle_ties=False)) == {"abcd"}
    assert len(set(orders(shuffle_ties=True))) > 1
    assert orders(shuffle_ties=True) == orders(shuffle_ties=True)


def test_the_threads_of_a_loop_go_on_with_its_runs_and_end_with_it() -> None:
    async def main() -> float:
        threading.Thread(target=threading.Event().wait).start()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(time.sleep, 60), 2)
        return time.monotonic()

    before = set(threading.enumerate())
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert [runner.run(main()) for _ in range(2)] == [2.0, 4.0]
    assert before >= set(threading.enumerate())

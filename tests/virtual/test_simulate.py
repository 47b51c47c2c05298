"""`simulate`: what it takes, and what its errors say."""

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from simloop import ScenarioError, simulate


async def answer() -> int:
    return 42


async def numbers() -> AsyncGenerator[int, None]:
    yield 42


@pytest.mark.parametrize(
    ("main", "name"), [(answer, "answer"), (numbers(), "numbers"), (None, "NoneType")]
)
def test_a_main_that_is_no_coroutine_is_refused_with_advice(main: Any, name: str) -> None:
    with pytest.raises(ScenarioError, match=rf"not `{name}` \(call an `async def`, as in sim"):
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

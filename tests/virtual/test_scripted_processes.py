"""Scripted processes: code that starts programs comes to what it comes to with real ones."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from incases import in_cases
from programcases import ASYNC, BLOCKING, real_programs, script_programs

from simloop import simulate

UNIT_S = 1.5
REAL_UNIT_S = 0.15


def simulated(code: Callable[[], Any]) -> Any:
    """Run code, or a coroutine function, where programs are scripted."""

    async def main() -> Any:
        script_programs()
        result = code()
        return await result if asyncio.iscoroutine(result) else result

    return simulate(main())


WAYS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "in the thread of the loop": simulated,
    "in a thread": lambda code: simulated(lambda: asyncio.to_thread(code)),
}


@pytest.mark.each_python
@in_cases((name, way) for name in BLOCKING for way in WAYS)
def test_blocking_code_gets_the_same_each_time(name: str, way: str) -> None:
    def code() -> Any:
        return BLOCKING[name](UNIT_S)

    first, second = WAYS[way](code), WAYS[way](code)
    assert first == second
    assert first is not None


@pytest.mark.each_python
@in_cases(ASYNC)
def test_a_task_and_a_loop_inside_get_the_same_each_time(name: str) -> None:
    def code() -> Any:
        return ASYNC[name](UNIT_S)

    first = simulated(code)
    assert first == simulated(code)
    assert first == simulated(lambda: asyncio.to_thread(lambda: asyncio.run(code())))


@pytest.mark.slow
@pytest.mark.each_python
@in_cases(BLOCKING)
def test_blocking_code_comes_to_what_it_comes_to_with_real_programs(name: str) -> None:
    with real_programs():
        real = BLOCKING[name](REAL_UNIT_S)
    assert simulated(lambda: BLOCKING[name](UNIT_S)) == real


@pytest.mark.slow
@pytest.mark.each_python
@in_cases(ASYNC)
def test_a_task_comes_to_what_it_comes_to_with_real_programs(name: str) -> None:
    with real_programs():
        real: Any = asyncio.run(ASYNC[name](REAL_UNIT_S))  # type: ignore[arg-type]
    assert simulated(lambda: ASYNC[name](UNIT_S)) == real

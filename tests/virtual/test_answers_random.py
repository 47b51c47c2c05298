"""Simulations in several threads: each draws the numbers of its own seed, or is an error."""
# ruff: noqa: PLW0108 - a lambda looks the name up when it is asked

import asyncio
import concurrent.futures
import random
import threading
import time
from collections.abc import Callable

import pytest

from simloop import ScenarioError, simulate


def take_real_time(sleep: Callable[[float], None] = time.sleep) -> None:
    sleep(0.0001)  # held, so it stays real


def draws_of(seed: int, draw: Callable[[], float]) -> list[float]:
    async def main() -> list[float]:
        numbers = []
        for _ in range(20):
            numbers.append(draw())
            await asyncio.sleep(1)
            take_real_time()  # another thread may go on
        return numbers

    return simulate(main(), seed=seed)


def in_threads(draw: Callable[[], float]) -> list[list[float] | ScenarioError]:
    barrier = threading.Barrier(4)

    def run(seed: int) -> list[float] | ScenarioError:
        barrier.wait()
        try:
            return draws_of(seed, draw)
        except ScenarioError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(run, range(4)))


@pytest.mark.parametrize(
    "draw", [lambda: random.random(), lambda: random.gauss(0, 1)], ids=["random", "gauss"]
)
def test_each_of_several_threads_draws_the_numbers_of_its_own_seed(
    draw: Callable[[], float],
) -> None:
    alone = [draws_of(seed, draw) for seed in range(4)]
    assert in_threads(draw) == alone


def test_a_thread_outside_neither_disturbs_the_draws_inside_nor_loses_its_own() -> None:
    random.seed(5)
    expected = [random.random() for _ in range(3)]
    random.seed(5)
    alone = draws_of(1, lambda: random.random())
    outside: list[float] = [random.random()]

    def draw() -> float:
        turn.set()
        assert thread_done.acquire(timeout=10)
        return random.random()

    turn, thread_done = threading.Event(), threading.Lock()
    thread_done.acquire()  # a lock from outside is waited for in real time

    def other() -> None:
        for _ in range(20):
            turn.wait(10)
            turn.clear()
            outside.append(random.random())
            thread_done.release()

    thread = threading.Thread(target=other)
    thread.start()
    assert draws_of(1, draw) == alone
    thread.join()
    assert outside[:3] == expected

"""Pools of threads are simulated, whoever made them; pools of processes are refused."""

import asyncio
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from simloop import ScenarioError, simulate
from simloop.virtual.clock.loop import THREADS, VirtualLoop

POOL = ThreadPoolExecutor(2, thread_name_prefix="older")


def test_a_pool_from_outside_has_simulated_workers_inside_and_real_ones_outside() -> None:
    def work() -> tuple[str, bool]:
        time.sleep(5)
        return threading.current_thread().name, threading.get_ident() in THREADS

    async def main() -> tuple[object, float]:
        futures = [POOL.submit(work) for _ in range(4)]
        return {future.result() for future in futures}, time.monotonic()

    for _ in range(2):
        assert simulate(main()) == ({("older_0", True), ("older_1", True)}, 10.0)
    assert POOL.submit(threading.get_ident).result() not in THREADS
    assert simulate(main())[1] == 10.0


def test_a_pool_from_inside_works_afterwards() -> None:
    async def main() -> ThreadPoolExecutor:
        pool = ThreadPoolExecutor()
        assert pool._max_workers == 32  # not that of the machine
        assert pool.submit(int, "5").result() == 5
        return pool

    pool = simulate(main())
    with pool:
        assert pool.submit(int, "6").result() == 6

    async def inside() -> int:
        return simulate_pool.submit(int, "7").result()

    simulate_pool = simulate(main())
    assert simulate(inside()) == 7


class Inline(Executor):
    """A pool of the program's own, which is neither of threads nor of processes."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*args, **kwargs))
        return future


async def work_in(pool: Executor) -> object:
    return await asyncio.get_running_loop().run_in_executor(pool, int, "5")


def test_a_pool_of_processes_is_refused_with_what_works_in_its_place() -> None:
    says = (
        r"^run_in_executor with a pool of processes is not available in a simulation: give it a "
        r"pool of threads, or None for the loop's own pool; called at test_pools.py:\d+ in"
    )

    async def own() -> object:
        with ProcessPoolExecutor(1) as inside:
            return await work_in(inside)

    with ProcessPoolExecutor(1) as outside:
        for main in own(), work_in(outside):
            with pytest.raises(ScenarioError, match=says):
                simulate(main)
        with pytest.raises(ScenarioError, match=says):
            VirtualLoop().run(work_in(outside))  # without a border


def test_a_pool_of_the_programs_own_kind_works() -> None:
    assert simulate(work_in(Inline())) == 5

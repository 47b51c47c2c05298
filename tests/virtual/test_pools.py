"""Pools of threads are simulated, whoever made them."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from simloop import simulate
from simloop.virtual.clock.loop import THREADS

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

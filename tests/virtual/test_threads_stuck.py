"""A thread that waits for something real is found and named, and one that computes is not."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable

import pytest
from threadcases import in_thread

from simloop import ScenarioError, simulate

pytestmark = pytest.mark.slow

OLDER_LOCK = threading.Lock()


def test_a_wait_for_something_real_is_named_after_a_second_and_hangs_nothing() -> None:
    reads, writes = os.pipe()

    async def main() -> None:
        thread = threading.Thread(target=lambda: os.read(reads, 1), name="reader")
        thread.start()
        await asyncio.sleep(5)

    began = time.monotonic()
    with pytest.raises(ScenarioError, match="the thread reader waits in real time at test_threads"):
        simulate(main())
    assert time.monotonic() - began < 5
    os.write(writes, b"x")
    for each in (reads, writes):
        os.close(each)


def test_a_lock_from_outside_that_a_parked_thread_holds_is_named_with_it() -> None:
    def hold() -> None:
        with OLDER_LOCK:
            time.sleep(60)

    def want() -> None:
        time.sleep(1)
        with OLDER_LOCK:
            pass

    async def main() -> None:
        for target in (hold, want):
            threading.Thread(target=target, name=target.__name__).start()
        await asyncio.sleep(5)

    with pytest.raises(ScenarioError, match=r"thread want waits .*(\n.*)*hold is parked") as caught:
        simulate(main())
    line = hold.__code__.co_firstlineno + 2
    assert f"hold is parked: test_threads_stuck.py:{line} in " in str(caught.value)
    assert OLDER_LOCK.acquire(timeout=1)
    OLDER_LOCK.release()


def test_a_loop_that_waits_for_a_lock_from_outside_that_a_thread_holds_is_freed() -> None:
    ended: list[str] = []

    def hold() -> None:
        try:
            with OLDER_LOCK:
                time.sleep(60)
        finally:
            ended.append("hold")

    async def main() -> None:
        threading.Thread(target=hold, name="hold").start()
        await asyncio.sleep(1)
        with OLDER_LOCK:
            pass
        await asyncio.sleep(1)

    says = r"the thread MainThread waits in real time at test_threads_stuck.*(\n.*)*hold is parked"
    with pytest.raises(ScenarioError, match=says):
        simulate(main())
    assert ended == ["hold"]
    assert not OLDER_LOCK.locked()


def test_a_thread_that_computes_for_a_second_is_not_taken_for_one_that_waits() -> None:
    clock = time.thread_time

    def compute(clock: Callable[[], float] = clock) -> float:
        end = clock() + 1.5
        while clock() < end:
            sum(range(100_000))
        return time.monotonic()

    assert in_thread(compute) == 0.0


def test_a_thread_that_was_given_up_fails_no_later_run() -> None:
    reads, writes = os.pipe()

    async def stuck() -> None:
        await asyncio.to_thread(os.read, reads, 1)

    async def later() -> None:
        before = set(sys._current_frames())
        os.write(writes, b"x")
        while not before - set(sys._current_frames()):
            pass

    with pytest.raises(ScenarioError, match="waits in real time"):
        simulate(stuck())
    simulate(later())
    for each in (reads, writes):
        os.close(each)

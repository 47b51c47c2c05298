"""A thread that waits for something real is found and named, and one that computes is not."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
from threadcases import in_thread

from simloop import Scenario, ScenarioError, run, simulate
from simloop.trace.codec import encode
from simloop.virtual.threads.scheduler import LOOK_S

OLDER_LOCK = threading.Lock()


@pytest.mark.slow
@pytest.mark.each_python
def test_a_wait_for_something_real_is_named_and_hangs_nothing() -> None:
    reads, writes = os.pipe()

    async def main() -> None:
        thread = threading.Thread(target=lambda: os.read(reads, 1), name="reader")
        thread.start()
        await asyncio.sleep(5)

    with pytest.raises(ScenarioError, match="thread reader waits in real time at test_thread"):
        simulate(main())
    os.write(writes, b"x")
    for each in (reads, writes):
        os.close(each)


@pytest.mark.slow
@pytest.mark.each_python
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
    assert f"hold is parked: test_thread_watch.py:{line} in " in str(caught.value)
    assert OLDER_LOCK.acquire(timeout=1)
    OLDER_LOCK.release()


@pytest.mark.slow
@pytest.mark.each_python
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

    says = r"the thread MainThread waits in real time at test_thread_watch.*(\n.*)*hold is parked"
    with pytest.raises(ScenarioError, match=says):
        simulate(main())
    assert ended == ["hold"]
    assert not OLDER_LOCK.locked()


@pytest.mark.slow
@pytest.mark.each_python
def test_a_thread_that_computes_for_a_second_is_not_taken_for_one_that_waits() -> None:
    clock = time.thread_time

    def compute(clock: Callable[[], float] = clock) -> float:
        end = clock() + 1.2
        while clock() < end:
            sum(range(100_000))
        return time.monotonic()

    assert in_thread(compute) == 0.0


@pytest.mark.slow
@pytest.mark.each_python
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


@pytest.mark.slow
@pytest.mark.each_python
@pytest.mark.parametrize("is_plain", [True, False])
def test_an_agent_that_computes_as_long_as_a_look_takes_has_one_result(*, is_plain: bool) -> None:
    clock = time.thread_time  # the original

    def plain(_: str) -> str:
        end = clock() + LOOK_S
        while clock() < end:
            pass
        return "computed"

    async def agent(prompt: str) -> str:
        return await asyncio.to_thread(plain, prompt)

    loop = plain if is_plain else agent
    scenario = Scenario(prompt="Go.")
    assert len({encode(run(scenario, loop=loop).trace) for _ in range(3)}) == 1


GIVES_UP = """
import contextlib, os, threading, time
from concurrent.futures import ThreadPoolExecutor
from simloop import RunawayRun, ScenarioError, simulate

def refuses():
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(1)

async def stubborn():
    threading.Thread(target=refuses).start()
    ThreadPoolExecutor(1).submit(refuses)

async def waits():
    ThreadPoolExecutor(1).submit(os.read, os.pipe()[0], 1)
    time.sleep(1)

for main, error in ((stubborn, RunawayRun), (waits, ScenarioError)):
    with contextlib.suppress(error):
        simulate(main())
print("given up")
"""


@pytest.mark.slow
@pytest.mark.each_python
def test_python_exits_and_says_nothing_after_threads_of_pools_were_given_up() -> None:
    command = [sys.executable, "-c", GIVES_UP]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("given up\n", "")

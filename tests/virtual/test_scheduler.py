"""The order of threads and their ends, pools, and threads that wait for something real."""

import _thread
import asyncio
import concurrent.futures
import contextlib
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures import as_completed as completed
from typing import Any

import pytest
from threadcases import in_thread

from simloop import Deadlock, RunawayRun, Scenario, ScenarioError, run, simulate
from simloop.trace.codec import encode
from simloop.virtual.clock.loop import THREADS
from simloop.virtual.threads.scheduler import LOOK_S

KEPT: list[ThreadPoolExecutor] = []  # a pool that is collected ends its workers itself


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def order(number: int, seed: int, *, shuffle: bool) -> list[int]:
    done: list[int] = []

    def work(n: int) -> None:
        time.sleep(1)
        done.append(n)

    async def main() -> list[int]:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(number)]
        run_all(threads)
        return done

    return simulate(main(), seed=seed, shuffle_ties=shuffle)


def test_threads_that_are_ready_at_one_instant_run_in_order_or_in_one_drawn_from_the_seed() -> None:
    assert order(5, 1, shuffle=False) == order(5, 2, shuffle=False) == [0, 1, 2, 3, 4]
    orders = [order(5, seed, shuffle=True) for seed in range(20)]
    assert orders == [order(5, seed, shuffle=True) for seed in range(20)]
    assert len({tuple(each) for each in orders}) > 10


def test_the_workers_of_a_pool_are_joined_in_the_order_of_their_start() -> None:
    def work() -> list[int]:
        done: list[int] = []

        def wait(n: int) -> None:
            time.sleep(1)
            done.append(n)

        for _ in range(20):
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(wait, range(3)))
        return done

    first = in_thread(work, seed=1, shuffle_ties=True)
    assert [in_thread(work, seed=1, shuffle_ties=True) for _ in range(8)] == [first] * 8


async def as_completed() -> list[int]:
    return [await each for each in asyncio.as_completed([asyncio.sleep(1, n) for n in range(6)])]


async def wait_for_futures() -> list[int]:
    loop = asyncio.get_running_loop()
    done, _ = await asyncio.wait([loop.run_in_executor(None, int, n) for n in range(6)])
    return [each.result() for each in done]


async def wait_for_pool() -> list[int]:
    with ThreadPoolExecutor(8) as pool:
        done, _ = wait([pool.submit(int, n) for n in range(6)])
    return [each.result() for each in done]


async def completed_before() -> list[int]:
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(int, n) for n in range(6)]
        await asyncio.sleep(1)
        return [each.result() for each in completed(futures)]


@pytest.mark.parametrize("case", [as_completed, wait_for_futures, wait_for_pool, completed_before])
def test_the_order_of_finished_work_is_not_that_of_addresses(case: Any) -> None:
    # The objects give every run other addresses.
    kept = [(simulate(case()), [object() for _ in range(7)]) for _ in range(12)]
    assert all(done == kept[0][0] for done, _ in kept)
    assert kept[0][0] in ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0])


def test_threads_that_wait_for_one_event_are_shuffled_too() -> None:
    def race() -> str:
        event, done = threading.Event(), list[str]()

        def wait(name: str) -> None:
            event.wait()
            done.append(name)

        threads = [threading.Thread(target=wait, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        time.sleep(1)
        event.set()
        for thread in threads:
            thread.join()
        return "".join(done)

    assert in_thread(race) == "abc"
    assert len({in_thread(race, seed=seed, shuffle_ties=True) for seed in range(30)}) == 6


def test_five_hundred_threads_run_side_by_side() -> None:
    assert sorted(order(500, 0, shuffle=True)) == list(range(500))


def test_a_lock_that_is_taken_again_and_again_is_handed_over() -> None:
    def compete() -> list[str]:
        lock, stop, log = threading.Lock(), threading.Event(), list[str]()

        def greedy() -> None:
            while not stop.is_set():
                with lock:
                    time.sleep(1)
                    log.append("greedy")

        def modest() -> None:
            with lock:
                log.append("modest")
            stop.set()

        threads = [threading.Thread(target=each) for each in (greedy, modest)]
        run_all(threads)
        return log

    assert in_thread(compete) == ["greedy", "greedy", "modest", "greedy"]


def test_names_count_per_run_and_the_list_of_threads_is_that_of_the_run() -> None:
    seen: list[Any] = []

    def look() -> None:
        thread = threading.current_thread()
        assert thread.ident == threading.get_ident()
        assert thread in threading.enumerate()
        seen.append((thread.name, threading.active_count(), len(threading.enumerate())))

    async def main() -> None:
        for _ in range(2):
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(look).result()
        await asyncio.to_thread(look)

    simulate(main())
    first = seen.copy()
    seen.clear()
    simulate(main())
    assert first == seen
    assert [name for name, *_ in seen] == [
        *("Thread-1 (look)", "Thread-2 (look)", "ThreadPoolExecutor-0_0", "asyncio_0"),
    ]


def test_a_deadlock_by_the_order_of_locks_names_threads_places_and_holders() -> None:
    one, other = "first", "second"

    def both() -> None:
        locks: dict[str, Any] = {one: threading.Lock(), other: threading.RLock()}

        def take(*names: str) -> None:
            for name in names:
                locks[name].acquire()
                time.sleep(1)

        threads = [
            threading.Thread(target=take, args=names, name=names[0])
            for names in ((one, other), (other, one))
        ]
        run_all(threads)

    with pytest.raises(Deadlock) as caught:
        in_thread(both)
    line = both.__code__.co_firstlineno + 5
    text = str(caught.value)
    for name, holder in (one, other), (other, one):
        place = f"test_scheduler.py:{line} in {both.__qualname__}.<locals>.take"
        assert f"thread {name}: {place}, waits for a lock that {holder} has taken" in text
    assert "thread asyncio_0: " in text
    assert "waits for the end of first" in text
    assert "at 1 s with" in text


def test_a_wait_in_the_loops_own_thread_that_nothing_can_end_is_a_deadlock() -> None:
    async def main() -> None:
        with contextlib.suppress(Exception):
            concurrent.futures.Future[None]().result()

    with pytest.raises(Deadlock, match=r"thread is blocked, .*\n  main: test_scheduler.py"):
        simulate(main())


def test_a_lock_that_its_thread_never_released_is_named() -> None:
    def leave() -> None:
        lock = threading.Lock()
        thread = threading.Thread(target=lock.acquire, name="gone")
        thread.start()
        thread.join()
        lock.acquire()

    with pytest.raises(Deadlock, match="a lock that gone has taken and never released"):
        in_thread(leave)


def test_threads_are_waited_for_as_python_does_at_exit() -> None:
    log: list[str] = []

    def note(after: float, what: str) -> None:
        time.sleep(after)
        log.append(f"{what} at {time.monotonic()}")

    def poll() -> None:
        while True:
            time.sleep(1)

    async def main() -> None:
        ThreadPoolExecutor(1).submit(note, 2, "pool")
        threading.Timer(30, note, (0, "timer")).start()
        threading.Thread(target=note, args=(3600, "daemon"), daemon=True).start()
        threading.Thread(target=poll, name="poller").start()

    simulate(main())
    assert log[:2] == ["pool at 2.0", "timer at 30.0"]


def run_a_thread_that_cannot_be_ended() -> None:
    def refuse() -> None:
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(1)

    async def main() -> None:
        threading.Thread(target=refuse, name="stubborn", daemon=True).start()
        await asyncio.sleep(2)

    simulate(main())


def test_a_thread_that_cannot_be_ended_fails_the_run() -> None:
    with pytest.raises(RunawayRun, match=r"threads did not end when .*: stubborn"):
        run_a_thread_that_cannot_be_ended()


def snapshot() -> tuple[object, ...]:
    return (
        threading.enumerate(),
        [vars(threading.Thread)[name] for name in ("start", "join", "is_alive")],
        [threading.Lock, threading.RLock, _thread.allocate_lock, queue.SimpleQueue, time.sleep],
        vars(ThreadPoolExecutor)["submit"],
        asyncio.new_event_loop,
        dict(THREADS),
        len(concurrent.futures.thread._threads_queues),
    )


def leave_all_sorts() -> None:
    lock = threading.Lock()
    lock.acquire()
    for daemon in (True, False):
        threading.Thread(target=lock.acquire, daemon=daemon).start()
    ThreadPoolExecutor(2).submit(time.sleep, 50)
    KEPT.append(ThreadPoolExecutor(2))
    KEPT[-1].submit(int)
    threading.Thread(target=asyncio.run, args=(asyncio.sleep(1000),), daemon=True).start()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_nothing_is_left_after_an_error(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        leave_all_sorts()
        await asyncio.sleep(1)
        raise error

    before = snapshot()
    with pytest.raises(error):
        simulate(main())
    assert snapshot() == before
    assert caplog.messages == []  # a pool logs the exception that ends an idle worker


def test_nothing_is_left_after_a_deadlock_or_a_run_without_end() -> None:
    async def waits(forever: bool) -> None:  # noqa: FBT001 - both are tested
        leave_all_sorts()
        if forever:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(100)

    before = snapshot()
    with pytest.raises(Deadlock):
        simulate(waits(forever=True))
    with pytest.raises(RunawayRun):
        simulate(waits(forever=False), max_virtual_s=60)
    assert snapshot() == before


@pytest.mark.slow
@pytest.mark.each_python
def test_a_ctrl_c_ends_the_run_without_a_thread_that_computes() -> None:
    is_over = False

    def compute() -> None:
        while not is_over:
            pass

    async def main() -> None:
        for target in (threading.Event().wait, compute):
            threading.Thread(target=target, daemon=True).start()
        await asyncio.sleep(5)

    before = dict(THREADS)
    pressed = threading.Timer(0.3, _thread.interrupt_main)  # outside, in real time
    pressed.start()
    with pytest.raises(KeyboardInterrupt):
        simulate(main())
    is_over = True
    pressed.join()
    assert before == THREADS


def test_an_exception_in_a_thread_is_printed_and_changes_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)

    def fail() -> None:
        raise KeyError("lost")

    async def main() -> bool:
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        return thread.is_alive()

    assert simulate(main()) is False
    printed = capsys.readouterr().err
    assert printed.startswith("Exception in thread Thread-1 (fail):")
    assert printed.endswith("KeyError: 'lost'\n")


def test_threads_log_and_their_records_have_their_names(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("test_scheduler")

    def log() -> None:
        handler = logging.StreamHandler()  # with a lock that outlives the simulation
        logger.addHandler(handler)
        logger.warning("from %s", threading.current_thread().name)

    for _ in range(2):
        in_thread(log)
    assert [record.threadName for record in caplog.records] == ["asyncio_0"] * 2
    assert [record.created for record in caplog.records] == [1767225600.0] * 2
    for handler in logger.handlers[:]:
        handler.acquire()
        waits = threading.Thread(target=handler.acquire)
        waits.start()
        waits.join(0.05)
        assert waits.is_alive()
        handler.release()
        waits.join()
        logger.removeHandler(handler)


def test_a_simulation_in_a_thread_of_another_has_a_time_of_its_own() -> None:
    async def inner() -> float:
        await asyncio.to_thread(time.sleep, 5)
        return time.monotonic()

    def outer() -> tuple[float, float]:
        time.sleep(1)
        return simulate(inner()), time.monotonic()

    assert in_thread(outer) == (5.0, 1.0)


def test_a_lock_from_inside_that_is_taken_is_taken_outside_too() -> None:
    async def main() -> Any:
        lock = threading.Lock()
        lock.acquire()
        return lock

    lock = simulate(main())
    assert not lock.acquire(timeout=0.01)
    lock.release()
    with lock:
        assert lock.locked()


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


OLDER_LOCK = threading.Lock()


@pytest.mark.slow
@pytest.mark.each_python
def test_a_wait_for_something_real_is_named_and_hangs_nothing() -> None:
    reads, writes = os.pipe()

    async def main() -> None:
        thread = threading.Thread(target=lambda: os.read(reads, 1), name="reader")
        thread.start()
        await asyncio.sleep(5)

    with pytest.raises(ScenarioError, match="thread reader waits in real time at test_sched"):
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
    assert f"hold is parked: test_scheduler.py:{line} in " in str(caught.value)
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

    says = r"the thread MainThread waits in real time at test_scheduler.*(\n.*)*hold is parked"
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
def test_an_agent_that_computes_as_long_as_a_look_takes_has_one_result() -> None:
    clock = time.thread_time  # the original

    def computes(_: str) -> str:
        end = clock() + LOOK_S
        while clock() < end:
            pass
        return "computed"

    scenario = Scenario(prompt="Go.")
    assert len({encode(run(scenario, loop=computes).trace) for _ in range(3)}) == 1


GIVES_UP = """
import contextlib, os, threading, time
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures import as_completed as completed
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

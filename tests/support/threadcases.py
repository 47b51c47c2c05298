"""Programs with threads, what they come to in Python, and agents that run them."""

import asyncio
import contextvars
import functools
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from simloop import Scenario, note, run, simulate
from simloop.trace.codec import digest, encode

Case = Callable[[float], Awaitable[object]]


def in_thread(function: Callable[[], Any], **given: Any) -> Any:
    """Run a function in a simulated thread, and return what it returns."""

    async def main() -> Any:
        return await asyncio.to_thread(function)

    return simulate(main(), **given)


def started(*targets: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    return threads


def joined(*targets: Callable[[], object]) -> None:
    for thread in started(*targets):
        thread.join()


async def timeout_of_a_thread(unit: float) -> object:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(time.sleep, 6 * unit), 2 * unit)
    return "timeout"


async def two_threads_side_by_side(unit: float) -> object:
    return await asyncio.gather(*(asyncio.to_thread(time.sleep, 5 * unit) for _ in range(2)))


async def coroutine_from_a_thread(unit: float) -> object:
    loop = asyncio.get_running_loop()

    def call() -> str:
        future = asyncio.run_coroutine_threadsafe(asyncio.sleep(3 * unit, "slept"), loop)
        return future.result()

    return await asyncio.to_thread(call)


async def producer_and_consumer(unit: float) -> object:
    items: queue.Queue[int] = queue.Queue()

    def produce() -> None:
        for number in range(3):
            time.sleep(unit)
            items.put(number)

    consumed = asyncio.to_thread(lambda: [items.get() for _ in range(3)])
    return (await asyncio.gather(asyncio.to_thread(produce), consumed))[1]


async def map_of_a_pool(unit: float) -> object:
    def work() -> list[int]:
        def one(units: int) -> int:
            time.sleep(units * unit)
            return units

        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(one, [3, 1, 2]))

    return await asyncio.to_thread(work)


async def small_pool_without_shutdown(unit: float) -> object:
    pool = ThreadPoolExecutor(2)
    futures = [pool.submit(time.sleep, 2 * unit) for _ in range(3)]
    done, _ = wait(futures)
    return len(done)


async def cancelled_future(unit: float) -> object:
    with ThreadPoolExecutor(1) as pool:
        running, waiting = (pool.submit(time.sleep, unit) for _ in range(2))
        time.sleep(unit / 2)  # noqa: ASYNC251 - what blocks is tested
        return running.cancel(), waiting.cancel()


async def exception_of_a_pool(_: float) -> object:
    with ThreadPoolExecutor(1) as pool:
        error = pool.submit(int, "x").exception()
    return repr(error)


async def timer(unit: float) -> object:
    fired: list[str] = []
    kept = threading.Timer(2 * unit, fired.append, ["kept"])
    cancelled = threading.Timer(unit, fired.append, ["cancelled"])
    for each in (kept, cancelled):
        each.start()
    cancelled.cancel()
    kept.join()
    return fired


async def barrier(unit: float) -> object:
    gate, through = threading.Barrier(3), list[int]()

    def pass_gate(units: int) -> None:
        time.sleep(units * unit)
        gate.wait()
        through.append(units)

    joined(*(functools.partial(pass_gate, units) for units in range(3)))
    return sorted(through)


async def condition_with_timeout(unit: float) -> object:
    condition, values = threading.Condition(), list[int]()

    def fill() -> None:
        time.sleep(2 * unit)
        with condition:
            values.append(1)
            condition.notify()

    threads = started(fill)
    with condition:
        early = list(condition.wait_for(lambda: values, timeout=unit))
        late = list(condition.wait_for(lambda: values, timeout=10 * unit))
        found = early == [], late == [1]
    threads[0].join()
    return found


async def joined_queue(unit: float) -> object:
    work: queue.Queue[int] = queue.Queue(maxsize=1)

    def consume() -> None:
        for _ in range(3):
            work.get()
            time.sleep(unit)
            work.task_done()

    threads = started(consume)
    for number in range(3):
        work.put(number)
    work.join()
    threads[0].join()
    return work.unfinished_tasks


async def empty_and_full_queues(unit: float) -> object:
    full: queue.Queue[int] = queue.Queue(maxsize=1)
    full.put(1)
    with pytest.raises(queue.Full):
        full.put(2, timeout=unit)
    with pytest.raises(queue.Empty):
        queue.SimpleQueue[int]().get(timeout=2 * unit)
    return "both"


async def locks_with_timeouts(unit: float) -> object:
    lock, reentrant = threading.Lock(), threading.RLock()
    found: list[bool] = []

    def take() -> None:
        found.extend((lock.acquire(timeout=unit), reentrant.acquire(blocking=False)))

    with lock, reentrant, reentrant:
        joined(take)
    joined(lambda: found.append(lock.acquire(timeout=unit)))
    with pytest.raises(RuntimeError):
        reentrant.release()
    return found, lock.locked()


async def nested_threads(unit: float) -> object:
    def inner() -> float:
        time.sleep(unit)
        return 1.5

    def outer() -> float:
        threads = started(lambda: time.sleep(2 * unit))
        result = asyncio.run(asyncio.wait_for(asyncio.to_thread(inner), 5))
        threads[0].join()
        return result

    return await asyncio.to_thread(outer)


async def thread_of_a_failing_group(unit: float) -> object:
    async def fail() -> None:
        await asyncio.sleep(unit)
        raise KeyError("lost")

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(time.sleep, 3 * unit))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    return repr(caught.value.exceptions[0])


async def event_loop_in_a_thread(unit: float) -> object:
    async def main() -> object:
        async with asyncio.timeout(2 * unit):
            results = await asyncio.gather(*(asyncio.sleep(unit, n) for n in range(3)))
            try:
                await asyncio.sleep(10 * unit)
            except asyncio.CancelledError:
                return results
        return None

    with ThreadPoolExecutor(1) as pool:
        return await asyncio.wrap_future(pool.submit(asyncio.run, main()))


async def loop_that_another_thread_wakes(unit: float) -> object:
    ready: Future[asyncio.AbstractEventLoop] = Future()

    def serve() -> None:
        loop = asyncio.new_event_loop()
        loop.call_soon(ready.set_result, loop)
        loop.run_forever()
        loop.close()

    threads = started(serve)
    loop = ready.result()
    answer = asyncio.run_coroutine_threadsafe(asyncio.sleep(unit, "served"), loop)
    found = await asyncio.wrap_future(answer)
    loop.call_soon_threadsafe(loop.stop)
    await asyncio.to_thread(threads[0].join)
    return found, loop.is_closed()


async def anyio_in_threads(unit: float) -> object:
    def call() -> tuple[int, int]:
        anyio.from_thread.run(anyio.sleep, unit)
        with anyio.from_thread.start_blocking_portal() as portal:
            portal.call(anyio.sleep, unit)
            return 1, portal.start_task_soon(max, 1, 2).result()

    return await anyio.to_thread.run_sync(call)


async def local_data_and_context(_: float) -> object:
    local, variable = threading.local(), contextvars.ContextVar("variable", default="unset")
    local.value = "of the loop"
    variable.set("set")
    plain: list[str] = []

    def look() -> tuple[bool, str]:
        return hasattr(local, "value"), variable.get()

    copied = await asyncio.to_thread(look)
    joined(lambda: plain.append(str(look())))
    return copied, plain


async def thread_that_is_not_started(_: float) -> object:
    thread = threading.Thread(target=print)
    found = [thread.is_alive(), thread.ident]
    with pytest.raises(RuntimeError, match="before it is started"):
        thread.join()
    joined(lambda: None)
    done = started(lambda: None)[0]
    done.join()
    with pytest.raises(RuntimeError, match="only be started once"):
        done.start()
    with pytest.raises(RuntimeError, match="cannot join current"):
        threading.current_thread().join()
    return found, done.is_alive()


async def event(unit: float) -> object:
    gate = threading.Event()

    def set_later() -> None:
        time.sleep(2 * unit)
        gate.set()

    threads = started(set_later)
    found = gate.wait(unit), gate.wait(5 * unit)
    threads[0].join(unit)
    return found, threads[0].is_alive()


CASES: dict[str, tuple[Case, object, float]] = {
    case.__name__: (case, outcome, units)
    for case, outcome, units in (
        (timeout_of_a_thread, "timeout", 2),
        (two_threads_side_by_side, [None, None], 5),
        (coroutine_from_a_thread, "slept", 3),
        (producer_and_consumer, [0, 1, 2], 3),
        (map_of_a_pool, [3, 1, 2], 3),
        (small_pool_without_shutdown, 3, 4),
        (cancelled_future, (False, True), 1),
        (exception_of_a_pool, "ValueError(\"invalid literal for int() with base 10: 'x'\")", 0),
        (timer, ["kept"], 2),
        (barrier, [0, 1, 2], 2),
        (condition_with_timeout, (True, True), 2),
        (joined_queue, 0, 3),
        (empty_and_full_queues, "both", 3),
        (locks_with_timeouts, ([False, False, True], True), 1),
        (nested_threads, 1.5, 2),
        (thread_of_a_failing_group, "KeyError('lost')", 1),
        (event_loop_in_a_thread, [0, 1, 2], 2),
        (loop_that_another_thread_wakes, ("served", True), 1),
        (anyio_in_threads, (1, 2), 2),
        (local_data_and_context, ((False, "set"), ["(False, 'unset')"]), 0),
        (thread_that_is_not_started, ([False, None], False), 0),
        (event, ((False, True), False), 2),
    )
}


async def measured(case: Case, unit: float) -> tuple[object, int]:
    """The outcome of a case, and the tenths of a unit that it took."""
    began = time.monotonic()
    outcome = await case(unit)
    return outcome, round((time.monotonic() - began) / unit * 10)


def recorded(name: str, *, shuffle_ties: bool) -> bytes:
    """The trace of an agent that does a case, notes it in threads, and leaves one and a task."""

    async def forgotten() -> None:
        await asyncio.sleep(3600)

    async def agent(_: str) -> str:
        outcome = repr(await measured(CASES[name][0], 1.0))
        notes = (asyncio.to_thread(note, f"{number}: {outcome}") for number in range(3))
        await asyncio.gather(*notes)
        left.append(asyncio.create_task(forgotten(), name="forgotten"))
        lock = threading.Lock()
        lock.acquire()
        started(lock.acquire)
        await asyncio.sleep(1)
        return outcome

    left: list[asyncio.Task[None]] = []
    return encode(run(Scenario(prompt=name, shuffle_ties=shuffle_ties), loop=agent).trace)


def digests_of_cases() -> list[str]:
    """The name and digest of the trace of every case."""
    return [f"{name} {digest(recorded(name, shuffle_ties=True))}" for name in CASES]

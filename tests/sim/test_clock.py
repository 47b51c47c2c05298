"""The virtual loop: asyncio as documented, on a clock that costs nothing and never lies."""

import asyncio
import gc
import math
import signal
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, cast

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop.errors import Deadlock, RunawayRun, ScenarioError
from simloop.sim.clock import NEVER_NS, VirtualLoop, run_virtual

SECOND = 1_000_000_000
YEAR = 365 * 86_400 * SECOND


def running() -> VirtualLoop:
    return cast("VirtualLoop", asyncio.get_running_loop())


async def order_of_timers(delays: list[float]) -> list[int]:
    fired: list[int] = []
    for index, delay in enumerate(delays):
        running().call_later(delay, fired.append, index)
    await asyncio.sleep(max(delays, default=0) + 1)
    return fired


def shuffled(seed: int) -> list[int]:
    return run_virtual(order_of_timers([1.0] * 12), shuffle_seed=seed)


# What asyncio promises


async def sleeps() -> float:
    await asyncio.sleep(3)
    return running().time()


async def times_out() -> str:
    try:
        async with asyncio.timeout(1):
            await asyncio.sleep(1)
    except TimeoutError:
        return "timeout"
    return "sleep"


async def waits_for() -> float:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 2)
    return running().time()


async def groups() -> list[str]:
    async def work(delay: int) -> str:
        await asyncio.sleep(delay)
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(delay)) for delay in (3, 1)]
        named = group.create_task(work(2), name="bob")
    return [task.result() for task in (*tasks, named)]


async def queues() -> list[int]:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)

    async def produce() -> None:
        for number in range(3):
            await queue.put(number)

    producer = asyncio.create_task(produce())
    got = [await queue.get() for _ in range(3)]
    await producer
    return got


async def gathers() -> tuple[list[int], int]:
    values = await asyncio.gather(*(asyncio.sleep(number, number) for number in (3, 1, 2)))
    return values, running().now_ns


async def threads() -> tuple[bool, float]:
    there = await asyncio.to_thread(threading.get_ident)
    return there == threading.get_ident(), running().time()


@pytest.mark.parametrize(
    ("main", "result"),
    [
        (sleeps, 3.0),
        (times_out, "timeout"),
        (waits_for, 2.0),
        (groups, ["task-1", "task-2", "bob"]),
        (queues, [0, 1, 2]),
        (gathers, ([3, 1, 2], 3 * SECOND)),
        (threads, (True, 0.0)),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_asyncio_works_as_documented(
    main: Callable[[], Coroutine[Any, Any, object]], result: object, debug: bool
) -> None:
    loop = VirtualLoop()
    loop.set_debug(debug)
    assert loop.run(main()) == result


def test_anyio_sleeps_in_virtual_time_and_its_worker_threads_run_inline() -> None:
    async def main() -> tuple[float, bool]:
        await anyio.sleep(60)
        with anyio.move_on_after(30):
            await anyio.sleep(3600)
        there = await anyio.to_thread.run_sync(threading.get_ident)
        return running().time(), there == threading.get_ident()

    assert run_virtual(main()) == (90.0, True)


def test_anyio_worker_threads_stay_real_on_other_loops() -> None:
    run_virtual(asyncio.sleep(0))

    async def main() -> bool:
        return await anyio.to_thread.run_sync(threading.get_ident) != threading.get_ident()

    assert anyio.run(main)


def test_what_a_function_in_a_thread_raises_arrives_at_the_await() -> None:
    async def main(error: BaseException) -> None:
        def fail() -> None:
            raise error

        await asyncio.to_thread(fail)

    with pytest.raises(KeyError, match="lost"):
        run_virtual(main(KeyError("lost")))
    with pytest.raises(RuntimeError, match=r"raised StopIteration\(\)"):
        run_virtual(main(StopIteration()))
    with pytest.raises(KeyboardInterrupt):
        run_virtual(main(KeyboardInterrupt()))


# Order and exactness


def test_twelve_timers_at_the_same_instant_fire_in_the_order_they_were_set() -> None:
    assert run_virtual(order_of_timers([1.0] * 12)) == list(range(12))


def test_a_seed_shuffles_timers_of_one_instant_and_the_same_seed_shuffles_them_the_same() -> None:
    orders = [shuffled(seed) for seed in range(5)]
    assert orders == [shuffled(seed) for seed in range(5)]
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert len({tuple(order) for order in orders}) == 5
    assert list(range(12)) not in orders


def test_a_seed_does_not_shuffle_what_is_called_soon() -> None:
    async def main() -> list[int]:
        called: list[int] = []
        for number in range(12):
            running().call_soon(called.append, number)
        await asyncio.sleep(0)
        return called

    assert run_virtual(main(), shuffle_seed=3) == list(range(12))


@given(st.lists(st.floats(-1, 100) | st.sampled_from([0.0, 0.1, 1.0]), max_size=200))
def test_timers_fire_sorted_by_time_and_then_by_insertion(delays: list[float]) -> None:
    due = [max(0, round(delay * 1e9)) for delay in delays]
    assert run_virtual(order_of_timers(delays)) == sorted(range(len(due)), key=due.__getitem__)


@given(st.lists(st.tuples(st.floats(0, 9), st.booleans()), min_size=150, max_size=400))
def test_cancelled_timers_never_fire_and_do_not_pile_up(timers: list[tuple[float, bool]]) -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        handles = [running().call_later(at, fired.append, i) for i, (at, _) in enumerate(timers)]
        for handle, (_, wanted) in zip(handles, timers, strict=True):
            if not wanted:
                handle.cancel()
        live = sum(wanted for _, wanted in timers)
        assert len(running()._timers) <= max(2 * live, live + 100)
        await asyncio.sleep(10)
        return sorted(fired)

    assert run_virtual(main()) == [i for i, (_, wanted) in enumerate(timers) if wanted]


def test_a_thousand_sleeps_of_a_tenth_take_exactly_a_hundred_seconds() -> None:
    async def main() -> float:
        for _ in range(1000):
            await asyncio.sleep(0.1)
        return running().time()

    assert run_virtual(main()) == 100.0


@pytest.mark.parametrize("start", [0, 20_000_000 * SECOND, 10 * YEAR - 2 * SECOND])
def test_time_stays_exact_and_never_hangs_after_days_and_years(start: int) -> None:
    async def main() -> tuple[int, str]:
        running().advance_ns(start)
        await asyncio.sleep(1e-8)
        await asyncio.sleep(0.1)
        passed = running().now_ns - start
        return passed, await times_out()

    assert run_virtual(main()) == (100_000_010, "timeout")


def test_a_timer_can_be_set_for_an_exact_nanosecond() -> None:
    async def main() -> int:
        reached: asyncio.Future[int] = running().create_future()
        running().call_at_ns(9_007_199_254_740_993, lambda: reached.set_result(running().now_ns))
        return await reached

    assert run_virtual(main()) == 2**53 + 1


@pytest.mark.parametrize("setting", ["call_later", "call_at"])
def test_a_timer_for_nan_is_refused(setting: str) -> None:
    async def main() -> None:
        getattr(running(), setting)(math.nan, print)

    with pytest.raises(ValueError, match="NaN"):
        run_virtual(main())


# Deadlocks and bounds


async def waits_on_queues() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue()

    async def consume() -> int:
        return await queue.get()

    await asyncio.sleep(1.5)
    worker = asyncio.create_task(consume())
    future = asyncio.create_task(never_answered(), name="asker")
    await asyncio.sleep(0)
    await asyncio.wait_for(worker, None)
    await future


async def never_answered() -> None:
    await running().create_future()


def line_of(function: Callable[..., object], offset: int) -> str:
    code = function.__code__  # type: ignore[attr-defined]
    return f"test_clock.py:{code.co_firstlineno + offset} in {code.co_qualname}"


def test_a_deadlock_names_every_task_in_order_and_where_it_waits() -> None:
    with pytest.raises(Deadlock) as caught:
        run_virtual(waits_on_queues())
    assert str(caught.value) == (
        "nothing can run and no timer is set, at 1.5 s with 3 unfinished tasks:\n"
        f"  main: {line_of(waits_on_queues, 10)}, awaiting wait_for\n"
        f"  task-1: {line_of(waits_on_queues, 4)}.<locals>.consume, awaiting Queue.get\n"
        f"  asker: {line_of(never_answered, 1)}, awaiting Future"
    )


@pytest.mark.parametrize("seconds", [math.inf, 1e10, NEVER_NS / SECOND])
def test_waiting_for_ever_is_a_deadlock(seconds: float) -> None:
    with pytest.raises(Deadlock, match="awaiting sleep"):
        run_virtual(wait(seconds))


async def wait(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def spin(pause: float) -> None:
    while True:
        await asyncio.sleep(pause)


def test_too_many_callbacks_are_a_runaway_run() -> None:
    with pytest.raises(RunawayRun, match=r"max_callbacks=1000 ran, at 0 s with 1 .*\n  main: test"):
        run_virtual(spin(0), max_callbacks=1000)


def test_too_much_virtual_time_is_a_runaway_run() -> None:
    with pytest.raises(RunawayRun) as caught:
        run_virtual(spin(0.4), max_virtual_ns=SECOND)
    first, second = str(caught.value).split("\n")
    assert first == (
        "max_virtual_ns=1000000000 reached by a wait until 1.2 s, at 0.8 s with 1 unfinished task:"
    )
    assert second == f"  main: {line_of(spin, 2)}, awaiting sleep"


# The real world is refused


REACHES: dict[str, Callable[[], Awaitable[object]]] = {
    "loop.create_connection": lambda: asyncio.open_connection("localhost", 80),
    "loop.create_server": lambda: asyncio.start_server(print, "localhost", 80),
    "loop.subprocess_exec": lambda: asyncio.create_subprocess_exec("true"),
    "loop.subprocess_shell": lambda: asyncio.create_subprocess_shell("true"),
    "loop.getaddrinfo": lambda: running().getaddrinfo("localhost", 80),
    "loop.sock_recv": lambda: running().sock_recv(socket.socket(), 1),
    "loop.add_signal_handler": lambda: soon(running().add_signal_handler, signal.SIGINT, print),
    "loop.add_reader": lambda: soon(running().add_reader, 0, print),
    "loop.stop": lambda: soon(running().stop),
}


async def soon(function: Callable[..., object], *args: object) -> None:
    function(*args)


@pytest.mark.parametrize("what", REACHES)
def test_reaching_for_the_real_world_is_an_error_with_advice_even_if_swallowed(what: str) -> None:
    async def main() -> None:
        try:
            await REACHES[what]()
        except ScenarioError as error:
            assert running().escapes == [error]
        await asyncio.sleep(1)

    with pytest.raises(ScenarioError, match=rf"^{what} is not available in a simulation: \w+"):
        run_virtual(main())


def test_an_escape_is_the_cause_of_what_failed_after_it() -> None:
    async def main() -> None:
        try:
            await asyncio.open_connection("localhost", 80)
        except ScenarioError:
            raise ConnectionError from None

    with pytest.raises(ScenarioError) as caught:
        run_virtual(main())
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_a_call_from_another_thread_is_refused() -> None:
    def call(loop: VirtualLoop) -> None:
        with pytest.raises(ScenarioError, match="another thread"):
            loop.call_soon_threadsafe(print)

    async def main() -> None:
        running().call_soon_threadsafe(int)
        thread = threading.Thread(target=call, args=(running(),))
        thread.start()
        thread.join()

    with pytest.raises(ScenarioError, match="another thread .* use asyncio.to_thread"):
        run_virtual(main())


def test_a_simulation_inside_a_running_loop_is_refused() -> None:
    async def main() -> None:
        run_virtual(asyncio.sleep(0))

    with pytest.raises(ScenarioError, match="already running .*await the coroutine instead"):
        run_virtual(main())
    with pytest.raises(ScenarioError, match="already running"):
        asyncio.run(main())

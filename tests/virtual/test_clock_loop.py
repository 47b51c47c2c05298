"""The virtual loop: asyncio as documented, on a clock that costs nothing and never lies."""

import asyncio
import contextlib
import gc
import math
import random
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pacing import MS

from simloop import Deadlock, Reply, Scenario, ScriptedTool, run, simulate
from simloop.errors import RunawayRun, ScenarioError
from simloop.virtual.clock.instants import NEVER_NS
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.simulate import run_virtual, running_loop

SECOND = 1_000_000_000


async def order_of_timers(delays: list[float]) -> list[int]:
    fired: list[int] = []
    for index, delay in enumerate(delays):
        running_loop().call_later(delay, fired.append, index)
    await asyncio.sleep(max(delays, default=0) + 1)
    return fired


async def sleeps() -> int:
    await asyncio.sleep(1.001)  # times 1e9 it is a little less than a whole number
    return running_loop().now_ns


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
    return running_loop().time()


async def groups() -> list[str]:
    ended: list[str] = []
    async with asyncio.TaskGroup() as group:
        for delay, name in ((3, None), (1, None), (2, "bob")):
            task = group.create_task(asyncio.sleep(delay), name=name)
            task.add_done_callback(lambda task: ended.append(task.get_name()))
    return ended


async def queues() -> list[int]:
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(queue.put(number))
        return [await queue.get() for _ in range(3)]


async def gathers() -> tuple[list[int], int]:
    values = await asyncio.gather(*(asyncio.sleep(number, number) for number in (3, 1, 2)))
    return values, running_loop().now_ns


@pytest.mark.parametrize(
    ("main", "result"),
    [
        (sleeps, 1_001_000_000),
        (times_out, "timeout"),
        (waits_for, 2.0),
        (groups, ["task-2", "bob", "task-1"]),
        (queues, [0, 1, 2]),
        (gathers, ([3, 1, 2], 3 * SECOND)),
    ],
)
@pytest.mark.parametrize("debug", [False, True])
def test_asyncio_works_as_documented(
    main: Callable[[], Coroutine[Any, Any, object]], result: object, debug: object
) -> None:
    loop = VirtualLoop()
    loop.set_debug(bool(debug))
    assert loop.run(main()) == result


@given(st.lists(st.floats(-1, 100) | st.sampled_from([0.0, 0.1, 1.0]), max_size=200))
def test_timers_fire_sorted_by_time_and_then_by_insertion(delays: list[float]) -> None:
    due = [max(1, round(delay * 1e9)) if delay > 0 else 0 for delay in delays]
    assert run_virtual(order_of_timers(delays)) == sorted(range(len(due)), key=due.__getitem__)


@pytest.mark.parametrize("seed", range(5))
def test_cancelled_timers_never_fire_and_do_not_pile_up(seed: int) -> None:
    draw = random.Random(seed)
    timers = [(draw.uniform(0, 9), draw.random() < seed / 4) for _ in range(400)]

    async def main() -> list[int]:
        fired: list[int] = []
        handles = [
            running_loop().call_later(at, fired.append, i) for i, (at, _) in enumerate(timers)
        ]
        for handle, (_, wanted) in zip(handles, timers, strict=True):
            if not wanted:
                handle.cancel()
        live = sum(wanted for _, wanted in timers)
        assert len(running_loop()._timers) <= max(2 * live, live + 100)
        await asyncio.sleep(10)
        assert running_loop()._timer_cancelled_count == 0
        return sorted(fired)

    assert run_virtual(main()) == [i for i, (_, wanted) in enumerate(timers) if wanted]


@pytest.mark.parametrize("start", [0, 20_000_000_037_000_001, 315_359_997_851_000_023])
def test_time_stays_exact_and_never_hangs_after_days_and_years(start: int) -> None:
    async def main() -> tuple[int, str]:
        running_loop().advance_ns(start)
        await asyncio.sleep(1e-8)
        await asyncio.sleep(0.1)
        passed = running_loop().now_ns - start
        return passed, await times_out()

    assert run_virtual(main()) == (100_000_010, "timeout")


@pytest.mark.parametrize("start", [0, 3 * 10**8, 10**15 + 1])
def test_a_program_that_waits_until_an_instant_reaches_it(start: int) -> None:
    async def main() -> int:
        running_loop().advance_ns(start)
        end = math.nextafter(running_loop().time(), math.inf)
        await asyncio.sleep(end - running_loop().time())
        running_loop().call_at(math.nextafter(running_loop().time(), math.inf), int)
        return running_loop().now_ns - start

    assert run_virtual(main(), max_callbacks=10) >= 1


def test_a_wait_that_rounds_to_nothing_takes_a_nanosecond() -> None:
    async def main() -> int:
        end = 0.1 + 0.2  # 0.30000000000000004
        while running_loop().time() < end:  # noqa: ASYNC110 - a program that polls
            await asyncio.sleep(end - running_loop().time())
        return running_loop().now_ns

    assert run_virtual(main(), max_callbacks=20) == 300_000_001


def test_a_timer_can_be_set_for_an_exact_nanosecond() -> None:
    async def main() -> int:
        reached: asyncio.Future[int] = running_loop().create_future()
        running_loop().call_at_ns(2**53 + 1, lambda: reached.set_result(running_loop().now_ns))
        return await reached

    assert run_virtual(main()) == 2**53 + 1


@pytest.mark.parametrize("setting", ["call_later", "call_at"])
def test_a_timer_for_nan_is_refused(setting: str) -> None:
    async def main() -> None:
        getattr(running_loop(), setting)(math.nan, print)

    with pytest.raises(ValueError, match="NaN"):
        run_virtual(main())


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
    await running_loop().create_future()


def line_of(function: Callable[..., object], offset: int) -> str:
    code = function.__code__
    return f"test_clock_loop.py:{code.co_firstlineno + offset} in {code.co_qualname}"


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
    with pytest.raises(Deadlock, match=r"  main: awaiting sleep$"):
        run_virtual(asyncio.sleep(seconds))


async def spin(pause: float) -> None:
    while True:  # noqa: ASYNC110 - it waits for nothing on purpose
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


def test_a_loop_is_as_good_as_new_after_a_run_that_failed() -> None:
    loop = VirtualLoop()
    loop.max_callbacks = 1000

    async def break_everything() -> None:
        loop.call_later(50, print)
        loop.set_task_factory(lambda *_: None)  # type: ignore[arg-type]
        loop.set_exception_handler(lambda *_: None)
        loop.escapes.append(ScenarioError("escape"))
        await asyncio.sleep(7)
        await spin(0)

    hooks = sys.get_asyncgen_hooks()
    with pytest.raises(ScenarioError, match="escape"):
        loop.run(break_everything())
    assert sys.get_asyncgen_hooks() == hooks
    assert (loop.now_ns, loop.escapes, loop.is_running()) == (0, [], False)
    assert loop.run(groups()) == ["task-2", "bob", "task-1"]
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_the_loop_is_reused_within_a_thread_and_never_shared_between_threads() -> None:
    async def main() -> VirtualLoop:
        return running_loop()

    others: list[VirtualLoop] = []
    thread = threading.Thread(target=lambda: others.append(run_virtual(main())))
    thread.start()
    thread.join()
    assert run_virtual(main()) is run_virtual(main()) is not others[0]


def passes(seconds: int) -> None:
    """Let time pass without waiting, as a blocking tool does."""
    time.sleep(seconds)


def busy() -> bool:
    return running_loop().busy


async def nothing() -> None:
    pass


def test_a_task_that_is_ready_makes_the_loop_busy_until_it_has_had_its_turn() -> None:
    async def main() -> list[bool]:
        task = asyncio.create_task(nothing())
        seen = [busy()]
        await asyncio.sleep(0)
        assert task.done()
        return [*seen, busy()]

    assert run_virtual(main()) == [True, False]


def test_a_timer_that_is_due_as_time_passes_without_waiting_makes_the_loop_busy() -> None:
    async def main() -> list[bool]:
        running_loop().call_later(2, lambda: None)
        passes(seconds=1)
        seen = [busy()]
        passes(seconds=1)
        seen.append(busy())
        await asyncio.sleep(0)  # the timer fires behind the task that gives the turn
        seen.append(busy())
        await asyncio.sleep(0)
        return [*seen, busy()]

    assert simulate(main()) == [False, True, True, False]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5))
@settings(derandomize=True)
def test_a_loop_is_busy_exactly_if_there_is_something_that_turns_would_run(
    steps: list[tuple[int, int]],
) -> None:
    async def main(loop: VirtualLoop) -> None:
        ran: list[int] = []
        for timer_ms, passes_ms in steps:
            loop.call_at_ns(loop.now_ns + timer_ms * MS, ran.append, timer_ms)
            loop.advance_ns(passes_ms * MS)
            was_busy, count = loop.busy, len(ran)
            for _ in range(2):
                await asyncio.sleep(0)
            assert was_busy is (len(ran) > count)
            assert not loop.busy

    async def inside() -> None:
        await main(running_loop())

    run_virtual(inside())


async def waits_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_tool_that_hangs_is_told_at_the_time_at_which_it_hangs() -> None:
    tools = {"look": ScriptedTool(hangs=True, takes="3s")}
    scenario = Scenario(prompt="Look.", tools=tools, model=[Reply(call={"look": {}})])
    with pytest.raises(Deadlock, match="nothing can run and no timer is set, at 3 s with 1 unfin"):
        run(scenario)


def test_a_deadline_that_was_kept_does_not_move_time() -> None:
    async def asks_then_waits() -> None:
        await asyncio.sleep(1)
        await waits_for_ever()

    scenario = Scenario(prompt="Look.", model=[Reply(call={"asks_then_waits": {}})])
    with pytest.raises(Deadlock, match="at 1 s"):
        run(scenario, tools=[asks_then_waits])


def test_a_program_of_ones_own_is_reproduced_by_its_name_and_seed() -> None:
    with pytest.raises(Deadlock) as found:
        simulate(waits_for_ever(), seed=7, shuffle_ties=True)
    assert str(found.value).splitlines()[1:] == [
        f"  main: {line_of(waits_for_ever, 1)}, awaiting Future",
        "reproduce: simloop.simulate(waits_for_ever(), seed=7, shuffle_ties=True)",
    ]


def test_tasks_left_behind_are_cancelled_and_may_clean_up_in_virtual_time() -> None:
    seen: list[float] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5)
            seen.append(running_loop().time())

    async def main() -> str:
        asyncio.create_task(linger())  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(1)
        return "done"

    assert run_virtual(main()) == "done"
    assert seen == [6.0]


@pytest.mark.parametrize("error", [None, KeyError("mine"), KeyboardInterrupt()])
def test_a_function_for_the_end_is_called_once_and_after_the_tasks(
    error: BaseException | None,
) -> None:
    seen: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("task")

    async def main() -> None:
        running_loop().at_end.append(lambda: seen.append("end"))
        asyncio.create_task(linger())  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)
        if error is not None:
            raise error

    with contextlib.nullcontext() if error is None else pytest.raises(type(error)):
        run_virtual(main())
    run_virtual(asyncio.sleep(0))
    assert seen == ["task", "end"]


def test_tasks_that_refuse_to_die_are_named_unless_main_failed_itself() -> None:
    async def stay() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    async def main(error: Exception | None) -> None:
        asyncio.create_task(stay(), name="limpet")  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)
        if error:
            raise error

    with pytest.raises(RunawayRun, match=r"did not end when cancelled .*: limpet$"):
        run_virtual(main(None))
    with pytest.raises(KeyError, match="mine"):
        run_virtual(main(KeyError("mine")))


def test_a_task_that_catches_all_exceptions_is_left_and_never_run_again() -> None:
    caught: list[str] = []

    async def immortal() -> None:
        while True:
            try:
                await asyncio.sleep(1)
            except BaseException as error:  # noqa: BLE001 - that is the defect
                caught.append(type(error).__name__)

    async def main() -> None:
        asyncio.create_task(immortal())  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(3)

    with pytest.raises(RunawayRun, match="did not end when cancelled"):
        run_virtual(main())
    # Closed by the garbage collector, it would never end: it cannot sleep without a running loop.
    gc.collect()
    assert caught == ["CancelledError", "_TaskEnded"]


def test_an_exception_in_a_callback_fails_the_run_but_not_before_main_has_ended() -> None:
    async def main(error: Exception | None) -> None:
        running_loop().call_soon(int, "x")
        await asyncio.sleep(1)
        if error:
            raise error

    with pytest.raises(ValueError, match="invalid literal"):
        run_virtual(main(None))
    with pytest.raises(KeyError, match="mine"):
        run_virtual(main(KeyError("mine")))


async def fails() -> None:
    raise KeyError("unseen")


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("collect", [False, True])
def test_a_task_whose_exception_nobody_looked_at_fails_the_run_collected_or_not(
    collect: object,
) -> None:
    async def main() -> None:
        asyncio.create_task(fails())  # noqa: RUF006 - left behind on purpose
        for _ in range(600):
            await asyncio.create_task(asyncio.sleep(0))
        if collect:
            gc.collect()

    with pytest.raises(KeyError, match="unseen"):
        run_virtual(main())


def test_an_exception_handler_of_the_program_takes_over_for_its_own_run_only() -> None:
    async def main(handler: Callable[..., object] | None) -> None:
        if handler:
            running_loop().set_exception_handler(handler)
        asyncio.create_task(fails())  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)

    messages: list[str] = []
    run_virtual(main(lambda _, context: messages.append(context["message"])))
    assert messages == ["task-1 failed and nobody looked at its exception"]
    with pytest.raises(KeyError, match="unseen"):
        run_virtual(main(None))


@pytest.mark.usefixtures("few_objects")
def test_a_future_that_failed_unseen_does_not_fail_the_run() -> None:
    async def main() -> None:
        running_loop().create_future().set_exception(KeyError("unseen"))
        gc.collect()

    run_virtual(main())


@pytest.mark.usefixtures("few_objects")
def test_a_waiting_task_that_nobody_holds_survives_garbage_collection() -> None:
    ends: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append(type(sys.exception()).__name__)

    async def main() -> None:
        asyncio.create_task(work())  # noqa: RUF006 - nobody holds it on purpose
        await asyncio.sleep(0)
        gc.collect()
        assert ends == []

    run_virtual(main())
    assert ends == ["CancelledError"]


def test_async_generators_left_open_are_closed_in_the_order_of_first_use() -> None:
    closed: list[int] = []

    async def numbers(name: int) -> AsyncGenerator[int, None]:
        try:
            yield name
        finally:
            await asyncio.sleep(0)
            closed.append(name)

    async def main() -> list[AsyncGenerator[int, None]]:
        generators = [numbers(name) for name in range(20)]
        for generator in generators:
            await anext(generator)
        return generators

    run_virtual(main())
    assert closed == list(range(20))


def test_an_async_generator_dropped_at_the_very_end_is_closed_too() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            closed.append("in time")

    async def main() -> int:
        async for number in numbers():
            return number
        return 0

    assert run_virtual(main()) == 1
    assert closed == ["in time"]

"""Agents that are not async run in a simulated thread, and are stopped where they wait."""

import asyncio
import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from simloop import Limits, Outcome, Scenario, Trigger, run, traced
from simloop.runs.result import Result
from simloop.scenario.schema import ScriptedTool
from simloop.trace import entries
from simloop.virtual.simulate import running_loop
from simloop.world.world import World

HERE = "test_agents_sync"
NS = 10**9
GO = Scenario(prompt="Go.")
ABORTED = Scenario(prompt="Go.", abort=Trigger(at="3s"))


def agent(prompt: str) -> str:
    time.sleep(5)
    return f"{prompt} {time.monotonic()}"


def of_both(prompt: str, world: World) -> str:
    time.sleep(5)
    assert world.model.loop is running_loop()
    return f"{prompt} {time.monotonic()}"


class Counting:
    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        time.sleep(5)
        return f"{self.prompts[0]} {time.monotonic()}"


def made() -> Counting:
    return Counting()


def with_a_prefix(prefix: str, prompt: str) -> str:
    return prefix + agent(prompt)


async def asynchronous(prompt: str) -> str:
    await asyncio.sleep(5)
    return f"{prompt} {time.monotonic()}"


def wraps(prompt: str) -> Any:
    return asynchronous(prompt)


def runs_a_loop(prompt: str) -> str:
    return asyncio.run(asynchronous(prompt))


def with_a_pool(prompt: str) -> str:
    with ThreadPoolExecutor() as pool:
        return [*pool.map(agent, [prompt] * 3)][-1]


FORMS: dict[str, Any] = {
    "function": agent,
    "name": f"{HERE}:agent",
    "with a world": of_both,
    "object": Counting(),
    "class": Counting,
    "name of a class": f"{HERE}:Counting",
    "factory": made,
    "method": Counting().__call__,
    "partial": partial(with_a_prefix, ""),
    "function that returns a coroutine": wraps,
    "its own event loop": runs_a_loop,
    "its own pool": with_a_pool,
}


@pytest.mark.parametrize("loop", FORMS.values(), ids=FORMS)
def test_an_agent_that_is_not_async_runs_in_every_form_on_virtual_time(loop: Any) -> None:
    result = run(GO, loop=loop)
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "Go. 5.0")
    assert result.elapsed_ns == 5 * 10**9


def test_an_object_keeps_the_conversation() -> None:
    twice = Scenario(prompt="a", then=["b"])
    assert run(twice, loop=Counting).text == "a 10.0"


def ends(
    action: Callable[[list[str]], None], scenario: Scenario = ABORTED
) -> tuple[Result, list[str]]:
    log: list[str] = []

    def waiting(prompt: str) -> str:
        action(log)
        return prompt

    return run(scenario, loop=waiting), log


def cleans_up(log: list[str]) -> None:
    try:
        time.sleep(60)
        log.append("went on")
    except Exception:  # noqa: BLE001 - an abort must pass
        log.append("swallowed")
    finally:
        log.append(f"ended at {time.monotonic()}")


WAITS: dict[str, Callable[[list[str]], object]] = {
    "a sleep": cleans_up,
    "a queue": lambda _: queue.Queue[int]().get(),
    "an event": lambda _: threading.Event().wait(),
    "a join": lambda _: threading.Timer(60, print).join(),
}


def test_an_abort_ends_the_thread_where_it_waits() -> None:
    result, log = ends(cleans_up)
    assert (result.outcome, log) == (Outcome.ABORTED, ["ended at 3.0"])
    assert result.elapsed_ns == 3 * 10**9


@pytest.mark.parametrize("wait", ["a queue", "an event"])
def test_an_abort_ends_every_kind_of_wait(wait: str) -> None:
    assert ends(lambda log: (WAITS[wait](log), None)[1])[0].outcome is Outcome.ABORTED


def test_the_wall_clock_ends_the_thread_where_it_waits() -> None:
    limited = Scenario(prompt="Go.", limits=Limits(max_wall_clock_ms=3000))
    result, log = ends(cleans_up, limited)
    assert (result.outcome, log) == (Outcome.TIMED_OUT, ["ended at 3.0"])


def test_clean_up_may_take_time_and_a_thread_that_goes_on_is_told_again() -> None:
    def is_stubborn(log: list[str]) -> None:
        for number in range(3):
            try:
                time.sleep(60)
            except BaseException:  # noqa: BLE001 - as stubborn code does
                log.append(f"{number} at {time.monotonic()}")

    result, log = ends(is_stubborn)
    assert result.outcome is Outcome.ABORTED
    assert log == ["0 at 3.0", "1 at 3.25", "2 at 3.5"]


def test_an_exception_is_the_failure_of_the_prompt() -> None:
    def fails(prompt: str) -> str:
        raise KeyError(prompt)

    def exits(prompt: str) -> str:
        raise SystemExit(prompt)

    def stops(prompt: str) -> str:
        raise StopIteration(prompt)

    for loop, says in (fails, "KeyError"), (exits, "SystemExit"), (stops, "StopIteration"):
        result = run(GO, loop=loop)
        assert result.outcome is Outcome.FAILED
        assert says in result.text + result.message


def test_threads_that_an_agent_leaves_behind_are_in_its_trace() -> None:
    def leaves(prompt: str) -> str:
        threading.Thread(target=time.sleep, args=(60,)).start()
        threading.Thread(target=time.sleep, args=(60,), daemon=True, name="daemon").start()
        ThreadPoolExecutor(1).submit(int)
        return prompt

    left = [e for e in run(GO, loop=leaves).trace.entries if isinstance(e, entries.LeftBehind)]
    assert [(each.what, each.name) for each in left] == [("thread", "Thread-1 (sleep)")]


def test_a_refused_connection_of_a_thread_after_the_run_is_no_error_of_the_run() -> None:
    def connects() -> None:
        time.sleep(10)
        socket.create_connection(("example.com", 80))

    async def waits(_: str) -> None:
        await asyncio.to_thread(connects)

    result = run(ABORTED, loop=waits)
    assert result.outcome is Outcome.ABORTED
    left = [e for e in result.trace.entries if isinstance(e, entries.LeftBehind)]
    assert [each.what for each in left] == ["thread"]


def test_the_sleeps_of_a_thread_are_in_the_trace() -> None:
    found = [e for e in run(GO, loop=agent).trace.entries if isinstance(e, entries.Sleep)]
    assert [(each.duration_ns, each.place.partition(":")[0]) for each in found] == [
        (5 * 10**9, "test_agents_sync.py")
    ]


def test_the_sleeps_on_an_event_loop_of_a_thread_are_in_the_trace() -> None:
    async def sleeps() -> None:
        await asyncio.sleep(7)
        await asyncio.sleep(0.5)
        await asyncio.sleep(2)

    def runs_a_loop(prompt: str) -> str:
        asyncio.run(sleeps())
        return prompt

    found = [e for e in run(GO, loop=runs_a_loop).trace.entries if isinstance(e, entries.Sleep)]
    assert [(each.at_ns, each.duration_ns) for each in found] == [(0, 7 * NS), (7.5 * NS, 2 * NS)]
    assert [each.place.rpartition(".")[2] for each in found] == ["sleeps", "sleeps"]


def test_the_waits_and_timeouts_of_simloop_in_a_thread_are_not_those_of_the_program() -> None:
    @traced
    def slow() -> str:
        return "done"

    def calls_it(_: str) -> str:
        try:
            return slow()
        except TimeoutError as error:
            return str(error)

    def texts(**tool: Any) -> list[str]:
        result = run(Scenario(prompt="Go.", tools={"slow": ScriptedTool(**tool)}), loop=calls_it)
        record = result.trace.entries
        assert not [e for e in record if isinstance(e, entries.Sleep | entries.TaskCancelled)]
        return [result.text, str(result.elapsed_s)]

    assert texts(takes="5s") == ["done", "5.0"]
    assert texts(takes="5s", timeout="2s") == ["timed out after 2000 ms", "2.0"]


def test_the_cancellations_on_an_event_loop_of_a_thread_are_in_the_trace() -> None:
    async def waits_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    async def cancels() -> None:
        task = asyncio.create_task(waits_for_ever(), name="waiter")
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(waits_for_ever(), 2)

    def runs_a_loop(prompt: str) -> str:
        asyncio.run(cancels())
        return prompt

    record = run(GO, loop=runs_a_loop).trace.entries
    found = [each for each in record if isinstance(each, entries.TaskCancelled)]
    assert [(each.at_ns, each.task, each.place.rpartition(".")[2]) for each in found] == [
        (0, "waiter", "waits_for_ever"),
        (2 * NS, "", "waits_for_ever"),
    ]

"""Stopping a run whose code will not stop: it is waited for only so long."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from pacing import MS, nap
from situations import while_tools_run
from stopping import (
    EARLY,
    EARLY_PARALLEL,
    PARALLEL,
    Stop,
    Stopped,
    begun_after,
    look,
    play,
    script,
    unpaired,
)

from simloop import Callbacks, HookIsolation, Hooks, Limits, Reply, Scenario, ToolExecution
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.virtual.clock.timeouts import GRACE_NS

in_any_order = pytest.mark.parametrize(
    "policy",
    [ToolExecution(), PARALLEL, EARLY, EARLY_PARALLEL],
    ids=["sequential", "parallel", "when called", "parallel when called"],
)


def stubborn_tool(policy: ToolExecution) -> Stopped:
    async def sleeps_on() -> str:
        try:
            await nap(10)
        except asyncio.CancelledError:
            await asyncio.sleep(3_600)
        return "late"

    scenario = Scenario(prompt="Go.", tool_execution=policy)
    reply = Reply(call={"sleeps_on": {}, "look": {}})
    return play(scenario, Stop(), at_ns=5 * MS, tools=[sleeps_on, look], model=script(reply))


@in_any_order
def test_a_tool_that_sleeps_on_does_not_hold_up_an_aborted_run(policy: ToolExecution) -> None:
    stopped = stubborn_tool(policy)
    assert stopped.result.elapsed_ns <= stopped.at_ns + GRACE_NS


@in_any_order
def test_a_tool_that_sleeps_on_makes_no_tool_begin_after_the_abort(policy: ToolExecution) -> None:
    assert begun_after(stubborn_tool(policy)) == []


@in_any_order
def test_a_tool_that_sleeps_on_leaves_no_call_without_result(policy: ToolExecution) -> None:
    assert unpaired(stubborn_tool(policy).result.messages) == []


def test_a_hook_that_sleeps_on_holds_up_an_aborted_run_for_its_timeout_at_most() -> None:
    async def sleeps_on(_: object) -> None:
        try:
            await nap(10)
        except asyncio.CancelledError:
            await asyncio.sleep(3_600)

    scenario = Scenario(prompt="Go.", hook_isolation=HookIsolation(timeout_ms=50))
    hooks = Hooks(before_llm_call=[sleeps_on])
    stopped = play(scenario, Stop(), at_ns=5 * MS, hooks=hooks, model=script())
    assert stopped.result.elapsed_ns <= 50 * MS


def test_an_async_on_tool_result_does_not_hold_up_an_aborted_run() -> None:
    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    code = {**while_tools_run(), "callbacks": Callbacks(on_tool_result=hangs)}
    stopped = play(Scenario(prompt="Go."), Stop(), at_ns=5 * MS, **code)
    assert stopped.result.elapsed_ns <= stopped.at_ns + GRACE_NS


async def blocks_in_a_thread() -> str:
    await asyncio.to_thread(time.sleep, 2)
    return "done"


def blocks() -> str:
    time.sleep(2)
    return "done"


@pytest.mark.parametrize("tool", [blocks, blocks_in_a_thread])
@pytest.mark.parametrize(
    "bound",
    [{"abort": {"at": "1s"}}, {"limits": Limits(max_wall_clock_ms=1_000)}],
    ids=["abort", "wall clock"],
)
def test_time_that_passes_without_waiting_does_not_outrun_the_end_of_the_run(
    tool: Callable[[], Any], bound: dict[str, Any]
) -> None:
    reply = Reply(call={tool.__name__: {}})
    scenario = Scenario(prompt="Go.", **bound)
    run = Simulation(scenario, tools=[tool], model=script(reply, reply, Reply(say="Done."))).run()
    started = [e for e in run.trace.entries if isinstance(e, entries.ToolStarted)]
    assert len(started) == 1

"""Several calls of one reply, one after the other or all at once."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pacing import MS, nap
from toolcalling import PARALLEL, answer, fail, results, started

from simloop import Callbacks, HookIsolation, Hooks, Outcome, Reply, Result, Scenario, Tool
from simloop.kernel.policies import OnHookFailure
from simloop.runs.run import Simulation


def timed(*milliseconds: int) -> tuple[Reply, list[Tool]]:
    """A reply that calls one tool after the other, each taking its time."""

    def tool(number: int, wait: int) -> Tool:
        async def function() -> Any:
            return await nap(wait, f"result {number}")

        return Tool(function, name=f"tool-{number}")

    tools = [tool(number, wait) for number, wait in enumerate(milliseconds)]
    return Reply(call={tool.spec.name: {} for tool in tools}), tools


waits = st.lists(st.integers(0, 5), min_size=1, max_size=5)


@given(waits)
def test_sequential_tools_take_the_sum_of_their_times(milliseconds: list[int]) -> None:
    reply, tools = timed(*milliseconds)
    assert answer(reply, *tools).elapsed_ns == sum(milliseconds) * MS


@given(waits)
def test_parallel_tools_take_the_longest_of_their_times(milliseconds: list[int]) -> None:
    reply, tools = timed(*milliseconds)
    assert answer(reply, *tools, policy=PARALLEL).elapsed_ns == max(milliseconds) * MS


@given(waits)
def test_results_of_parallel_tools_are_kept_in_the_order_of_the_calls(
    milliseconds: list[int],
) -> None:
    reply, tools = timed(*milliseconds)
    texts = [message.text for message in results(answer(reply, *tools, policy=PARALLEL))]
    assert texts == [f"result {number}" for number in range(len(milliseconds))]


@given(waits)
def test_parallel_tools_start_in_the_order_of_the_calls(milliseconds: list[int]) -> None:
    reply, tools = timed(*milliseconds)
    run = answer(reply, *tools, policy=PARALLEL)
    assert started(run) == [f"tool-{number}" for number in range(len(milliseconds))]


def test_parallel_tools_start_in_the_order_of_the_calls_whatever_their_hooks_take() -> None:
    async def hook(given: Any) -> None:
        await nap(9 if given.call.name == "tool-0" else 1)

    reply, tools = timed(1, 1)
    run = answer(reply, *tools, policy=PARALLEL, hooks=Hooks(before_tool_call=[hook]))
    assert started(run) == ["tool-0", "tool-1"]


def test_results_of_parallel_tools_are_told_as_they_come() -> None:
    told: list[str] = []
    callbacks = Callbacks(on_tool_result=lambda call, _: told.append(call.name))
    reply, tools = timed(9, 3, 6)
    answer(reply, *tools, policy=PARALLEL, callbacks=callbacks)
    assert told == ["tool-1", "tool-2", "tool-0"]


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()], ids=repr)
def test_a_parallel_tool_that_fails_does_not_disturb_the_others(error: BaseException) -> None:
    reply, tools = timed(1, 4)
    reply = Reply(call=[{"tool-0": {}}, {"fails": {}}, {"tool-1": {}}])
    run = answer(reply, *tools, fail(error), policy=PARALLEL)
    assert [message.is_error for message in results(run)] == [False, True, False]


def failing_hook(point: str) -> Result:
    async def hook(given: Any) -> None:
        await nap(1)
        if given.call.name == "tool-1":
            raise ValueError("bad hook")

    reply, tools = timed(5, 5, 50)
    scenario = Scenario(
        prompt="Go.",
        model=[reply],
        tool_execution=PARALLEL,
        hook_isolation=HookIsolation(on_failure=OnHookFailure.FAIL_RUN),
    )
    return Simulation(scenario, tools=tools, hooks=Hooks(**{point: [hook]})).run()


TOOL_POINTS = pytest.mark.parametrize("point", ["before_tool_call", "after_tool_call"])


@TOOL_POINTS
def test_a_hook_that_fails_the_run_while_tools_run_in_parallel_ends_it(point: str) -> None:
    result = failing_hook(point)
    assert (result.outcome, result.message) == (
        Outcome.FAILED,
        "Error: hook hook: ValueError: bad hook",
    )


@TOOL_POINTS
def test_a_hook_that_fails_the_run_leaves_no_parallel_call_without_result(point: str) -> None:
    assert [m.call_id for m in results(failing_hook(point))] == ["call-1", "call-2", "call-3"]


def test_a_hook_that_fails_the_run_ends_it_while_other_tools_still_run() -> None:
    assert failing_hook("after_tool_call").elapsed_ns == 6 * MS


def test_after_a_hook_has_failed_the_run_no_sequential_tool_starts() -> None:
    def hook(_: Any) -> None:
        raise ValueError("bad hook")

    reply, tools = timed(5, 5)
    scenario = Scenario(
        prompt="Go.",
        model=[reply],
        hook_isolation=HookIsolation(on_failure=OnHookFailure.FAIL_RUN),
    )
    hooks = Hooks(after_tool_call=[hook])
    assert started(Simulation(scenario, tools=tools, hooks=hooks).run()) == ["tool-0"]

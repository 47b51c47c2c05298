"""Several calls of one reply, one after the other or all at once."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pacing import MS, nap
from toolcalling import EVERY_ORDER, PARALLEL, SEQUENTIAL, answer, results, square, started

from simloop import (
    Callbacks,
    HookIsolation,
    Hooks,
    Outcome,
    Reply,
    Result,
    Scenario,
    Tool,
    ToolExecution,
)
from simloop.kernel import effects, signals, states
from simloop.kernel.machine import LegalMap, Machine, Run, Transition, finish
from simloop.kernel.policies import OnHookFailure
from simloop.kernel.signals import Signal
from simloop.loops.pi import LEGAL, PiLoop
from simloop.messages import AssistantMessage
from simloop.runs.run import Simulation
from simloop.trace import entries


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


THREE = Reply(say="I count.", call=[{"square": {"n": n}} for n in (2, 3, 4)])


def answered(run: Result) -> list[tuple[str, bool, bool]]:
    """Every answer in the trace: of which call, an error or not, by its tool or not."""
    found = [entry for entry in run.trace.entries if isinstance(entry, entries.Answered)]
    return [(entry.call_id, entry.is_error, entry.ran) for entry in found]


def calls_kept(run: Result) -> list[str]:
    said = [message for message in run.messages if isinstance(message, AssistantMessage)]
    return [call.id for message in said for call in message.calls]


# ---------------------------------------------------------------------- the first one only


@EVERY_ORDER
def test_of_several_calls_a_loop_may_take_the_first_only(policy: ToolExecution) -> None:
    run = answer(THREE, square, policy=policy, loop="react")
    assert started(run) == ["square"]
    assert [message.text for message in results(run)] == ["4"]


def test_the_calls_that_it_does_not_take_are_answered_in_the_trace_and_told_to_the_callback() -> (
    None
):
    told: list[str] = []
    callbacks = Callbacks(on_tool_result=lambda call, _: told.append(call.id))
    run = answer(THREE, square, loop="react", callbacks=callbacks)
    assert answered(run) == [
        ("call-2", True, False),
        ("call-3", True, False),
        ("call-1", False, True),
    ]
    assert told == ["call-2", "call-3", "call-1"]


# ---------------------------------------------------------------------- run again after an abort

BOTH = Reply(call={"slow": {}, "quick": {}})


def stopped(loop: str | Machine, policy: ToolExecution, *, aborts_after_ms: int = 5) -> Result:
    """A run that is aborted while the first of two tools runs, by a loop that goes on with them."""

    async def slow() -> str:
        asyncio.get_running_loop().call_later(aborts_after_ms / 1_000, simulation.abort)
        return str(await nap(10, "slept"))

    async def quick() -> str:
        return str(await nap(1, "woke"))

    scenario = Scenario(prompt="Go.", model=[BOTH], tool_execution=policy)
    simulation = Simulation(scenario, tools=[slow, quick], loop=loop)
    return simulation.run()


class GoesOn(PiLoop):
    """Pi of the document, but it asks for the calls once more after an abort."""

    legal: LegalMap = {  # noqa: RUF012 - nobody changes it
        **LEGAL,
        states.RunningTools: {
            **LEGAL[states.RunningTools],
            signals.AbortRequested: frozenset({states.RunningTools}),
        },
        states.ClosingStep: {
            **LEGAL[states.ClosingStep],
            signals.AbortRequested: frozenset({states.Finished}),
        },
    }

    def advance(self, run: Run, signal: Signal) -> Transition:
        if type(run.state) is states.RunningTools and type(signal) is signals.AbortRequested:
            return run, (effects.RunTools(),)
        if type(signal) is signals.StepClosed:
            return finish(run, Outcome.ABORTED)
        return super().advance(run, signal)


def test_a_call_that_was_cut_short_is_not_started_again_and_the_others_are_run() -> None:
    run = stopped(GoesOn(), SEQUENTIAL)
    assert run.outcome is Outcome.ABORTED
    assert started(run) == ["slow", "quick"]
    assert [(message.call_id, message.text) for message in results(run)] == [
        ("call-1", "Error: not finished, it was interrupted"),
        ("call-2", "woke"),
    ]


def test_of_parallel_calls_those_that_had_returned_keep_their_results() -> None:
    run = stopped(GoesOn(), PARALLEL)
    assert started(run) == ["slow", "quick"]
    assert [message.text for message in results(run)] == [
        "Error: not finished, it was interrupted",
        "woke",
    ]


@EVERY_ORDER
@pytest.mark.parametrize("loop", ["pi@0.87.1", "pi", "reference", "opencode"])
def test_however_a_loop_takes_an_abort_every_call_has_exactly_one_result(
    loop: str, policy: ToolExecution
) -> None:
    run = stopped(loop, policy)
    assert run.outcome is Outcome.ABORTED
    assert sorted(call_id for call_id, _, _ in answered(run)) == ["call-1", "call-2"]
    assert calls_kept(run) == ["call-1", "call-2"]
    kept = [message.call_id for message in results(run)]
    begun = 1 if (loop, policy) == ("pi@0.87.1", SEQUENTIAL) else 2  # its transcript lacks the rest
    assert kept == ["call-1", "call-2"][:begun]


def test_a_loop_that_waits_for_its_tools_takes_their_results_before_it_sees_the_abort() -> None:
    run = stopped("opencode", PARALLEL)
    assert [message.text for message in results(run)] == ["slept", "woke"]
    assert run.elapsed_ns == 10_000_000

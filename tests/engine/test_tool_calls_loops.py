"""Calls in loops that take only one of a reply, or go on with the rest after an abort."""

import asyncio
from typing import Any

import pytest
from pacing import nap
from toolcalling import EVERY_ORDER, PARALLEL, SEQUENTIAL, answer, results, square, started

from simloop import Callbacks, Outcome, Reply, Result, Scenario, ToolExecution
from simloop.kernel import effects, signals, states
from simloop.kernel.machine import LegalMap, Machine, Run, Transition, finish
from simloop.kernel.signals import Signal
from simloop.loops.pi import LEGAL, PiLoop
from simloop.messages import AssistantMessage
from simloop.runs.run import Simulation
from simloop.trace import entries

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


def test_the_calls_that_it_does_not_take_are_no_part_of_the_conversation() -> None:
    run = answer(THREE, square, loop="react")
    assert calls_kept(run) == [message.call_id for message in results(run)] == ["call-1"]


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


def test_a_reply_with_one_call_loses_none() -> None:
    run = answer(Reply(call={"square": {"n": 5}}), square, loop="react")
    assert answered(run) == [("call-1", False, True)]


@pytest.mark.parametrize("first", [{"gone": {}}, {"square": {"n": "x"}}], ids=["gone", "wrong"])
def test_a_first_call_that_cannot_be_run_does_not_pass_its_turn_on(first: Any) -> None:
    run = answer(Reply(call=[first, {"square": {"n": 2}}]), square, loop="react")
    assert started(run) == []
    assert [message.is_error for message in results(run)] == [True]


def test_an_id_that_was_used_by_a_call_not_taken_is_told_apart_in_the_next_reply() -> None:
    again = Reply(call={"square": {"n": 2}}, ids=["b"])
    first = Reply(call=[{"square": {"n": 2}}, {"square": {"n": 3}}], ids=["a", "b"])
    scenario = Scenario(prompt="Go.", loop="react", model=[first, again, Reply(say="Done.")])
    run = Simulation(scenario, tools=[square]).run()
    assert len({call_id for call_id, _, _ in answered(run)}) == 3


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


def test_a_loop_that_refuses_the_rest_after_an_abort_starts_none_of_it() -> None:
    assert started(stopped("pi@0.87.1", SEQUENTIAL)) == ["slow"]


def test_a_loop_that_waits_for_its_tools_takes_their_results_before_it_sees_the_abort() -> None:
    run = stopped("opencode", PARALLEL)
    assert [message.text for message in results(run)] == ["slept", "woke"]
    assert run.elapsed_ns == 10_000_000

"""Hooks around a call: they change it, forbid it, or change its result."""

from collections.abc import Callable
from typing import Any

import pytest
from pacing import nap
from toolcalling import EVERY_ORDER, INVALID, answer, fail, result_of, results, square

from simloop import (
    HookIsolation,
    Hooks,
    Limits,
    Outcome,
    Reply,
    Scenario,
    ToolExecution,
    ToolResult,
)
from simloop.kernel.policies import OnHookFailure
from simloop.messages import ToolMessage
from simloop.runs.run import Simulation
from simloop.trace import entries


def before(change: Callable[[Any], None]) -> Hooks:
    return Hooks(before_tool_call=[change])


def after(change: Callable[[Any], None]) -> Hooks:
    return Hooks(after_tool_call=[change])


@pytest.mark.parametrize("arguments", [{"n": float("nan")}, {1: 2}, {"n": "x"}], ids=repr)
def test_arguments_that_a_hook_makes_wrong_are_an_error_result_and_start_no_tool(
    arguments: Any,
) -> None:
    def hook(given: Any) -> None:
        given.arguments = arguments

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    assert [message.text.startswith(INVALID) for message in results(run)] == [True]
    assert not [e for e in run.trace.entries if isinstance(e, entries.ToolStarted)]


def test_arguments_that_a_hook_changes_in_place_reach_the_tool() -> None:
    def hook(given: Any) -> None:
        given.arguments["n"] += 1

    assert result_of(square, {"n": 3}, hooks=before(hook)).text == "16"


def test_arguments_that_a_hook_changes_are_those_that_the_trace_shows_as_run() -> None:
    def hook(given: Any) -> None:
        given.arguments["n"] += 1

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    shown = [e.arguments for e in run.trace.entries if isinstance(e, entries.ToolStarted)]
    assert shown == ['{"n":4}']


@pytest.mark.parametrize("arguments", [{"n": "x"}, {}, {"n": 3, "m": 4}])
def test_arguments_that_a_hook_makes_wrong_are_an_error_result(arguments: Any) -> None:
    def hook(given: Any) -> None:
        given.arguments = arguments

    assert result_of(square, {"n": 3}, hooks=before(hook)).text.startswith(INVALID)


@pytest.mark.parametrize(
    "arguments", [[], None, "text", {"n": object()}], ids=["list", "none", "text", "object"]
)
def test_a_hook_that_makes_no_json_of_the_arguments_counts_as_failed(arguments: Any) -> None:
    def hook(given: Any) -> None:
        given.arguments = arguments

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    result = [e.result for e in run.trace.entries if isinstance(e, entries.Hook)]
    assert (result, results(run)[0].text) == (["failed"], "9")


def test_arguments_that_were_wrong_are_refused_before_a_hook_sees_them() -> None:
    seen: list[Any] = []
    calls = Reply(call=[{"square": {"n": "x"}}, {"square": {"n": 3}}])
    run = answer(calls, square, hooks=before(lambda given: seen.append(given.arguments)))
    assert seen == [{"n": 3}]
    assert [message.text.startswith(INVALID) for message in results(run)] == [True, False]


def test_a_blocked_call_is_an_error_result_with_the_reason() -> None:
    message = result_of(square, {"n": 3}, hooks=before(lambda given: given.block("not today")))
    assert message == ToolMessage("call-1", "Error: not today", is_error=True)


def test_a_blocked_call_goes_to_no_after_hook() -> None:
    seen: list[Any] = []
    hooks = before(lambda given: given.block("not today")) + after(seen.append)
    result_of(square, {"n": 3}, hooks=hooks)
    assert seen == []


def test_only_the_call_that_a_hook_blocks_is_blocked() -> None:
    def hook(given: Any) -> None:
        if given.arguments["n"] == 2:
            given.block("not two")

    reply = Reply(call=[{"square": {"n": n}} for n in (1, 2, 3)])
    run = answer(reply, square, hooks=before(hook))
    assert [message.text for message in results(run)] == ["1", "Error: not two", "9"]


def test_a_result_that_a_hook_replaces_is_what_the_model_is_told() -> None:
    def hook(given: Any) -> None:
        given.result = ToolResult("masked")

    assert result_of(square, {"n": 3}, hooks=after(hook)).text == "masked"


@pytest.mark.parametrize("limit", [None, 1_000])
def test_a_result_that_a_hook_replaces_stays_if_a_later_hook_ends_the_run_or_is_stopped(
    limit: int | None,
) -> None:
    def mask(given: Any) -> None:
        given.result = ToolResult("masked")

    async def spoil(given: Any) -> None:
        given.result = ToolResult("spoilt")
        await nap(5)
        raise ValueError

    scenario = Scenario(
        prompt="Go.",
        model=[Reply(call={"square": {"n": 3}})],
        limits=Limits(max_wall_clock_ms=limit),
        hook_isolation=HookIsolation(on_failure=OnHookFailure.FAIL_RUN),
    )
    hooks = Hooks(after_tool_call=[mask, spoil])
    run = Simulation(scenario, tools=[square], hooks=hooks).run()
    told = [e.text for e in run.trace.entries if isinstance(e, entries.Answered)]
    assert (run.outcome is Outcome.COMPLETED, told) == (False, ["masked"])


@pytest.mark.parametrize("wrong", ["masked", None, 5, ToolResult(5)])  # type: ignore[arg-type]
def test_a_result_that_a_hook_makes_wrong_does_not_end_the_run(wrong: Any) -> None:
    def hook(given: Any) -> None:
        given.result = wrong

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=after(hook))
    assert run.outcome is Outcome.COMPLETED


def test_a_tool_that_fails_goes_to_the_after_hooks_as_an_error() -> None:
    seen: list[bool] = []
    result_of(fail(ValueError("no")), hooks=after(lambda given: seen.append(given.result.is_error)))
    assert seen == [True]


# ------------------------------------------------------------------- a run that ends on it


def forbid(name: str) -> Hooks:
    def hook(given: Any) -> None:
        if given.call.name == name:
            given.block(f"{name} is forbidden")

    return before(hook)


TWO = Reply(call=[{"guarded": {}}, {"square": {"n": 2}}])


def guarded() -> str:
    raise AssertionError("it was run")


@EVERY_ORDER
def test_a_loop_that_ends_on_a_forbidden_call_has_its_other_calls_answered(
    policy: ToolExecution,
) -> None:
    scenario = Scenario(prompt="Go.", loop="opencode", model=[TWO], tool_execution=policy)
    run = Simulation(scenario, tools=[guarded, square], hooks=forbid("guarded")).run()
    assert (run.outcome, run.message) == (Outcome.BLOCKED, "Blocked: guarded is forbidden")
    assert [message.text for message in results(run)] == ["Error: guarded is forbidden", "4"]

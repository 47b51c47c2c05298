"""Tools that start when their call arrives, while the reply goes on."""

import asyncio
from typing import Any

import pytest
from pacing import MS, nap, paced
from stopping import EARLY, EARLY_PARALLEL
from toolcalling import EVERY_ORDER, PARALLEL, SEQUENTIAL, answer, results

from simloop import (
    Callbacks,
    HookIsolation,
    Hooks,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScenarioError,
    Tool,
    simulate,
)
from simloop.kernel.policies import OnHookFailure
from simloop.kernel.signals import ModelReplied
from simloop.runs.run import Simulation
from simloop.scenario.replies import StreamFault
from simloop.trace import entries

EITHER_ORDER = pytest.mark.parametrize(
    "policy", [EARLY, EARLY_PARALLEL], ids=["sequential", "parallel"]
)
DONE = Reply(say="Done.")
# The call arrives at 10 ms, the finish at 20 ms.
CALLS_ONE = Reply(say=["I look."], call={"look": {}}, pace=paced(per_part="10ms"))
# The calls arrive at 0 and 10 ms, the finish at 20 ms.
CALLS_TWO = Reply(call={"look": {}, "note": {}}, pace=paced(per_part="10ms"))
BREAKS = Reply(
    say="I look.", call={"look": {}}, error=StreamFault(message="busy", code="overloaded_error")
)


async def look() -> str:
    return str(await nap(40, "seen"))


async def note() -> str:
    return str(await nap(40, "noted"))


def play(*replies: Reply, tools: Any = (look, note), **fields: Any) -> Result:
    code = {name: fields.pop(name) for name in ("hooks", "callbacks") if name in fields}
    scenario = Scenario(prompt="Go.", **{"tool_execution": EARLY, **fields})
    script = iter((*replies, DONE, DONE))
    return Simulation(scenario, model=lambda _: next(script), tools=tools, **code).run()


def times(result: Result, kind: type) -> list[int]:
    return [entry.at_ns // MS for entry in result.trace.entries if isinstance(entry, kind)]


def kinds(result: Result, *wanted: type) -> list[str]:
    found = [entry for entry in result.trace.entries if isinstance(entry, wanted)]
    return [str(type(entry).__struct_config__.tag) for entry in found]


# ------------------------------------------------------------------------- time and order


def test_a_tool_starts_when_its_call_arrives() -> None:
    result = play(CALLS_ONE)
    assert times(result, entries.ToolStarted) == times(result, entries.ToolCall) == [10]


def test_a_tool_starts_after_the_reply_where_the_policy_says_so() -> None:
    assert times(play(CALLS_ONE, tool_execution=SEQUENTIAL), entries.ToolStarted) == [20]


def test_the_finish_is_recorded_as_it_arrives_and_counts_after_the_results() -> None:
    result = play(CALLS_ONE)
    shown = (entries.ToolStarted, entries.ToolResult, entries.Finish, entries.Answered)
    assert kinds(result, *shown) == [
        "tool-started", "finish", "tool-result", "answered", "finish",
    ]  # fmt: skip
    assert times(result, entries.Finish)[0] == 20
    replied = [
        entry.at_ns // MS
        for entry in result.trace.entries
        if isinstance(entry, entries.Transition) and isinstance(entry.signal, ModelReplied)
    ]
    assert replied == [50, 50]


def test_in_sequence_a_call_waits_for_the_calls_before_it() -> None:
    assert times(play(CALLS_TWO), entries.ToolStarted) == [0, 40]


def test_in_parallel_a_call_starts_when_it_arrives() -> None:
    result = play(CALLS_TWO, tool_execution=EARLY_PARALLEL)
    assert times(result, entries.ToolStarted) == times(result, entries.ToolCall) == [0, 10]


@EITHER_ORDER
def test_a_tool_has_started_before_the_next_part_if_no_time_passes(policy: Any) -> None:
    result = play(Reply(call={"look": {}, "note": {}}), tool_execution=policy)
    assert kinds(result, entries.ToolCall, entries.ToolStarted)[:2] == ["tool-call", "tool-started"]


def test_a_tool_has_its_own_timeout() -> None:
    hurried = Tool(look, name="look", timeout_ms=5)
    (message,) = results(play(CALLS_ONE, tools=[hurried]))
    assert message.text == "Error: timed out after 5 ms"


# ------------------------------------------------------------------------- replies that go wrong


def test_a_tool_of_a_stream_that_breaks_has_run_and_the_retry_runs_it_again() -> None:
    result = play(BREAKS, Reply(call={"look": {}}))
    answers = [entry for entry in result.trace.entries if isinstance(entry, entries.Answered)]
    assert [(entry.text, entry.ran) for entry in answers] == [("seen", True)] * 2
    assert [message.text for message in results(result)] == ["seen"]


@pytest.mark.parametrize("finish", ["length", "content-filter", "error"])
def test_a_tool_that_has_run_keeps_its_result_when_the_loop_refuses_its_call(finish: str) -> None:
    result = play(Reply(say="I look.", call={"look": {}}, finish=finish))
    (message,) = results(result)
    assert (message.text, message.is_error) == ("seen", False)


@EITHER_ORDER
def test_unknown_and_invalid_calls_are_answered_as_they_come(policy: Any) -> None:
    result = play(Reply(call=[{"gone": {}}, {"look": "{"}]), tool_execution=policy)
    assert [message.text for message in results(result)] == [
        "Error: tool gone not found",
        "Error: Invalid parameters\narguments: not valid JSON",
    ]


# ------------------------------------------------------------------------- hooks


@pytest.mark.parametrize("point", ["before_tool_call", "after_tool_call"])
def test_a_hook_that_must_not_fail_ends_the_run_in_the_middle_of_the_reply(point: str) -> None:
    def fails(_: object) -> None:
        raise ValueError("no")

    reply = Reply(call={"look": {}}, pace=paced(per_part="100ms"))
    isolation = HookIsolation(on_failure=OnHookFailure.FAIL_RUN)
    result = play(reply, hooks=Hooks(**{point: [fails]}), hook_isolation=isolation)
    assert (result.outcome, times(result, entries.Finish)) == (Outcome.FAILED, [])
    assert len(results(result)) == 1


# ------------------------------------------------------------------------- errors of ours


@EITHER_ORDER
@pytest.mark.parametrize("reply", [CALLS_TWO, BREAKS], ids=["whole", "broken"])
def test_an_error_of_ours_in_a_tool_is_raised_and_leaves_no_task(policy: Any, reply: Any) -> None:
    async def wrong() -> str:
        raise ScenarioError("this tool is wrong")

    scenario = Scenario(prompt="Go.", tool_execution=policy)
    script = iter((reply, DONE))
    tools = {"look": Tool(wrong, name="look"), "note": note}
    simulation = Simulation(scenario, model=lambda _: next(script), tools=tools)

    async def main() -> int:
        with pytest.raises(ScenarioError, match="this tool is wrong"):
            await simulation.arun()
        return len(asyncio.all_tasks()) - 1

    assert simulate(main()) == 0


# ------------------------------------------------------------------------- no difference


@EVERY_ORDER
def test_without_time_the_start_makes_no_difference_to_the_transcript(policy: Any) -> None:
    early = EARLY_PARALLEL if policy is PARALLEL else EARLY
    reply = Reply(say="Now.", call={"look": {}, "note": {}})
    one, other = (answer(reply, look, note, policy=each) for each in (policy, early))
    assert (one.messages, one.message) == (other.messages, other.message)


# ------------------------------------------------------------------------- callbacks


@EITHER_ORDER
def test_on_chunk_is_given_the_results_between_the_calls_and_the_finish(policy: Any) -> None:
    heard: list[str] = []
    callbacks = Callbacks(on_chunk=lambda part: heard.append(type(part).__name__))
    play(CALLS_TWO, DONE, tool_execution=policy, callbacks=callbacks)
    assert heard[:5] == [*["ToolCallPart"] * 2, *["ToolResultPart"] * 2, "Finish"]

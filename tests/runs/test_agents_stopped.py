"""The end of an agent's run: its exceptions, stops, and the errors of simloop."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from test_agents import ANSWERED, SLOW, asks

from simloop import (
    Expect,
    Limits,
    Outcome,
    Scenario,
    ScriptedTool,
    ScriptExhausted,
    Trigger,
    run,
)
from simloop.errors import RunawayRun
from simloop.messages import UserMessage
from simloop.trace import entries
from simloop.world.world import World


def test_an_exception_ends_the_run_as_failed_and_keeps_its_traceback() -> None:
    async def raises(prompt: str, world: World) -> str:
        await world.model.reply([UserMessage(prompt)])
        raise ValueError("oops")

    result = run(ANSWERED, loop=raises)
    assert (result.outcome, result.message) == (Outcome.FAILED, "Error: ValueError: oops")
    assert result.text == "Done.", "what the model said last"
    assert [each.where for each in result.exceptions] == ["the agent"]
    assert any("raise ValueError" in line for line in result.exceptions[0].lines())


def test_an_agent_that_ends_the_program_has_failed() -> None:
    async def exits(_: str) -> str:
        raise SystemExit(3)

    result = run(Scenario(prompt="Go."), loop=exits)
    assert (result.outcome, result.message) == (Outcome.FAILED, "Error: SystemExit: 3")


STOPS: dict[str, tuple[dict[str, Any], Outcome, str]] = {
    "abort": ({"abort": Trigger(at="2s")}, Outcome.ABORTED, ""),
    "wall clock": (
        {"limits": Limits(max_wall_clock_ms=2_000)},
        Outcome.TIMED_OUT,
        "max_wall_clock",
    ),
}


def stopped(**changes: Any) -> Scenario:
    return SLOW.model_copy(update={"model": SLOW.model[:1], **changes})


@pytest.mark.parametrize(("changes", "outcome", "limit"), STOPS.values(), ids=STOPS)
def test_a_stop_cancels_the_agent(changes: dict[str, Any], outcome: Outcome, limit: str) -> None:
    result = run(stopped(**changes), loop=asks)
    assert (result.outcome, result.limit, result.text) == (outcome, limit, "I begin.")
    assert result.elapsed_s == 2
    assert [type(each) for each in result.trace.entries][-2:] == [
        entries.StopRequested,
        entries.Ended,
    ]


def test_an_agent_that_swallows_the_stop_is_cancelled_again_after_the_grace() -> None:
    times: list[float] = []

    async def stubborn(_: str) -> str:
        while len(times) < 3:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                times.append(asyncio.get_running_loop().time())
        return "I went on."

    result = run(Scenario(prompt="Go.", abort=Trigger(at="1s")), loop=stubborn)
    assert times == [1, 1.25, 1.5]
    assert (result.outcome, result.elapsed_s) == (Outcome.ABORTED, 1.5)


def test_an_agent_that_fails_while_it_stops_is_aborted_and_can_be_prompted_again() -> None:
    async def fails_at_the_stop(prompt: str) -> str:
        if prompt == "again":
            await asyncio.sleep(1)
            return "Here."
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("not now") from None
        return ""

    scenario = Scenario(prompt="Go.", then=["again"], abort=Trigger(at="1s"))
    result = run(scenario, loop=fails_at_the_stop)
    assert result.outcomes == (Outcome.ABORTED, Outcome.COMPLETED)
    assert [str(each.error) for each in result.exceptions] == ["not now"]


def test_nothing_new_begins_after_a_stop_even_if_a_tool_swallowed_it() -> None:
    tools = {"work": ScriptedTool(takes="10s", outlives_cancel="100ms")}
    result = run(stopped(tools=tools, abort=Trigger(at="1s")), loop=asks)
    assert (result.outcome, len(result.requests)) == (Outcome.ABORTED, 1)


@pytest.mark.parametrize(
    "moment", ["request", "tool-call", "finish", "tool-started", "tool-result"]
)
def test_a_stop_after_an_entry_takes_effect_before_the_next_call_at_the_boundary(
    moment: Any,
) -> None:
    quick = {"work": ScriptedTool(returns="done")}
    scenario = stopped(tools=quick, abort=Trigger(after=moment), expect=Expect(unused=1))
    result = run(scenario, loop=asks)
    kinds = [str(type(each).__struct_config__.tag) for each in result.trace.entries]
    after = kinds[kinds.index(moment) + 1 :]
    assert result.outcome is Outcome.ABORTED
    assert not {"request", "tool-started"} & set(after)
    assert len(result.unused_places) == (moment == "request"), "that model is not asked"


def test_a_stop_at_the_start_lets_the_agent_send_nothing() -> None:
    result = run(Scenario(prompt="Go.", abort=Trigger(at="0s")), loop=asks)
    assert (result.outcome, result.requests) == (Outcome.ABORTED, [])


async def swallows(prompt: str, world: World) -> str:
    for _ in range(3):
        with suppress(Exception):  # that is the defect
            await world.model.reply([UserMessage(prompt)])
    return "All is well."


def test_an_agent_cannot_hide_that_its_script_is_used_up() -> None:
    with pytest.raises(ScriptExhausted, match="no reply for request 2"):
        run(ANSWERED, loop=swallows)


def test_an_agent_that_swallows_every_error_is_ended_at_its_next_call() -> None:
    async def swallows_for_ever(prompt: str, world: World) -> str:
        while True:
            with suppress(Exception):  # that is the defect
                await world.model.reply([UserMessage(prompt)])

    with pytest.raises(ScriptExhausted):
        run(ANSWERED, loop=swallows_for_ever)


def test_an_agent_cannot_hide_that_its_trace_is_too_long() -> None:
    with pytest.raises(RunawayRun, match="max_trace_chars"):
        run(ANSWERED.model_copy(update={"max_trace_chars": 10}), loop=swallows)


def test_an_agent_cannot_go_on_after_a_request_that_is_too_long_for_its_trace() -> None:
    tries: list[int] = []

    async def says_too_much(_: str, world: World) -> str:
        for number in range(5):
            tries.append(number)
            with suppress(Exception):
                await world.model.reply([UserMessage("x" * 1_000)])
        return "All is well."

    with pytest.raises(RunawayRun, match="max_trace_chars"):
        run(ANSWERED.model_copy(update={"max_trace_chars": 500}), loop=says_too_much)
    assert tries == [0, 1], "the second call ends the agent"

"""Agents that ask a model over HTTP and run their own tools, under all invariants."""

from textwrap import dedent
from typing import Any

import pytest
from wireagents import InPool, InThread, OverHttp, Streaming

from simloop import Reply, Scenario, parse_scenario
from simloop.check.verify import verify
from simloop.errors import InvariantViolated, ScriptUnused

CORRECT = (OverHttp, Streaming)


def accused(scenario: Scenario | str, agent: Any) -> list[str]:
    """Return the violations of a run, each with the name of its invariant."""
    given = parse_scenario(scenario) if isinstance(scenario, str) else scenario
    errors = verify(given, loop=agent).errors
    return [str(error) for error in errors if isinstance(error, InvariantViolated)]


READS = Reply(call={"read": {"path": "a"}})
DONE = Reply(say="Done.")
AGAIN: dict[str, list[Reply]] = {
    "lost": [READS.model_copy(update={"lost": "mid-output"}), READS],
    "other arguments, one id": [
        Reply(call={"read": {"path": "a"}}, ids=["x"], lost="mid-output"),
        Reply(call={"read": {"path": "b"}}, ids=["x"]),
    ],
    "the id of an earlier call": [
        Reply(call={"read": {"path": "a"}}, ids=["x"]),
        Reply(call={"read": {"path": "a"}}, ids=["x"], lost="mid-output"),
        Reply(call=[{"read": {"path": "a"}}] * 2, ids=["y", "z"]),
    ],
}


@pytest.mark.parametrize("agent", CORRECT)
@pytest.mark.parametrize("name", AGAIN)
def test_a_tool_that_runs_for_the_retry_of_a_lost_call_is_no_run_of_the_lost_one(
    name: str, agent: Any
) -> None:
    assert accused(Scenario(prompt="Go.", model=[*AGAIN[name], DONE]), agent) == []


class Careless(Streaming):
    """It runs the tools of a reply that breaks off, and asks again."""

    most_tries = 1

    async def ask(self, messages: Any) -> Any:
        try:
            return await super().ask(messages)
        except Exception:  # noqa: BLE001 - any failure
            await self.act(READ_A)
            return await super().ask(messages)


READ_A = {"id": "call-1", "function": {"name": "read", "arguments": '{"path":"a"}'}}


def test_a_tool_that_runs_for_a_lost_call_is_found_if_no_other_call_waits() -> None:
    (error,) = accused(Scenario(prompt="Go.", model=[*AGAIN["lost"], DONE]), Careless)
    assert "no-tools-for-failed-replies: the tool 'read' of call 'call-1'" in error


HALF = Reply(call={"read": {}}, half_call={"write": ""})


@pytest.mark.parametrize("agent", CORRECT)
def test_a_call_that_broke_off_may_be_sent_back_as_the_wire_showed_it(agent: Any) -> None:
    assert accused(Scenario(prompt="Go.", model=[HALF, DONE]), agent) == []


class Forgetful(Streaming):
    """It sends back the newest call of a reply alone."""

    async def ask(self, messages: Any) -> Any:
        message, finish = await super().ask(messages)
        for call in message.get("tool_calls", ())[:-1]:
            await self.act(call)
        return {**message, "tool_calls": message.get("tool_calls", [])[-1:]}, finish


def test_a_call_that_is_missing_beside_one_that_broke_off_is_found() -> None:
    (error,) = accused(Scenario(prompt="Go.", model=[HALF, DONE]), Forgetful)
    assert "replies-with-calls-kept: request 2 has other calls" in error


STOPPED = {
    "before a tool": """
        abort: {after: text-delta}
        tools: {read: {takes: 5s}}
        model: [{say: Let me see., call: {read: {path: a}}}]
        expect: {outcomes: ["..."]}
    """,
    "in a tool": """
        abort: {at: 2s}
        tools: {read: {takes: 1.5s}}
        model: [{call: [{read: {path: a}}, {read: {path: b}}]}, {say: Done., times: always}]
        expect: {outcomes: ["..."]}
    """,
    "before another prompt": """
        abort: {after: text-delta}
        tools: {read: {takes: 5s}}
        then: ["And?"]
        model: [{say: Let me see., call: {read: {path: a}}}, {say: Done., times: always}]
        expect: {outcomes: ["..."]}
    """,
}


class Blocking:
    """It blocks its event loop, in a task that no stop reaches meanwhile."""

    async def __call__(self, prompt: str) -> str:
        return InPool()(prompt)


SLOW = "model: [{say: It is so., pace: {per_part: 200ms}}]"
STOPPED_LATE = {
    "an abort before the first request": "abort: {at: 0s}",
    "an abort in a reply": f"abort: {{at: 100ms}}\n{SLOW}",
    "the time limit": f"limits: {{max_wall_clock: 100ms}}\n{SLOW}",
}


@pytest.mark.parametrize("when", STOPPED_LATE)
def test_a_blocked_event_loop_that_cannot_hear_a_stop_accuses_no_agent(when: str) -> None:
    scenario = parse_scenario(f"prompt: Go.\n{STOPPED_LATE[when]}\n{ANY_END}")
    assert [str(error) for error in verify(scenario, loop=Blocking).errors] == []


ANY_END = "expect: {outcomes: ['...']}"


@pytest.mark.parametrize("agent", [InPool, InThread])
@pytest.mark.parametrize("when", STOPPED)
def test_a_thread_that_cannot_hear_an_abort_accuses_no_agent(when: str, agent: Any) -> None:
    verdict = verify(parse_scenario(f"prompt: Go.\n{dedent(STOPPED[when])}"), loop=agent)
    assert [str(one) for one in verdict.errors if not isinstance(one, ScriptUnused)] == []

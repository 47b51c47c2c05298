"""A run of the agent of document 001 that ends early: whoever iterates leaves, or it breaks."""

import asyncio
from contextlib import aclosing

import pytest
from agents import SECOND, WRITES, all_of, kind, live

from simloop import Conversation, ScenarioError, ScriptExhausted
from simloop.trace import entries
from simloop.trace.exports.pi_events import ToolCallEvent
from simloop.virtual.simulate import running_loop


def started(agent: Conversation) -> list[str]:
    return [e.name for e in agent.trace.entries if isinstance(e, entries.ToolStarted)]


def finished(agent: Conversation) -> bool:
    return any(
        isinstance(e, entries.Transition) and e.state == "finished" for e in agent.trace.entries
    )


def test_whoever_leaves_the_iteration_cancels_the_run() -> None:
    async def main(agent: Conversation) -> Conversation:
        async with aclosing(agent.run("Go.")) as events:
            async for event in events:
                if isinstance(event, ToolCallEvent):
                    break
        before = list(agent.trace.entries)
        await asyncio.sleep(10)
        assert agent.trace.entries == before
        return agent

    agent = live(main, *WRITES)
    assert not started(agent), "the call was told before its tool starts"
    assert not finished(agent)


def test_a_plain_break_cancels_the_run_too() -> None:
    async def main(agent: Conversation) -> Conversation:
        async for _ in agent.run("Go."):
            break
        await asyncio.sleep(10)
        return agent

    assert not finished(live(main, *WRITES))


def test_a_conversation_that_was_broken_off_cannot_go_on() -> None:
    async def main(agent: Conversation) -> None:
        async with aclosing(agent.run("Go.")) as events:
            await anext(events)
        with pytest.raises(ScenarioError, match="cut short"):
            await all_of(agent.run("Again."))

    live(main, *WRITES)


def test_whoever_is_cancelled_while_iterating_cancels_the_run() -> None:
    async def main(agent: Conversation) -> Conversation:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await all_of(agent.run("Go."))
        assert running_loop().now_ns == SECOND
        await asyncio.sleep(10)
        return agent

    agent = live(main, *WRITES)
    assert started(agent) == ["write"]
    assert not finished(agent)


def test_a_program_may_end_in_the_middle_of_a_run() -> None:
    async def main(agent: Conversation) -> str:
        return kind(await anext(agent.run("Go.")))

    assert live(main, *WRITES) == "message"


def test_a_script_that_is_used_up_makes_the_iteration_raise() -> None:
    async def main(agent: Conversation) -> None:
        with pytest.raises(ScriptExhausted):
            await all_of(agent.run("Go."))
        with pytest.raises(ScenarioError, match="cut short"):
            await all_of(agent.run("Again."))

    live(main, WRITES[0])

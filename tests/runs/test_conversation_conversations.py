"""What is said to the agent of document 001, and when: prompts, queues, aborts, on events."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import WRITES, all_of, kind, kinds, live, scenario

from simloop import (
    Conversation,
    Outcome,
    Reply,
    ScenarioError,
    ScriptedTool,
    read_trace,
    simulate,
    write_trace,
)
from simloop.messages import AssistantMessage, UserMessage
from simloop.runs.conversation import event_view
from simloop.scenario.triggers import Queued, Trigger
from simloop.trace import entries
from simloop.trace.exports.pi_events import DoneEvent, ErrorEvent, ToolCallEvent
from simloop.virtual.simulate import running_loop


def test_a_second_run_goes_on_with_the_conversation() -> None:
    async def main(agent: Conversation) -> Conversation:
        assert agent.messages == ()
        await all_of(agent.run("Create hello.ts"))
        assert await kinds(agent.run("Make it TypeScript.")) == ["message", "done"]
        return agent

    agent = live(main, *WRITES, Reply(say="It is."))
    assert [message.text for message in agent.messages] == [
        "Create hello.ts", "I write it.", "written", "It is written.",
        "Make it TypeScript.", "It is.",
    ]  # fmt: skip
    assert [e.text for e in agent.trace.entries if isinstance(e, entries.Prompt)] == [
        *("Create hello.ts", "Make it TypeScript.")
    ]


def test_the_trace_of_an_agent_is_whole_between_its_runs(tmp_path: Path) -> None:
    async def main(agent: Conversation) -> list[Any]:
        events = await all_of(agent.run("Create hello.ts"))
        async for event in agent.run("Make it TypeScript."):
            if isinstance(event, ToolCallEvent):
                assert agent.trace.footer is None
            events.append(event)
        write_trace(agent.trace, tmp_path / "a.jsonl")
        return events

    told = live(main, *WRITES, *WRITES)
    trace = read_trace(tmp_path / "a.jsonl")
    assert trace.footer is not None
    assert trace.outcomes == (Outcome.COMPLETED, Outcome.COMPLETED)
    view = event_view(scenario(), "pi", "document")
    assert [e for line in trace.entries for e in view.feed(line)] == told


def test_an_abort_in_a_second_run_ends_that_run() -> None:
    async def main(agent: Conversation) -> list[str]:
        await all_of(agent.run("Hi."))
        seen = []
        async for event in agent.run("Create hello.ts"):
            seen.append(kind(event))
            if isinstance(event, ToolCallEvent):
                agent.abort()
        assert running_loop().now_ns == 0
        return seen

    seen = live(main, Reply(say="Hi."), *WRITES)
    assert seen == ["message", "tool_call", "tool_result", "error"]


@pytest.mark.parametrize("before", [(), ("Hi.",)], ids=["first", "second"])
def test_an_abort_right_after_the_start_ends_the_run(before: tuple[str, ...]) -> None:
    async def main(agent: Conversation) -> list[str]:
        for prompt in before:
            await all_of(agent.run(prompt))
        running = asyncio.create_task(kinds(agent.run("Create hello.ts")))
        await asyncio.sleep(0)
        agent.abort()
        return await running

    hello = [Reply(say="Hi.")] * len(before)
    assert live(main, *hello, *WRITES)[-1] == "error"


def test_an_aborted_conversation_goes_on() -> None:
    async def main(agent: Conversation) -> tuple[Any, ...]:
        async for event in agent.run("Create hello.ts"):
            if isinstance(event, ToolCallEvent):
                agent.abort()
        assert isinstance(event, ErrorEvent)
        assert event.error == "Request aborted."
        assert await kinds(agent.run("Never mind.")) == ["message", "done"]
        return agent.messages

    said = live(main, WRITES[0], Reply(say="As you like."))
    assert said[-2:] == (UserMessage("Never mind."), AssistantMessage("As you like."))


def test_a_run_during_a_run_is_refused() -> None:
    """2.7: `prompt()` during a run throws."""

    async def main(agent: Conversation) -> list[str]:
        seen = []
        async for event in agent.run("Go."):
            seen.append(kind(event))
            if isinstance(event, ToolCallEvent):
                with pytest.raises(ScenarioError, match="running already"):
                    await all_of(agent.run("And this."))
        return seen

    assert live(main, *WRITES)[-1] == "done"


def test_whoever_leaves_at_the_end_of_a_run_may_begin_the_next_one() -> None:
    """As the document's own loop does: `if (event.type === 'done') return`."""

    async def main(agent: Conversation) -> list[str]:
        async for event in agent.run("Hi."):
            if isinstance(event, DoneEvent):
                break
        return await kinds(agent.run("And you?"))

    assert live(main, Reply(say="Hi."), Reply(say="Well.")) == ["message", "done"]


@pytest.mark.parametrize("say", [Conversation.steer, Conversation.follow_up])
def test_what_is_said_before_the_first_run_is_heard(
    say: Callable[[Conversation, str], None],
) -> None:
    async def main(agent: Conversation) -> tuple[Any, ...]:
        say(agent, "Briefly.")
        await all_of(agent.run("Explain."))
        return agent.messages

    model = (
        [Reply(say="So.")] if say is Conversation.steer else [Reply(say="So."), Reply(say="Thus.")]
    )
    assert UserMessage("Briefly.") in live(main, *model)


def test_steering_is_heard_after_the_tools_and_a_follow_up_at_the_end() -> None:
    async def main(agent: Conversation) -> list[str]:
        async for event in agent.run("Create hello.ts"):
            if isinstance(event, ToolCallEvent):
                agent.follow_up("Now test it.")
                agent.steer("In TypeScript.")
        assert isinstance(event, DoneEvent)
        return [message.text for message in agent.messages]

    assert live(main, *WRITES, Reply(say="Tested."))[3:] == [
        "In TypeScript.", "It is written.", "Now test it.", "Tested.",
    ]  # fmt: skip


def test_moments_of_the_scenario_work_beside_the_agents_own_eyes() -> None:
    async def main(agent: Conversation) -> list[str]:
        await all_of(agent.run("Go."))
        return [message.text for message in agent.messages]

    queue = [Queued(after="tool-started", say="And?")]
    assert live(main, *WRITES, queue=queue)[3:] == ["And?", "It is written."]
    assert live(main, WRITES[0], abort=Trigger(after="tool-started"))[-1].startswith("Error: ")


# ------------------------------------------------------------------ where no time passes

AT_ONCE = {"tools": {"write": ScriptedTool(returns="written")}}


def act_on(
    kind_of: str, act: Callable[[Conversation], None], *model: Reply, listen: bool
) -> list[str]:
    """The events of a run without time in which `act` answers the first event of that kind."""

    async def main() -> list[str]:
        world = scenario(*model).model_copy(update=AT_ONCE)
        agent, acts = Conversation(world), [act]
        told = []

        def answer(event: Any) -> None:
            if kind(event) == kind_of and acts:
                acts.pop()(agent)

        if listen:
            agent.on(kind_of, answer)
        async for event in agent.run("Go."):
            told.append(kind(event))
            answer(event)
        assert running_loop().now_ns == 0
        return [*told, *(m.text for m in agent.messages if isinstance(m, UserMessage))]

    return list(simulate(main()))


@pytest.mark.parametrize("listen", [True, False])
def test_an_abort_on_an_event_stops_what_would_follow_though_no_time_passes(listen: bool) -> None:  # noqa: FBT001
    two = Reply(call=[{"write": {}}, {"write": {}}])
    on_call = act_on("tool_call", Conversation.abort, two, listen=listen)
    assert on_call == [
        "message", "tool_call", "tool_result", "tool_call", "tool_result", "error", "Go.",
    ]  # fmt: skip
    assert act_on("message", Conversation.abort, two, listen=listen)[-2:] == ["error", "Go."]


def test_an_abort_on_a_result_starts_no_further_call_though_no_time_passes() -> None:
    async def main() -> list[bool]:
        world = scenario(Reply(call=[{"write": {}}, {"write": {}}])).model_copy(update=AT_ONCE)
        agent = Conversation(world)
        agent.on("tool_result", lambda _: agent.abort())
        await all_of(agent.run("Go."))
        return [e.ran for e in agent.trace.entries if isinstance(e, entries.Answered)]

    assert simulate(main()) == [True, False]


@pytest.mark.parametrize("listen", [True, False])
def test_what_is_said_on_an_event_is_heard_in_that_run_though_no_time_passes(listen: bool) -> None:  # noqa: FBT001
    steered = act_on("tool_call", lambda agent: agent.steer("So."), *WRITES, listen=listen)
    assert steered[-2:] == ["Go.", "So."]
    answers = (Reply(say="Hi."), Reply(say="More."))
    followed = act_on("message", lambda agent: agent.follow_up("And?"), *answers, listen=listen)
    assert followed == ["message", "message", "done", "Go.", "And?"]

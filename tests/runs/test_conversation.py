"""The agent of document 001, live: iteration, listeners, queues, and time."""

import asyncio
from typing import Any

import pytest
from agents import SECOND, WRITES, all_of, kind, kinds, live, scenario

from simloop import (
    Conversation,
    Http,
    Reply,
    ScenarioError,
    ScriptedTool,
    ToolExecution,
    run,
    simulate,
)
from simloop.kernel.policies import ToolOrder
from simloop.loops.react import ReactLoop
from simloop.runs.conversation import event_view
from simloop.scenario.replies import Pace
from simloop.trace import entries
from simloop.trace.exports.opencode_events import StatusEvent
from simloop.trace.exports.pi_events import MessageEvent, ToolCallEvent
from simloop.virtual.simulate import running_loop


def test_a_run_is_iterated_as_the_document_shows() -> None:
    async def main(agent: Conversation) -> list[str]:
        return await kinds(agent.run("Create hello.ts"))

    assert live(main, *WRITES) == ["message", "tool_call", "tool_result", "message", "done"]


def test_an_event_comes_at_the_virtual_time_at_which_it_happens() -> None:
    async def main(agent: Conversation) -> list[tuple[str, int]]:
        loop = running_loop()
        return [(kind(event), loop.now_ns - event.at_ns) async for event in agent.run("Go.")]

    assert {late for _, late in live(main, *WRITES)} == {0}


@pytest.mark.parametrize(("loop", "events"), [("pi", "document"), ("opencode", "session")])
@pytest.mark.parametrize("order", list(ToolOrder))
def test_live_events_are_those_of_the_trace(loop: str, events: Any, order: ToolOrder) -> None:
    model = (Reply(say="Two.", call=[{"write": {}}, {"no_such_tool": {}}]), Reply(say="Done."))
    policy = ToolExecution(order=order)

    async def main() -> list[Any]:
        agent = Conversation(scenario(*model, tool_execution=policy), loop=loop, events=events)
        return await all_of(agent.run("Go."))

    world = scenario(*model, tool_execution=policy, title="").model_copy(update={"prompt": "Go."})
    trace = run(world, loop=loop).trace
    assert trace.footer is not None
    view = event_view(world, loop, events)
    assert simulate(main()) == [event for line in trace.entries for event in view.feed(line)]


def test_the_session_of_opencode_tells_its_status_live() -> None:
    async def main() -> list[tuple[str, int]]:
        world = scenario(Reply(http=Http(status=429, retry_after="3s")), Reply(say="Done."))
        agent = Conversation(world, events="session", loop="opencode")
        loop = running_loop()
        told = []
        async for event in agent.run("Go."):
            assert isinstance(event, StatusEvent)
            told.append((kind(event.status), loop.now_ns))
        return told

    assert simulate(main()) == [
        ("busy", 0),
        ("retry", 0),
        ("busy", 3 * SECOND),
        ("busy", 3 * SECOND),
        ("idle", 3 * SECOND),
    ]


def test_a_loop_without_events_of_a_session_is_refused() -> None:
    with pytest.raises(ScenarioError, match="`react` has no events of a session"):
        Conversation(scenario(), loop="react", events="session")


@pytest.mark.parametrize("name", ["pi", "opencode"])
def test_a_loop_of_ones_own_is_not_taken_for_the_design_whose_name_it_has(name: str) -> None:
    mine = ReactLoop()
    mine.name = name
    with pytest.raises(ScenarioError, match=f"`{name}` has no events of a session"):
        Conversation(scenario(), loop=mine, events="session")


def test_an_agent_needs_the_virtual_clock() -> None:
    agent = Conversation(scenario(Reply(say="Hello.")))
    with pytest.raises(ScenarioError, match="needs the virtual clock"):
        asyncio.run(all_of(agent.run("Go.")))


# ------------------------------------------------------------------ listeners


def test_listeners_hear_an_event_before_whoever_iterates_in_the_order_in_which_they_came() -> None:
    heard: list[str] = []

    async def slowly(event: MessageEvent) -> None:
        await asyncio.sleep(1)
        heard.append(f"second {event.content}")

    async def main(agent: Conversation) -> None:
        agent.on("message", lambda event: heard.append(f"first {event.content}"))
        agent.on("message", slowly)
        async for event in agent.run("Go."):
            heard.append(kind(event))  # noqa: PERF401 - among what listeners hear

    live(main, Reply(say="Hello."))
    assert heard == ["first Hello.", "second Hello.", "message", "done"]


def test_an_event_that_nobody_makes_is_refused_with_those_there_are() -> None:
    agent = Conversation(scenario())
    with pytest.raises(
        ScenarioError, match=r"no event `messages`.*message, tool_call, tool_result"
    ):
        agent.on("messages", print)


def test_a_listener_that_adds_one_has_it_called_from_the_next_event_on() -> None:
    heard: list[str] = []

    async def main(agent: Conversation) -> None:
        def again(event: MessageEvent) -> None:
            heard.append(event.content)
            if len(heard) < 9:
                agent.on("message", again)

        agent.on("message", again)
        await all_of(agent.run("Go."))

    live(main, *WRITES)
    assert heard == ["I write it.", "It is written.", "It is written."]


def test_events_by_a_name_that_there_is_not_are_refused() -> None:
    names: Any = "documents"
    with pytest.raises(ScenarioError, match=r"called `documents`.*there are document, session"):
        Conversation(scenario(), events=names)


def test_a_listener_that_raises_makes_the_iteration_raise_and_ends_the_run() -> None:
    """documented-loops.md 2.7: `prompt()` rejects."""

    def fail(event: ToolCallEvent) -> None:
        raise ValueError(event.tool_call.name)

    async def main(agent: Conversation) -> list[entries.AnyEntry]:
        agent.on("tool_call", fail)
        with pytest.raises(ValueError, match="write"):
            await all_of(agent.run("Go."))
        before = list(agent.trace.entries)
        await asyncio.sleep(10)
        assert agent.trace.entries == before
        return before

    assert not any(isinstance(e, entries.ToolResult) for e in live(main, *WRITES))


# ------------------------------------------------------------------ no waste, and no haste


def test_nobody_polls_while_a_tool_runs() -> None:
    """A year in the tool is a handful of steps of the event loop."""
    year = 365 * 86_400 * SECOND

    async def main() -> None:
        world = scenario(*WRITES).model_copy(
            update={"tools": {"write": ScriptedTool(takes="8760h")}}
        )
        await all_of(Conversation(world).run("Go."))
        loop: Any = running_loop()
        assert loop.now_ns == year
        assert loop.progress.callbacks < 200

    simulate(main())


def test_whoever_is_slow_holds_nothing_up() -> None:
    async def main(agent: Conversation) -> list[int]:
        times = []
        async for event in agent.run("Go."):
            await asyncio.sleep(10)
            times.append(event.at_ns // SECOND)
        return times

    assert live(main, *WRITES) == [0, 0, 2, 2, 2]


def test_an_agent_may_begin_in_the_middle_of_a_simulation() -> None:
    async def main(agent: Conversation) -> list[Any]:
        await asyncio.sleep(5)
        return await all_of(agent.run("Go."))

    events = live(main, Reply(say="Hi.", pace=Pace(first_part="1s")))
    assert [event.at_ns for event in events] == [SECOND, SECOND]


def test_two_agents_share_a_clock_and_nothing_else() -> None:
    async def main(agent: Conversation) -> tuple[list[str], list[str]]:
        other = Conversation(scenario(Reply(say="Hi.")))
        return await asyncio.gather(kinds(agent.run("Go.")), kinds(other.run("Hi?")))

    first, second = live(main, *WRITES)
    assert first == ["message", "tool_call", "tool_result", "message", "done"]
    assert second == ["message", "done"]


@pytest.mark.parametrize("loop", ["reference", "pi@0.87.1", "react", "opencode"])
def test_the_documents_events_are_told_of_every_loop(loop: str) -> None:
    async def main() -> list[str]:
        return await kinds(Conversation(scenario(*WRITES), loop=loop).run("Go."))

    assert simulate(main()) == ["message", "tool_call", "tool_result", "message", "done"]


def test_what_a_loop_without_a_queue_has_not_heard_is_its_next_prompt() -> None:
    async def main() -> list[str]:
        replies = (*WRITES, Reply(say="More."))
        agent = Conversation(scenario(*replies), loop="react")
        agent.on("tool_call", lambda _: agent.steer("And more."))
        await all_of(agent.run("Go."))
        return [message.text for message in agent.messages]

    assert simulate(main()) == [
        "Go.",
        "I write it.",
        "written",
        "It is written.",
        "And more.",
        "More.",
    ]

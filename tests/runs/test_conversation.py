"""The conversation of document 001, live: events, listeners, queues, time, and early ends."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from agents import WRITES, all_of, kind, kinds, live, scenario

from simloop import (
    Conversation,
    Outcome,
    Reply,
    Scenario,
    ScenarioError,
    ScriptedTool,
    ScriptExhausted,
    ToolExecution,
    run,
    simulate,
)
from simloop.kernel.policies import ToolOrder
from simloop.messages import Message, UserMessage
from simloop.runs.conversation import event_view
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.events import DoneEvent, MessageEvent, ToolCallEvent
from simloop.virtual.simulate import running_loop
from simloop.world.world import World


def test_a_run_is_iterated_as_the_document_shows() -> None:
    async def main(agent: Conversation) -> list[str]:
        return await kinds(agent.run("Create hello.ts"))

    assert live(main, *WRITES) == ["message", "tool_call", "tool_result", "message", "done"]


def test_an_event_comes_at_the_virtual_time_at_which_it_happens() -> None:
    async def main(agent: Conversation) -> list[tuple[str, int]]:
        loop = running_loop()
        return [(kind(event), loop.now_ns - event.at_ns) async for event in agent.run("Go.")]

    assert {late for _, late in live(main, *WRITES)} == {0}


@pytest.mark.parametrize("loop", ["pi", "opencode"])
@pytest.mark.parametrize("order", list(ToolOrder))
def test_live_events_are_those_of_the_trace(loop: str, order: ToolOrder) -> None:
    model = (Reply(say="Two.", call=[{"write": {}}, {"no_such_tool": {}}]), Reply(say="Done."))
    world = scenario(*model, tool_execution=ToolExecution(order=order), title="")
    world = world.model_copy(update={"prompt": "Go."})

    async def main() -> list[Any]:
        return await all_of(Conversation(world, loop=loop).run("Go."))

    view, trace = event_view(Simulation(world, loop=loop)), run(world, loop=loop).trace
    assert simulate(main()) == [event for line in trace.entries for event in view.feed(line)]


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


@pytest.mark.parametrize("listen", [True, False])
def test_what_is_said_on_an_event_is_heard_in_that_run_though_no_time_passes(listen: bool) -> None:  # noqa: FBT001
    steered = act_on("tool_call", lambda agent: agent.steer("So."), *WRITES, listen=listen)
    assert steered[-2:] == ["Go.", "So."]
    answers = (Reply(say="Hi."), Reply(say="More."))
    followed = act_on("message", lambda agent: agent.follow_up("And?"), *answers, listen=listen)
    assert followed == ["message", "message", "done", "Go.", "And?"]


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


def test_a_script_that_is_used_up_makes_the_iteration_raise() -> None:
    async def main(agent: Conversation) -> None:
        with pytest.raises(ScriptExhausted):
            await all_of(agent.run("Go."))
        with pytest.raises(ScenarioError, match="cut short"):
            await all_of(agent.run("Again."))

    live(main, WRITES[0])


NATIVE_WORLD = Scenario(
    prompt="",
    tools={"write": ScriptedTool(returns="written", takes="2s")},
    model=[
        Reply(say="I write.", call=[{"write": {}}, {"wrote": {"a": 1}}]),
        Reply(say="It is written."),
        Reply(say="Bye."),
    ],
)


class Native:
    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, prompt: str, world: World) -> str:
        if prompt == "fail":
            raise ValueError("oops")
        self.messages.append(UserMessage(prompt))
        while True:
            reply = await world.model.reply(self.messages, tools=world.tools.specs)
            self.messages.append(reply.message)
            if not reply.message.calls:
                return reply.message.text
            self.messages += [await world.tools.run(call) for call in reply.message.calls]


def native_told(event: Any) -> str:
    kind = str(type(event).__struct_config__.tag)
    match kind:
        case "message":
            return f"message {event.content}"
        case "tool_call":
            return f"tool_call {event.tool_call.name} {event.tool_call.params}"
        case "tool_result":
            return f"tool_result {event.result.output}"
        case _:
            return kind


def talk_with_native(*prompts: str) -> tuple[list[str], Conversation]:
    async def main() -> tuple[list[str], Conversation]:
        agent = Conversation(NATIVE_WORLD, loop=Native)
        return [
            native_told(event) for prompt in prompts async for event in agent.run(prompt)
        ], agent

    return simulate(main())


NATIVE_FIRST = [
    "message I write.",
    "tool_call write {}",
    "tool_result written",
    "tool_call wrote {'a': 1}",
    "tool_result Error: tool wrote not found",
    "message It is written.",
    "done",
]


def test_the_events_of_an_agent_come_from_its_traffic() -> None:
    events, agent = talk_with_native("Go.", "And?")
    assert events == [*NATIVE_FIRST, "message Bye.", "done"]
    assert [end.outcome for end in agent.trace.ends] == [Outcome.COMPLETED] * 2


def test_an_exception_is_an_error_event_and_the_conversation_goes_on() -> None:
    events, agent = talk_with_native("fail", "Go.")
    assert events == ["error", *NATIVE_FIRST]
    assert agent.trace.ends[0].message == "Error: ValueError: oops"


def test_what_an_agent_was_told_meanwhile_is_its_next_prompt() -> None:
    async def main() -> Conversation:
        agent = Conversation(NATIVE_WORLD, loop=Native)

        def ask_on(event: MessageEvent) -> None:
            if event.content == "I write.":
                agent.steer("And?")

        agent.on("message", ask_on)
        async for _ in agent.run("Go."):
            pass
        return agent

    agent = simulate(main())
    prompts = [entry.text for entry in agent.trace.entries if isinstance(entry, entries.Prompt)]
    assert prompts == ["Go.", "And?"]
    assert len(agent.trace.ends) == 2

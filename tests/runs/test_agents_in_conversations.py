"""Conversations with an agent of the user's own: the events of document 001 from its traffic."""

from typing import Any

import pytest

from simloop import Conversation, Outcome, Reply, Scenario, ScenarioError, ScriptedTool, simulate
from simloop.check.replay import recorded_events
from simloop.messages import Message, UserMessage
from simloop.trace import entries
from simloop.trace.exports.pi_events import MessageEvent
from simloop.world.world import World

SCENARIO = Scenario(
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


def told(event: Any) -> str:
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


def talk(*prompts: str) -> tuple[list[str], Conversation]:
    async def main() -> tuple[list[str], Conversation]:
        agent = Conversation(SCENARIO, loop=Native)
        return [told(event) for prompt in prompts async for event in agent.run(prompt)], agent

    return simulate(main())


FIRST = [
    "message I write.",
    "tool_call write {}",
    "tool_result written",
    "tool_call wrote {'a': 1}",
    "tool_result Error: tool wrote not found",
    "message It is written.",
    "done",
]


def test_the_events_of_an_agent_come_from_its_traffic() -> None:
    events, agent = talk("Go.", "And?")
    assert events == [*FIRST, "message Bye.", "done"]
    assert [end.outcome for end in agent.trace.ends] == [Outcome.COMPLETED] * 2


def test_an_exception_is_an_error_event_and_the_conversation_goes_on() -> None:
    events, agent = talk("fail", "Go.")
    assert events == ["error", *FIRST]
    assert agent.trace.ends[0].message == "Error: ValueError: oops"


def test_a_trace_tells_the_events_that_were_told_live() -> None:
    events, agent = talk("Go.")
    view = recorded_events(agent.trace, "document")
    assert [told(event) for line in agent.trace.entries for event in view.feed(line)] == events


def test_an_agent_has_no_events_of_a_session() -> None:
    with pytest.raises(ScenarioError, match="`Native` has no events of a session"):
        Conversation(SCENARIO, loop=Native, events="session")


def test_an_agent_can_be_aborted_and_prompted_again() -> None:
    async def main() -> list[str]:
        agent = Conversation(SCENARIO, loop=Native)
        agent.on("tool_call", lambda _: agent.abort())
        events = [told(event) async for event in agent.run("Go.")]
        events += [told(event) async for event in agent.run("Again.")]
        return events

    events = simulate(main())
    assert events == [*FIRST[:2], "error", "message It is written.", "done"]


def test_what_an_agent_was_told_meanwhile_is_its_next_prompt() -> None:
    async def main() -> Conversation:
        agent = Conversation(SCENARIO, loop=Native)

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

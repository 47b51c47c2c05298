"""Several agents in one run: invariants hold for the conversation of each."""

import asyncio
from typing import Any

import pytest
from incases import in_cases

from simloop import (
    AssistantMessage,
    Http,
    ModelCallFailed,
    Party,
    Reply,
    Result,
    Scenario,
    ToolMessage,
    UserMessage,
    World,
    run,
)
from simloop.check.invariants.judge import judge
from simloop.check.invariants.subject import Subject
from simloop.messages import Message, Request
from simloop.trace import entries
from simloop.trace.facts import Facts
from simloop.trace.requests import RequestCoder

BUSY = Reply(http=Http(status=429, retry_after="5s"))
LOOK = Reply(call={"look": {"at": "it"}})


async def answered(
    world: World, asked: list[Message], system: str, *, waits: bool = True, pause: float = 0.0
) -> str:
    """An agent that waits as long as it is told, runs its calls and keeps all its messages."""
    messages = [*asked]
    while True:
        try:
            reply = await world.model.reply(messages, system_prompt=system)
        except ModelCallFailed as failed:
            await asyncio.sleep(float(failed.fault.header("retry-after") or 1) if waits else 1)
            continue
        await asyncio.sleep(pause)
        if reply.message.text and not reply.message.calls:
            return reply.message.text
        messages += [reply.message] if reply.message.calls else []
        for call in reply.message.calls:
            messages.append(ToolMessage(call.id, (await world.tools.run(call)).text))


def side_by_side(first: list[Reply], second: list[Reply], **given: Any) -> tuple[Result, list[str]]:
    """Two agents that are asked alike, at once, and what the judge finds."""

    async def agent(prompt: str, world: World) -> str:
        asked: list[Message] = [UserMessage(prompt)]
        one = answered(world, asked, "You write.")
        two = answered(world, asked, "You review.", **given)
        return (await asyncio.gather(one, two))[0]

    reviewer = Party(when={"system": "You review."}, replies=second)
    scenario = Scenario(
        prompt="Go.",
        tools={"look": {"parameters": {"at": "string"}, "returns": "seen", "takes": "1s"}},
        model=first,
        models={"reviewer": reviewer},
    )
    result = run(scenario, loop=agent)
    found = judge(Subject(scenario=scenario), result.trace.entries)
    return result, [each.name for each in found.violations]


@in_cases([
    ([BUSY, LOOK, Reply(say="A line.")], [LOOK, LOOK, Reply(say="Good.")]),
    ([LOOK, Reply(say="ok")], [LOOK, Reply(say="ok")]),
    ([BUSY, BUSY, Reply(say="A.")], [LOOK, LOOK, BUSY, LOOK, Reply(say="B.")]),
    ([Reply(http={"status": 500})] * 14 + [Reply(say="A.")],
     [Reply(http={"status": 500})] * 14 + [Reply(say="B.")]),
    ([Reply(say="A.", pace={"first_part": "9s"})], [LOOK, BUSY, Reply(say="B.")]),
])  # fmt: skip
def test_two_agents_that_are_right_violate_nothing(first: list[Reply], second: list[Reply]) -> None:
    result, found = side_by_side(first, second)
    assert found == []
    assert result.outcome == "completed"


@pytest.mark.parametrize("others", [[LOOK], [BUSY, LOOK], [LOOK, LOOK, LOOK]])
def test_the_fault_of_one_is_found_among_the_requests_of_the_other(others: list[Reply]) -> None:
    _, found = side_by_side([*others, Reply(say="A.")], [BUSY, Reply(say="B.")], waits=False)
    assert found == ["retry-after-respected"]


def conversations(*sent: tuple[str, list[Message]], reply: str = "ok") -> list[int]:
    """The conversation of each request of an agent, whose replies end before the next one."""
    facts = Facts()
    facts.read(entries.Prompt(0, 0, "Go."))
    found = []
    coder = RequestCoder()
    for number, (system, messages) in enumerate(sent, 1):
        party = "" if system != "reviewer" else "reviewer"
        request = Request(number, "main", system, messages, (), party)
        facts.read(coder.code(request, number, 0, 0)[0])
        found.append(facts.conversation)
        facts.read(entries.TextDelta(number, 0, number, reply))
        facts.read(entries.Finish(number, 0, number, "stop", "stop"))  # type: ignore[arg-type]
    return found


Q, R, OK = UserMessage("Q?"), UserMessage("R?"), AssistantMessage("ok")


@in_cases([
    ([("a", [Q]), ("a", [Q, OK, R])], [1, 1]),  # it goes on
    ([("a", [Q]), ("reviewer", [Q])], [1, 2]),  # of another party, and nothing is added
    ([("a", [Q]), ("reviewer", [Q, OK, R]), ("a", [Q, OK, R, OK, Q])], [1, 1, 1]),  # a handoff
    ([("a", [Q]), ("b", [R]), ("a", [Q, OK, Q]), ("b", [R, OK, Q])], [1, 2, 1, 2]),
    ([("a", [Q]), ("a", [R])], [1, 1]),  # it may be a conversation that was shortened
    ([("a", [Q, OK, R]), ("a", [Q])], [1, 1]),  # it is begun again
])  # fmt: skip
def test_a_request_belongs_to_the_conversation_that_it_goes_on_with(
    sent: list[tuple[str, list[Message]]], found: list[int]
) -> None:
    assert conversations(*sent) == found

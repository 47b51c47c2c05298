"""Several agents in one run: invariants hold for the conversation of each."""

import asyncio
from typing import Any

import pytest
from incases import in_cases

from simloop import (
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
from simloop.check.invariants.judge import Judge
from simloop.check.invariants.subject import Subject
from simloop.messages import Message

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
    found = Judge(Subject(scenario=scenario)).read(result.trace.entries)
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


@pytest.mark.parametrize(
    ("first", "found"), [(Reply(say="A."), ["no-failure-after-an-answer"]), (LOOK, [])]
)
def test_a_run_that_fails_had_its_answer_if_each_agent_had(first: Reply, found: list[str]) -> None:
    async def agent(prompt: str, world: World) -> None:
        for system in ("You write.", "You review."):
            await world.model.reply([UserMessage(prompt)], system_prompt=system)
        raise ValueError("it is Monday")

    reviewer = Party(when={"system": "You review."}, replies=[Reply(say="Good.")])
    scenario = Scenario(prompt="Go.", model=[first], models={"reviewer": reviewer})
    result = run(scenario, loop=agent)
    violations = Judge(Subject(scenario=scenario)).read(result.trace.entries).violations
    assert [each.name for each in violations] == found

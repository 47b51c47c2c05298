"""The bound on the model calls of an agent, which ends one that would never end."""

import asyncio
from contextlib import suppress

import pytest

from simloop import (
    Message,
    ModelCallFailed,
    Reply,
    Scenario,
    ScriptedTool,
    UserMessage,
    World,
    run,
)
from simloop.errors import RunawayRun

FAILING = Scenario(prompt="Go.", model=[Reply(http={"status": 500}, times="always")])


async def retries_for_ever(prompt: str, world: World) -> str:
    while True:
        try:
            return (await world.model.reply([UserMessage(prompt)])).message.text
        except ModelCallFailed:
            await asyncio.sleep(1)


async def calls_until_told_to_end(prompt: str, world: World) -> str:
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = await world.model.reply(messages, tools=world.tools.specs)
        if not reply.message.calls:
            return reply.message.text
        result = await world.tools.run(reply.message.calls[0])
        messages[1:] = [reply.message, result]


def test_an_agent_whose_requests_bring_nothing_new_is_a_runaway() -> None:
    with pytest.raises(RunawayRun, match=r"no progress: after 400 requests.*set max_transitions"):
        run(FAILING, loop=retries_for_ever)


def test_a_scenario_that_states_the_bound_lets_its_requests_bring_nothing_new() -> None:
    async def gives_up(prompt: str, world: World) -> str:
        for _ in range(600):
            with suppress(ModelCallFailed):
                await world.model.reply([UserMessage(prompt)])
        return "No."

    assert run(FAILING.model_copy(update={"max_transitions": 600}), loop=gives_up).text == "No."
    with pytest.raises(RunawayRun, match="passed max_transitions=599 requests"):
        run(FAILING.model_copy(update={"max_transitions": 599}), loop=gives_up)


def test_an_agent_that_swallows_all_but_its_cancellation_is_ended_all_the_same() -> None:
    async def swallows(prompt: str, world: World) -> str:
        while True:
            try:
                await world.model.reply([UserMessage(prompt)])
            except Exception:  # noqa: BLE001 - that is the defect
                await asyncio.sleep(1)

    with pytest.raises(RunawayRun, match="no progress"):
        run(FAILING, loop=swallows)


@pytest.mark.slow
def test_a_tool_that_returns_something_new_is_progress() -> None:
    answers = iter(range(6_000))

    def look() -> int:
        return next(answers)

    async def looks(prompt: str, world: World) -> str:
        while True:
            reply = await world.model.reply([UserMessage(prompt)], tools=world.tools.specs)
            result = await world.tools.run(reply.message.calls[0])
            if result.text == "5999":
                return result.text

    scenario = Scenario(prompt="Go.", model=[Reply(call={"look": {}}, times="always")])
    assert run(scenario, tools=[look], loop=looks).text == "5999"


def test_max_transitions_bounds_the_requests_of_an_agent() -> None:
    tools = {"look": ScriptedTool(returns="a tree")}
    model = [Reply(call={"look": {}}, times="always")]
    scenario = Scenario(prompt="Go.", tools=tools, model=model, max_transitions=3)
    with pytest.raises(RunawayRun, match="passed max_transitions=3 requests"):
        run(scenario, loop=calls_until_told_to_end)

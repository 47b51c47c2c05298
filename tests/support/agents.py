"""Agents with a short script, and what their runs tell."""

import asyncio
from typing import Any

import msgspec

from simloop import Scenario
from simloop.cursor.recorded_run import RecordedRun, Waits
from simloop.messages import AssistantMessage, Message, ToolMessage, ToolSpec, UserMessage
from simloop.runs.run import Simulation
from simloop.world.model_port import ModelCallFailed
from simloop.world.world import World

LOOKUP = ToolSpec(
    "lookup",
    "Look an order up.",
    msgspec.Raw(b'{"type":"object","properties":{"order":{"type":"string"}}}'),
)


async def agent(prompt: str, world: World) -> str:
    """Ask the model, sleep after a failure, and answer its calls: no call leaves an entry."""
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        try:
            reply = await world.model.reply(messages, system_prompt="A shop.", tools=[LOOKUP])
        except ModelCallFailed:
            await asyncio.sleep(2)
            continue
        if not reply.message.calls:
            return reply.message.text
        messages.append(AssistantMessage(reply.message.text, reply.message.calls))
        for call in reply.message.calls:
            await asyncio.sleep(0.3)
            messages.append(ToolMessage(call.id, "shipped"))


SHOP: dict[str, Any] = {
    "title": "Where the order is",
    "prompt": "Where is order 17?",
    "model": [
        {
            "say": "Let me look that order up.",
            "call": {"lookup": {"order": "17"}},
            "pace": {"first_part": "400ms", "per_part": "40ms"},
        },
        {"say": "It is on its way."},
    ],
}


def of_shop(*before: dict[str, Any], **expect: Any) -> RecordedRun:
    """The run of the agent, watched; its model fails with the replies `before`, if any."""
    given = {**SHOP, "model": [*before, *SHOP["model"]], "expect": expect}
    simulation = Simulation(Scenario.model_validate(given), loop=agent)
    waits = Waits()
    waits.watch(simulation)
    simulation.run()
    made = RecordedRun.of_run(simulation, simulation.trace, {"loop": agent})
    made.waits = waits
    return made

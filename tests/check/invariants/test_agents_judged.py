"""Correct agents that declare nothing, under all invariants."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from gathering import gathering
from windowed import Windowed

from simloop import Scenario, Simulation, World, parse_scenario
from simloop.check.invariants.judge import Judge
from simloop.check.invariants.subject import Subject
from simloop.errors import SimloopError
from simloop.messages import Message, ToolMessage, UserMessage
from simloop.runs.plan import Plan
from simloop.scenario.catalog import bundled
from simloop.scenario.loader import load_scenario
from simloop.trace.requests import requests


def judged(simulation: Simulation) -> Judge:
    with suppress(SimloopError):  # the script was written for another loop
        simulation.run()
    return Judge(Subject.of(simulation)).read(simulation.trace.entries)


@pytest.mark.slow
@pytest.mark.parametrize("agent", [gathering, Windowed])
def test_a_correct_agent_violates_nothing_in_any_bundled_scenario(agent: Any) -> None:
    played, found = 0, []
    for listed in bundled():
        try:
            simulation = Simulation(Plan(load_scenario(listed.path), {"loop": agent}))
        except SimloopError:
            continue  # it needs what only a machine has
        played += 1
        found += [(listed.name, str(each)) for each in judged(simulation).violations]
    assert played > 100
    assert found == []


class Lossy(Windowed):
    """It forgets what a tool returned if the user stops it."""

    async def act(self, reply: Any, world: World) -> None:
        try:
            await super().act(reply, world)
        except asyncio.CancelledError:
            stopped = [ToolMessage(call.id, "Stopped.", is_error=True) for call in reply.calls]
            self.turns[-1] = [reply, *stopped]
            raise


STOPPED = """
prompt: Go.
then: ["And?"]
tools: {look: {returns: seen}, wait: {takes: 1m}}
abort: {at: 1s}
model: [{call: [{look: {}}, {wait: {}}]}, {say: Done.}]
"""


@pytest.mark.parametrize(
    ("agent", "names"), [(Windowed, []), (Lossy, ["sent-result-matches-tool-result"])]
)
def test_an_agent_that_loses_a_result_at_a_stop_is_found_and_its_correct_twin_is_not(
    agent: Any, names: list[str]
) -> None:
    found = judged(Simulation(parse_scenario(STOPPED), loop=agent)).violations
    assert [each.name for each in found] == names


class Summing:
    """It keeps a summary of all but the newest two messages; the request for it has no more."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, prompt: str, world: World) -> None:
        self.messages.append(UserMessage(prompt))
        while True:
            await self.shorten(world)
            reply = (await world.model.reply(self.messages, tools=world.tools.specs)).message
            self.messages.append(reply)
            if not reply.calls:
                return
            self.messages += [await world.tools.run(call) for call in reply.calls]

    async def shorten(self, world: World) -> None:
        older, newest = self.messages[:-2], self.messages[-2:]
        if older and not isinstance(newest[0], ToolMessage):
            asked = await world.model.reply([*older, UserMessage("Sum that up.")])
            self.messages = [UserMessage(f"So far: {asked.message.text}"), *newest]


SUMMED = """
prompt: Go.
then: ["And?"]
tools: {look: {returns: seen}}
model: [{call: {look: {}}}, {say: They look.}, {say: Seen.}, {say: They saw.}, {say: Done.}]
"""


def test_a_summary_of_older_messages_lacks_neither_the_newest_reply_nor_the_prompt() -> None:
    simulation = Simulation(parse_scenario(SUMMED), loop=Summing)
    assert [str(each) for each in judged(simulation).violations] == []
    assert [len(each.messages) for each in requests(simulation.trace.entries)] == [1, 2, 3, 4, 3]


class Waiting:
    async def __call__(self, prompt: str) -> None:
        await asyncio.sleep(60)


def test_the_wall_clock_of_an_agent_is_that_of_the_scenario() -> None:
    scenario = Scenario(prompt="Go.", limits={"max_wall_clock": "5s"}, model=[])
    found = judged(Simulation(scenario, loop=Waiting)).violations
    assert [each.name for each in found if each.name == "max-wall-clock-enforced"] == []


class Mistaken:
    async def __call__(self, prompt: str) -> None:
        raise KeyError(prompt)


FAILS, ENDS = {"outcome": "failed"}, {"outcome": "completed"}
ITSELF = f"{__name__}:Mistaken"


@pytest.mark.parametrize(
    ("expect", "expect_on", "names"),
    [
        (FAILS, {}, []),
        (ENDS, {ITSELF: FAILS}, []),
        (FAILS, {ITSELF: ENDS}, ["no-mistake-in-the-code"]),
        (ENDS, {"pi": FAILS}, ["no-mistake-in-the-code"]),
    ],
)
def test_a_mistake_is_none_where_what_holds_for_the_loop_expects_it(
    expect: Any, expect_on: Any, names: list[str]
) -> None:
    scenario = Scenario(prompt="Go.", model=[], expect=expect, expect_on=expect_on)
    found = judged(Simulation(scenario, loop=Mistaken)).violations
    assert [each.name for each in found] == names

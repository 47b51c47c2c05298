"""A loop answers alike for a machine and an agent: what it lacks, its policies, its agent."""

import asyncio
from typing import Any, ClassVar

import pytest

from simloop import ExponentialBackoff, Limits, Reply, Scenario, ScenarioError, run
from simloop.check.invariants.subject import Subject
from simloop.check.trial import verify
from simloop.engine.machine_agent import MachineAgent
from simloop.engine.settings import EngineSettings
from simloop.kernel.limits import DeclaredLimits
from simloop.kernel.machine import Feature
from simloop.kernel.policies import Policies
from simloop.loops.pi import PiLoop
from simloop.messages import Message, UserMessage
from simloop.runs.loop import UNSUPPORTED_BY_AGENTS, Loop, loop_of
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.trace.codec import decode, encode
from simloop.trace.requests import requests
from simloop.virtual.simulate import run_virtual
from simloop.world.world import World

SETTINGS = EngineSettings()
ANSWERED = Scenario(prompt="Go.", model=[Reply(say="Done.")])


async def asks(prompt: str, world: World) -> str:
    return (await world.model.reply([UserMessage(prompt)])).message.text


class Asks:
    """An agent that keeps its conversation."""

    def __init__(self, manner: str = "") -> None:
        self.manner = manner
        self.heard: list[str] = []

    async def __call__(self, prompt: str) -> str:
        self.heard.append(prompt)
        return f"{self.manner}{len(self.heard)}"


def chosen(loop: Any, **options: Any) -> Loop:
    return loop_of(ANSWERED, {"loop": loop, "loop_options": options})


async def text_of(agent: Any) -> str:
    return str(await agent._agent("Go.", None))


def answers(*agents: Any) -> list[str]:
    return [run_virtual(text_of(agent)) for agent in agents]


class Declaring(PiLoop):
    """It counts how often it is asked for its deviations."""

    asked = 0

    @property
    def deviations(self) -> dict[str, str]:
        self.asked += 1
        return {}


def test_a_machine_is_asked_once_for_its_declarations_by_all_runs_of_a_plan() -> None:
    machine = Declaring(Limits())
    plan = Plan(ANSWERED, {"loop": machine})
    asked = machine.asked
    subjects = [Subject.of(Simulation(plan)) for _ in range(3)]
    assert [subject.machine for subject in subjects] == [machine] * 3
    assert machine.asked <= asked + 1


def test_the_loop_of_a_machine_lacks_what_its_machine_lacks() -> None:
    machine = PiLoop(Limits())
    loop = chosen(machine)
    assert (loop.machine, loop.policies) == (machine, machine.policies)
    assert loop.unsupported == machine.unsupported != chosen("react").unsupported
    agent = loop.agent(SETTINGS)
    assert isinstance(agent, MachineAgent)
    assert loop.agent(SETTINGS) is not agent


def test_an_agent_lacks_each_feature_that_only_the_engine_has_with_a_reason() -> None:
    loop = chosen(asks)
    assert loop.unsupported is UNSUPPORTED_BY_AGENTS
    assert set(loop.unsupported) == set(Feature) - {Feature.ABORT}
    assert all(reason.startswith("an agent of your own ") for reason in loop.unsupported.values())
    assert (loop.machine, loop.policies) == (None, Policies())


def test_an_object_keeps_its_conversation() -> None:
    kept = Asks()
    loop = chosen(kept)
    assert answers(loop.agent(SETTINGS), loop.agent(SETTINGS)) == ["1", "2"]
    assert kept.heard == ["Go.", "Go."]


def test_a_class_and_a_factory_make_an_agent_for_each_conversation_with_the_options() -> None:
    def makes(*, manner: str = "") -> Asks:
        return Asks(manner)

    for made in (Asks, makes):
        loop = chosen(made, manner="!")
        first = loop.agent(SETTINGS)
        assert answers(first, first, loop.agent(SETTINGS)) == ["!1", "!2", "!1"]


def test_a_constructor_that_fails_is_an_error_of_the_loop_that_is_named() -> None:
    def breaks() -> Asks:
        raise ValueError("no key")

    with pytest.raises(ScenarioError, match=r"the agent `.*breaks` cannot be made.*no key"):
        chosen(breaks).agent(SETTINGS)


def test_a_factory_that_makes_no_agent_is_an_error_that_says_what_it_makes() -> None:
    with pytest.raises(ScenarioError, match="returns str, which is not an agent"):
        chosen(lambda: "mine").check()


# ---------------------------------------------------------------------- alike above the design


async def asks_in_pairs(prompt: str, world: World) -> str:
    """Hold two conversations at once, one of them with tools, and give one reply up."""
    first: list[Message] = [UserMessage(prompt)]
    second: list[Message] = [UserMessage(prompt), UserMessage("Is it allowed?")]
    replies = await asyncio.gather(world.model.reply(first), world.model.reply(second))
    for reply in replies:
        first.append(reply.message)
        first += [await world.tools.run(call) for call in reply.message.calls]
    given_up = world.model.stream(first)
    async for _ in given_up:
        break
    await given_up.aclose()
    return (await world.model.reply([*first, UserMessage("And?")])).message.text


def look() -> str:
    return "found"


def test_the_trace_of_an_agent_with_calls_at_once_and_replies_given_up_reads_back() -> None:
    replies = [
        Reply(say="One.", call={"look": {}}, pace={"first_part": "2s"}),
        Reply(say=["Two ", "parts."], pace={"per_part": "1s"}),
        Reply(say=["Given ", "up."], pace={"per_part": "1s"}),
        Reply(say="Done."),
    ]
    simulation = Simulation(
        Scenario(prompt="Go.", then=["Again."], model=[*replies, *replies]),
        loop=asks_in_pairs,
        tools=[look],
    )
    result = simulation.run()
    read = decode(encode(result.trace))
    assert read.entries == result.trace.entries
    assert [list(each.messages) for each in requests(read.entries)] == [
        list(each.messages)
        for each in simulation.model.requests  # type: ignore[attr-defined]
    ]
    assert result.text == "Done."


def test_a_machine_and_an_agent_that_do_the_same_leave_the_same_boundary() -> None:
    def boundary(loop: Any) -> list[tuple[str, Any]]:
        record = run(ANSWERED, loop=loop).trace.entries
        names = ("text", "reason", "outcome", "purpose")
        kinds = ("prompt", "request", "text-delta", "finish", "ended")
        return [
            (kind, [getattr(entry, name, None) for name in names])
            for entry in record
            if (kind := str(type(entry).__struct_config__.tag)) in kinds
        ]

    assert boundary(asks) == boundary("react")


class Declares(Asks):
    limits = Limits(max_steps=4)
    retry = ExponentialBackoff(jitter=0.5)
    deviations: ClassVar = {"answered-calls": "the provider accepts open calls"}


class HasOthers:
    """Its attributes have the names of declarations, and mean something else."""

    limits: ClassVar = {"max_steps": 4}
    retry = 7
    deviations: ClassVar = ["answered-calls"]

    async def __call__(self, prompt: str, world: World) -> str:
        return await asks(prompt, world)


def test_an_agent_declares_by_attributes() -> None:
    loop = chosen(Declares)
    assert loop.declared_limits == DeclaredLimits(max_steps=4)
    assert loop.retry is Declares.retry
    assert set(loop.deviations) == {"answered-calls"}


class UsualLimits(Asks):
    limits = Limits()


@pytest.mark.parametrize("loop", [UsualLimits, HasOthers])
def test_usual_limits_and_attributes_of_another_type_declare_nothing(loop: Any) -> None:
    undeclared = chosen(loop)
    assert (undeclared.declared_limits, undeclared.retry, undeclared.deviations) == (None, None, {})
    assert verify(ANSWERED, loop=HasOthers).errors == []

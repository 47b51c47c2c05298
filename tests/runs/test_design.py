"""A design answers alike for a machine and for an agent: what it lacks, its policies, its agent."""

import asyncio
from typing import Any, ClassVar

import pytest

from simloop import ExponentialBackoff, Limits, Reply, Scenario, ScenarioError, run
from simloop.check.invariants.subject import Subject
from simloop.check.verify import verify
from simloop.engine.machine_agent import MachineAgent
from simloop.engine.settings import EngineSettings
from simloop.kernel.limits import DeclaredLimits
from simloop.kernel.machine import Feature
from simloop.kernel.policies import Policies
from simloop.loops.pi import PiLoop
from simloop.loops.react import ReactLoop
from simloop.messages import Message, UserMessage
from simloop.runs.design import (
    UNSUPPORTED_BY_AGENTS,
    AgentDesign,
    Declared,
    Design,
    MachineDesign,
)
from simloop.runs.plan import Plan
from simloop.runs.prepared import PreparedRun
from simloop.runs.simulation import Simulation
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


def agent_design(made: Any, **options: Any) -> AgentDesign:
    return AgentDesign(made, "mine", options)


def answer_of(agent: Any, prompt: str = "Go.") -> Any:
    return run_virtual(agent(prompt, None))


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
    subjects = [Subject.of(PreparedRun(plan)) for _ in range(3)]
    assert [subject.machine for subject in subjects] == [machine] * 3
    assert machine.asked <= asked + 1


def test_a_machine_design_is_that_of_its_machine() -> None:
    machine = PiLoop(Limits())
    design: Design = MachineDesign(machine)
    assert design.unsupported == machine.unsupported
    assert design.policies is machine.policies
    assert MachineDesign(ReactLoop()).unsupported != design.unsupported
    agent = design.agent(SETTINGS)
    assert isinstance(agent, MachineAgent)
    assert design.agent(SETTINGS) is not agent


def test_an_agent_lacks_each_feature_that_only_the_engine_has_with_a_reason() -> None:
    design: Design = agent_design(asks)
    assert design.unsupported is UNSUPPORTED_BY_AGENTS
    assert set(design.unsupported) == set(Feature) - {Feature.ABORT}
    assert all(reason.startswith("an agent of your own ") for reason in design.unsupported.values())
    assert design.policies == Policies()


def test_a_function_is_the_agent_itself_and_an_object_keeps_its_conversation() -> None:
    assert agent_design(asks).agent(SETTINGS) is asks
    kept = Asks()
    design = agent_design(kept)
    assert [answer_of(design.agent(SETTINGS)) for _ in range(2)] == ["1", "2"]
    assert kept.heard == ["Go.", "Go."]


def test_a_class_and_a_factory_make_an_agent_for_each_conversation_with_the_options() -> None:
    def makes(*, manner: str = "") -> Asks:
        return Asks(manner)

    for made in (Asks, makes):
        design = agent_design(made, manner="!")
        first = design.agent(SETTINGS)
        assert [answer_of(first), answer_of(first)] == ["!1", "!2"]
        assert answer_of(design.agent(SETTINGS)) == "!1"


def test_a_constructor_that_fails_is_an_error_of_the_loop_that_is_named() -> None:
    def breaks() -> Asks:
        raise ValueError("no key")

    with pytest.raises(ScenarioError, match=r"the agent `mine` cannot be made.*no key"):
        agent_design(breaks).agent(SETTINGS)


def test_a_factory_that_makes_no_agent_is_an_error_that_says_what_it_makes() -> None:
    with pytest.raises(ScenarioError, match="returns str, which is not an agent"):
        agent_design(lambda: "mine").agent(SETTINGS)


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
        for each in simulation.prepared.model.requests  # type: ignore[attr-defined]
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
    declared = agent_design(Declares).declared
    assert declared.limits == DeclaredLimits(max_steps=4)
    assert declared.retry is Declares.retry
    assert set(declared.deviations) == {"answered-calls"}


class UsualLimits(Asks):
    limits = Limits()


def test_an_agent_that_sets_no_limit_declares_none() -> None:
    assert agent_design(UsualLimits).declared == Declared()


def test_an_attribute_of_another_type_declares_nothing() -> None:
    assert agent_design(HasOthers).declared == Declared()
    assert verify(ANSWERED, loop=HasOthers).errors == []

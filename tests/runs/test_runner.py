"""A runner gives each seed the run that `simloop.run` gives it."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from simloop import (
    Deadlock,
    Limits,
    Reply,
    Request,
    Runner,
    Scenario,
    ScenarioError,
    UserMessage,
    World,
    run,
)
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.loops.reference import ReferenceLoop
from simloop.runs.result import Result
from simloop.scenario.loader import parse_scenario
from simloop.trace.codec import encode

LOOK = Reply(say="I look.", call={"look": {}})
DONE = Reply(say="Done.")


def look() -> str:
    return f"{random.random()} {time.time()}"


class Counting:
    """An agent that would tell whether it has run before."""

    def __init__(self) -> None:
        self.prompts = 0

    async def __call__(self, prompt: str, world: World) -> str:
        self.prompts += 1
        reply = await world.model.reply([UserMessage(f"{prompt} {self.prompts}")])
        return reply.message.text


async def asking(prompt: str, world: World) -> str:
    reply = await world.model.reply([UserMessage(f"{prompt} {random.random()}")])
    return reply.message.text


CASES: dict[str, Callable[[], tuple[Scenario, dict[str, Any]]]] = {
    "a script alone": lambda: (Scenario(prompt="Go.", model=[DONE]), {}),
    "a tool that draws": lambda: (Scenario(prompt="Go.", model=[LOOK, DONE]), {"tools": [look]}),
    "a loop by name": lambda: (Scenario(prompt="Go.", model=[DONE]), {"loop": "pi"}),
    "a model that draws": lambda: (
        Scenario(prompt="Go."),
        {"model": lambda _: f"{random.random()}"},
    ),
    "a machine's class": lambda: (Scenario(prompt="Go.", model=[DONE]), {"loop": ReferenceLoop}),
    "an agent's class": lambda: (Scenario(prompt="Go.", model=[DONE]), {"loop": Counting}),
    "an agent's function": lambda: (Scenario(prompt="Go.", model=[DONE]), {"loop": asking}),
    "hooks of a script": lambda: (
        parse_scenario(
            "prompt: Go.\ntools: {look: {returns: seen}}\n"
            "hooks: [{at: before_tool_call, nth: 1, block: no}]\n"
            "model: [{call: {look: {}}}, {call: {look: {}}}, {say: Done.}]"
        ),
        {},
    ),
    "files that are written": lambda: (
        parse_scenario(
            "prompt: Go.\nfiles: {a.txt: A}\n"
            "model: [{call: {WriteFile: {path: b.txt, content: B}}}, {say: Done.}]"
        ),
        {},
    ),
    "faults of chance": lambda: (
        parse_scenario(
            "prompt: Go.\nfaults: {activate: 1.0, fire: 0.5, sites: [tool.raises, tool.slow]}\n"
            "tools: {look: {returns: seen, takes: 1s}}\n"
            "model: [{call: {look: {}}, times: 6}, {say: Done.}]"
        ),
        {},
    ),
    "a seed and a limit": lambda: (
        Scenario(prompt="Go.", seed=9, limits=Limits(max_steps=4), model=[DONE]),
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kept", [False, True])
def test_each_seed_has_the_run_that_it_has_alone(name: str, kept: bool) -> None:  # noqa: FBT001 - a case
    scenario, given = CASES[name]()
    seeds = [None, 0, 3, 1, 3]
    alone = [run(scenario, **{**given, "seed": seed}) for seed in seeds]
    runner = Runner(scenario, **given)
    if kept:
        with runner:
            together = [runner.run(seed) for seed in seeds]
    else:
        together = [runner.run(seed) for seed in seeds]
    assert [encode(each.trace) for each in together] == [encode(each.trace) for each in alone]
    assert list(map(judged, together)) == list(map(judged, alone))


def judged(result: Result) -> tuple[object, ...]:
    return (
        result.outcome,
        result.text,
        result.elapsed_ns,
        result.messages,
        result.files,
        result.unused_places,
        result.failures,
        result.reproduce,
    )


def test_a_runner_without_a_seed_takes_that_of_the_options_and_then_of_the_scenario() -> None:
    scenario = Scenario(prompt="Go.", seed=9, model=[DONE])
    assert Runner(scenario).run().trace.header.seed == 9
    assert Runner(scenario, seed=7).run().trace.header.seed == 7
    assert Runner(scenario, seed=7).run(0).trace.header.seed == 0


def test_a_runner_is_as_good_after_a_run_that_failed() -> None:
    async def stuck() -> None:
        if len(asked) == 2:
            await asyncio.get_running_loop().create_future()

    def model(_: Request) -> Any:
        asked.append(1)
        return LOOK if len(asked) % 3 == 2 else "Done."

    asked: list[int] = []
    before = time.time
    with Runner(Scenario(prompt="Go."), model=model, tools={"look": stuck}) as runner:
        first = runner.run(4)
        with pytest.raises(Deadlock) as stopped:
            runner.run(4)
        assert "seed=4" in str(stopped.value.reproduce)
        asked.clear()
        again = runner.run(4)
    assert encode(first.trace) == encode(again.trace)
    assert time.time is before


def test_a_scenario_that_cannot_run_is_refused_before_the_first_run() -> None:
    with pytest.raises(ScenarioError, match="there is no loop `none`"):
        Runner(Scenario(prompt="Go.", model=[DONE]), loop="none")
    with pytest.raises(ScenarioError, match="a run needs a Scenario, not str"):
        Runner("scenario.yaml")  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="there is no argument `tool`"):
        Runner(Scenario(prompt="Go.", model=[DONE]), tool=[look])  # type: ignore[call-arg]


def test_later_changes_of_tools_and_of_a_scenario_have_no_effect_on_a_runner() -> None:
    def other() -> str:
        return "other"

    tools = {"look": lambda: "seen"}
    scenario = Scenario(prompt="Go.", model=[LOOK, DONE])
    runner = Runner(scenario, tools=tools)
    first = runner.run()
    tools["look"] = other
    scenario.model.insert(0, LOOK)
    scenario.then.append("Go on.")
    assert encode(runner.run().trace) == encode(first.trace)
    scenario.model.append(DONE)
    changed = run(scenario, tools=tools)
    assert [call.name for call in changed.calls] == ["look", "look"]
    assert encode(changed.trace) != encode(first.trace)


def test_a_machine_of_the_users_own_is_made_for_each_run() -> None:
    made: list[Limits] = []

    class Mine(ReferenceLoop):
        def __init__(self, limits: Limits) -> None:
            super().__init__(limits)
            made.append(limits)
            self.steps = 0

        def advance(self, run: Run, signal: Signal) -> Transition:
            self.steps += 1
            assert self.steps < 10, "it keeps something from the run before"
            return super().advance(run, signal)

    runner = Runner(Scenario(prompt="Go.", model=[DONE]), loop=Mine)
    before = len(made)
    assert [runner.run(seed).outcome for seed in range(4)] == ["completed"] * 4
    assert len(made) == before + 4

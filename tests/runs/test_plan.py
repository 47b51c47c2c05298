"""A plan: a run uses nothing of the runs before it, and a plan plays another script."""

import subprocess
from collections.abc import Callable

import pytest

from simloop import (
    Program,
    Queued,
    Reply,
    Request,
    Scenario,
    ScenarioError,
    Simulation,
    ToolMessage,
    Trigger,
    run,
)
from simloop.runs.plan import Plan
from simloop.trace.entries import AnyEntry

DONE = Reply(say="Done.")
LOOK = Reply(say="I look.", call={"look": {}})


def look() -> str:
    return "seen"


def other() -> str:
    return "other"


def scenario() -> Scenario:
    return Scenario(prompt="Go.", model=[DONE])


def test_a_mapping_of_tools_may_change_between_runs() -> None:
    world = Scenario(prompt="Go.", model=[LOOK, DONE])
    tools: dict[str, Callable[[], str]] = {"look": look}
    texts = []
    for function in (look, other, look):
        tools["look"] = function
        result = run(world, tools=tools)
        texts += [each.text for each in result.messages if isinstance(each, ToolMessage)]
    assert texts == ["seen", "other", "seen"]


def test_a_reply_that_is_put_in_the_place_of_another_is_played() -> None:
    world = scenario()
    texts = []
    for text in ("One.", "Two.", "Two.", "Three."):
        world.model[0] = Reply(say=text)
        texts.append(run(world).text)
    assert texts == ["One.", "Two.", "Two.", "Three."]


def test_a_model_with_a_state_goes_on_from_run_to_run() -> None:
    class Counting:
        def __init__(self) -> None:
            self.asked = 0

        def __call__(self, _: Request) -> str:
            self.asked += 1
            return f"{self.asked}"

    model, world = Counting(), Scenario(prompt="Go.")
    assert [run(world, model=model).text for _ in range(3)] == ["1", "2", "3"]


def test_a_wrong_option_is_refused_also_after_a_run_of_that_scenario() -> None:
    world = scenario()
    run(world)
    with pytest.raises(ScenarioError, match="there is no argument `sed`"):
        run(world, sed=1)  # type: ignore[call-arg]
    with pytest.raises(ScenarioError, match="the seed is -1"):
        run(world, seed=-1)


# ---------------------------------------------------------------------- another script

FIRST = Scenario(
    prompt="Go.",
    model=[Reply(say="Done.")],
    tools={"look": {"returns": "seen"}},
    retry={"initial_delay": "5s", "jitter": 0.5},
)
OTHER = FIRST.model_copy(
    update={
        "prompt": "Go on.",
        "then": ["And on."],
        "model": [Reply(http={"status": 500}), Reply(call={"look": {}}, times="always")],
        "queue": [Queued(after="tool-result", say="Listen.")],
        "abort": Trigger(after="tool-started", nth=3),
        "seed": 5,
    }
)


def record(plan: Plan) -> list[AnyEntry]:
    prepared = Simulation(plan)
    prepared.on_clock(prepared.converse())
    return prepared.trace.entries


def test_a_plan_plays_another_script_as_a_plan_of_that_script_does() -> None:
    plan = Plan(FIRST, {})
    assert record(plan.playing(OTHER)) == record(Plan(OTHER, {}))
    assert record(plan) == record(Plan(FIRST, {})), "the plan itself has not changed"


def test_a_plan_plays_other_programs_as_a_plan_of_them_does() -> None:
    def agent(prompt: str) -> str:
        done = subprocess.run(["git"], capture_output=True, check=False)
        return f"{done.returncode} {done.stdout!r}"

    first = Scenario(prompt="Go.", programs={"git": Program(stdout="a")})
    other = first.model_copy(update={"programs": {"git": Program(signal="SIGKILL")}})
    plan = Plan(first, {"loop": agent})
    assert record(plan.playing(other)) == record(Plan(other, {"loop": agent}))
    assert record(plan) != record(plan.playing(other))

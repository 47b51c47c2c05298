"""A run uses the plan of the run before only if nothing but the seed differs."""

from collections.abc import Callable
from typing import Any

import pytest

from simloop import Hooks, Reply, Request, Scenario, ScenarioError, Tool, ToolMessage, run
from simloop.loops.reference import ReferenceLoop
from simloop.runs.last_plan import plan_of
from simloop.trace.codec import encode

DONE = Reply(say="Done.")
LOOK = Reply(say="I look.", call={"look": {}})


def look() -> str:
    return "seen"


def other() -> str:
    return "other"


def scenario() -> Scenario:
    return Scenario(prompt="Go.", model=[DONE])


def test_runs_that_differ_in_the_seed_alone_share_a_plan() -> None:
    world, hooks = scenario(), Hooks(before_llm_call=[lambda _: None])
    plan = plan_of(world, {"tools": [look], "hooks": hooks})
    assert plan_of(world, {"tools": [look], "hooks": hooks}) is plan
    assert plan_of(world, {"tools": [look], "hooks": hooks, "seed": 3}) is plan
    assert plan_of(world, {"seed": 4, "loop": None, "tools": (look,), "hooks": hooks}) is plan


def test_a_seed_does_not_stay_in_a_shared_plan() -> None:
    world = Scenario(prompt="Go.", seed=2, model=[DONE])
    seeds = [run(world, seed=each).trace.header.seed for each in (7, None, 0, None)]
    assert seeds == [7, 2, 0, 2]


CHANGES: dict[str, Callable[[Scenario], dict[str, Any]]] = {
    "another tool": lambda _: {"tools": [other]},
    "another tool of that name": lambda _: {"tools": [Tool(other, name="look")]},
    "a tool more": lambda _: {"tools": [look, other]},
    "tools by name": lambda _: {"tools": {"see": look}},
    "no tool": lambda _: {},
    "a loop": lambda _: {"tools": [look], "loop": "pi"},
    "hooks": lambda _: {"tools": [look], "hooks": Hooks()},
    "a reply more": lambda world: changed(world.model.append, DONE),
    "a prompt more": lambda world: changed(world.then.append, "Go on."),
    "a path": lambda world: changed(world.read_from, "other.yaml"),
}


def changed(change: Callable[[Any], object], value: object) -> dict[str, Any]:
    change(value)
    return {"tools": [look]}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_scenario_or_of_an_option_makes_another_plan(name: str) -> None:
    world = scenario()
    plan = plan_of(world, {"tools": [look]})
    given = CHANGES[name](world)
    another = plan_of(world, given)  # type: ignore[arg-type]
    assert another is not plan
    assert plan_of(world, given) is another  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"tools": iter([])},
        {"loop": ReferenceLoop},
        {"loop": ReferenceLoop()},
        {"loop_options": {}},
        {"expect_on": {}},
    ],
    ids=["iterator", "class", "machine", "options", "expectations"],
)
def test_what_may_differ_without_being_another_object_is_planned_for_each_run(given: Any) -> None:
    world = scenario()
    assert plan_of(world, given) is not plan_of(world, given)


def test_an_equal_scenario_that_is_another_object_has_its_own_plan() -> None:
    assert plan_of(scenario(), {}) is not plan_of(scenario(), {})


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


def test_a_model_with_a_state_goes_on_from_run_to_run_as_it_does_without_a_shared_plan() -> None:
    class Counting:
        def __init__(self) -> None:
            self.asked = 0

        def __call__(self, _: Request) -> str:
            self.asked += 1
            return f"{self.asked}"

    model, world = Counting(), Scenario(prompt="Go.")
    assert [run(world, model=model).text for _ in range(3)] == ["1", "2", "3"]


def test_a_wrong_option_is_refused_also_where_a_plan_is_at_hand() -> None:
    world = scenario()
    run(world)
    with pytest.raises(ScenarioError, match="a seed is a whole number"):
        run(world, seed="x")  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="there is no argument `sed`"):
        run(world, sed=1)  # type: ignore[call-arg]
    with pytest.raises(ScenarioError, match="the seed is -1"):
        run(world, seed=-1)


def test_a_run_of_a_shared_plan_leaves_the_trace_that_a_first_run_leaves() -> None:
    world = Scenario(prompt="Go.", model=[LOOK, DONE])
    first = encode(run(world, tools=[look], seed=3).trace)
    again = encode(run(world, tools=[look], seed=3).trace)
    alone = encode(run(world.model_copy(deep=True), tools=[look], seed=3).trace)
    assert first == again == alone

"""A run uses nothing of the runs before it, whatever has changed since."""

from collections.abc import Callable

import pytest

from simloop import Reply, Request, Scenario, ScenarioError, ToolMessage, run
from simloop.trace.codec import encode

DONE = Reply(say="Done.")
LOOK = Reply(say="I look.", call={"look": {}})


def look() -> str:
    return "seen"


def other() -> str:
    return "other"


def scenario() -> Scenario:
    return Scenario(prompt="Go.", model=[DONE])


def test_a_seed_stays_in_its_own_run() -> None:
    world = Scenario(prompt="Go.", seed=2, model=[DONE])
    seeds = [run(world, seed=each).trace.header.seed for each in (7, None, 0, None)]
    assert seeds == [7, 2, 0, 2]


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
    with pytest.raises(ScenarioError, match="a seed is a whole number"):
        run(world, seed="x")  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="there is no argument `sed`"):
        run(world, sed=1)  # type: ignore[call-arg]
    with pytest.raises(ScenarioError, match="the seed is -1"):
        run(world, seed=-1)


def test_a_second_run_leaves_the_trace_that_a_first_run_leaves() -> None:
    world = Scenario(prompt="Go.", model=[LOOK, DONE])
    first = encode(run(world, tools=[look], seed=3).trace)
    again = encode(run(world, tools=[look], seed=3).trace)
    alone = encode(run(world.model_copy(deep=True), tools=[look], seed=3).trace)
    assert first == again == alone

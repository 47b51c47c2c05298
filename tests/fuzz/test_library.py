import pytest

from simloop import Limits, Reply, Scenario
from simloop.fuzz.library import bundled_scenarios, world_of
from simloop.fuzz.replies import LAST, LAST_SUMMARY, TOOLS
from simloop.fuzz.settings import Abilities
from simloop.runs.design import UNSUPPORTED_BY_AGENTS

AGENT = Abilities(UNSUPPORTED_BY_AGENTS, has_engine=False, ends=False)


@pytest.mark.slow
def test_most_bundled_scenarios_are_worlds_of_the_reference_loop() -> None:
    scenarios = list(bundled_scenarios())
    worlds = [world_of(each, Abilities(), "reference") for each in scenarios]
    assert len([each for each in worlds if each is not None]) > 0.7 * len(scenarios)
    assert all(each.model[-1] == LAST or each.model for each in worlds if each is not None)


def test_a_world_expects_nothing_and_names_no_file() -> None:
    scenario = next(bundled_scenarios())
    world = world_of(scenario, Abilities(), "react")
    assert world is not None
    assert (world.path, world.loop, world.title) == ("", "react", "")
    assert not world.expect_on
    assert world.expect == type(world.expect)()
    assert set(TOOLS) <= set(world.tools)


def test_the_model_of_a_world_answers_every_request() -> None:
    world = world_of(Scenario(prompt="Go.", model=[Reply(say="A.")]), Abilities(), "reference")
    assert world is not None
    assert world.model == [Reply(say="A."), LAST]
    assert world.summaries == [LAST_SUMMARY]


def test_the_model_of_a_world_answers_an_agent_that_asks_for_summaries() -> None:
    world = world_of(Scenario(prompt="Go.", model=[Reply(say="A.")]), AGENT, "reference")
    assert world is not None
    assert world.summaries == [LAST_SUMMARY]


def test_a_reply_that_plays_for_ever_is_bounded_for_a_loop_that_may_not_end() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(call={"look": {}}, times="always")])
    endless = world_of(scenario, AGENT, "reference")
    ends = world_of(scenario, Abilities(), "reference")
    assert endless is not None
    assert ends is not None
    assert [each.times for each in endless.model] == [3, "always"]
    assert [each.times for each in ends.model] == ["always"]


def test_a_scenario_in_which_something_waits_for_ever_is_left_out() -> None:
    hangs = Scenario(prompt="Go.", model=[Reply(say="A.")], tools={"look": {"hangs": True}})
    stalls = Scenario(prompt="Go.", model=[Reply(stall="before-headers")])
    for scenario, abilities in ((hangs, Abilities()), (stalls, AGENT)):
        assert world_of(scenario, abilities, "reference") is None
        bounded = scenario.model_copy(update={"limits": Limits(max_wall_clock_ms=5_000)})
        assert world_of(bounded, abilities, "reference") is not None


def test_a_scenario_that_expects_an_error_of_the_run_is_left_out() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(say="A.")], expect={"error": "RunawayRun"})
    assert world_of(scenario, Abilities(), "reference") is None

import pytest
from searching import charges

from simloop import Limits, Reply, Scenario, ScenarioError
from simloop.fuzz import scripts
from simloop.fuzz.choices import SeededChoices
from simloop.fuzz.replies import LAST, LAST_SUMMARY, TOOLS
from simloop.fuzz.search import Search
from simloop.fuzz.settings import Abilities
from simloop.fuzz.variation import base_of, varied
from simloop.runs.loop import UNSUPPORTED_BY_AGENTS

AGENT = Abilities(UNSUPPORTED_BY_AGENTS, has_engine=False, ends=False)
ORDER = Scenario(
    prompt="Charge the card.",
    title="An order",
    tools={"charge": {"returns": "charged"}},
    model=[Reply(call={"charge": {}}), Reply(say="Charged.")],
    expect={"text": "Charged."},
)


def test_a_base_expects_nothing_and_its_model_answers_every_request() -> None:
    base = base_of(ORDER, Abilities(), "reference")
    assert (base.title, base.expect, base.expect_on) == ("", type(base.expect)(), {})
    assert set(base.tools) == {*TOOLS, "charge"}
    assert base.model == [*ORDER.model, LAST]
    assert base.summaries == [LAST_SUMMARY]
    assert base_of(ORDER, AGENT, "reference").summaries == [LAST_SUMMARY]


def test_a_reply_that_plays_for_ever_is_bounded_for_a_loop_that_may_not_end() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(call={"look": {}}, times="always")])
    assert [each.times for each in base_of(scenario, AGENT, "x").model] == [3, "always"]
    assert [each.times for each in base_of(scenario, Abilities(), "x").model] == ["always"]


def test_a_scenario_in_which_something_waits_for_ever_is_refused() -> None:
    hangs = Scenario(prompt="Go.", model=[Reply(say="A.")], tools={"look": {"hangs": True}})
    stalls = Scenario(prompt="Go.", model=[Reply(stall="before-headers")])
    for scenario, abilities in ((hangs, Abilities()), (stalls, AGENT)):
        with pytest.raises(ScenarioError, match="only a stop by the user ends this scenario"):
            base_of(scenario, abilities, "reference")
        limits = Limits(max_wall_clock_ms=5_000)
        base_of(scenario.model_copy(update={"limits": limits}), abilities, "reference")


def test_variations_keep_the_settings_and_answer_every_request() -> None:
    base = base_of(ORDER, Abilities(), "reference")
    choices = SeededChoices(1)
    weights = scripts.weights_of_family(choices, Abilities())
    worlds = [varied(choices, base, weights) for _ in range(200)]
    assert {world.prompt for world in worlds} == {ORDER.prompt}
    assert all(world.tools == base.tools for world in worlds)
    assert all(world.model[-1].times == "always" for world in worlds)
    assert any(world.model == base.model for world in worlds)
    assert any(len(world.model) > len(base.model) for world in worlds)
    assert any(len(world.model) < len(base.model) for world in worlds)


@pytest.mark.slow
def test_a_fault_of_a_tool_that_no_generated_world_calls_is_found_by_variations() -> None:
    drawn, varying = Search(charges, seed=1), Search(charges, seed=1, scenarios=[ORDER])
    assert "tool-runs-at-most-once" not in [each.name for each in drawn.run(runs=200)]
    assert "tool-runs-at-most-once" in [each.name for each in varying.run(runs=20)]

import pytest
from searching import RecordedChoices, charges

from simloop import Limits, Reply, Scenario
from simloop.fuzz import worlds
from simloop.fuzz.alphabet import END_NAMES, LAST, LAST_SUMMARY, TOOLS, Abilities
from simloop.fuzz.choices import SeededChoices
from simloop.fuzz.search import Search
from simloop.fuzz.worlds import Weights, base_of, varied, weights_of_family
from simloop.runs.loop import UNSUPPORTED_BY_AGENTS, loop_of
from simloop.world.faults import BODIES

OWN = Limits(max_steps=9, max_error_count=4)


def _weights(limits: Limits | None = None) -> Weights:
    abilities = Abilities(has_engine=limits is None, limits=limits)
    return worlds.usual_weights(abilities)


def _first_times(weights: Weights) -> set[object]:
    choices, world = SeededChoices(1), Scenario(prompt="Go.", limits=Limits(max_steps=6))
    drawn = [worlds.world_for(choices, world, weights).model[0] for _ in range(500)]
    return {reply.times for reply in drawn if type(reply.times) is int}


def test_some_scripts_lead_up_to_the_limits_of_the_scenario() -> None:
    assert _first_times(_weights()) == {6, 5, 4, 3, 2, 1}


def test_some_scripts_lead_up_to_the_limits_that_an_agent_declares() -> None:
    assert _first_times(_weights(OWN)) == {9, 8, 7, 6, 4, 3, 2, 1}


@pytest.mark.parametrize(
    ("limits", "ends"),
    [
        (Limits(max_steps=9), False),
        (Limits(max_error_count=4), False),
        (Limits(max_steps=9, max_error_count=4), True),
    ],
)
def test_only_an_agent_that_bounds_steps_and_errors_is_asked_to_go_on_for_ever(
    limits: Limits, *, ends: bool
) -> None:
    async def agent(_: str) -> None:
        """Do nothing."""

    agent.limits = limits  # type: ignore[attr-defined]
    assert Abilities.of(loop_of(Scenario(prompt="Go."), {"loop": agent})).ends is ends


def test_an_agent_without_limits_is_asked_to_go_on_for_ever_too() -> None:
    abilities = Abilities(has_engine=False, ends=False)
    weights = worlds.usual_weights(abilities)
    choices, world = SeededChoices(1), Scenario(prompt="Go.")
    drawn = [worlds.world_for(choices, world, weights).model for _ in range(500)]
    ends = [replies[-1] for replies in drawn]
    assert any(reply is not LAST and reply.times == "always" for reply in ends)
    assert sum(reply is LAST for reply in ends) > 400


def test_the_script_of_an_agent_answers_requests_for_summaries_without_need_of_any() -> None:
    weights, world = _weights(OWN), Scenario(prompt="Go.")
    assert worlds.world_for(SeededChoices(1), world, weights).summaries == [LAST_SUMMARY]


def test_a_script_that_leads_up_to_a_limit_ends_well() -> None:
    world = Scenario(prompt="Go.")
    drawn = worlds.world_for(RecordedChoices([0, 1]), world, _weights()).model
    assert [reply.times for reply in drawn] == [25, "always"]
    assert drawn[-1] is LAST


def test_a_body_comes_with_the_statuses_of_its_providers_in_a_family_of_other_failures() -> None:
    choices, weights = SeededChoices(1), _weights()
    only = [int(name == "http 500") for name in END_NAMES]
    drawn = [worlds.reply_for(choices, weights._replace(ends=only), 0).http for _ in range(3_000)]
    sent = {(http.message, http.status) for http in drawn if http is not None}
    for body in BODIES:
        message = body.keys.get("message", "")
        assert not message or {(message, status) for status in body.statuses} <= sent


def test_the_model_repeats_ids_of_other_replies_and_of_the_history() -> None:
    choices, weights = SeededChoices(1), _weights()
    drawn = [worlds.reply_for(choices, weights, 0).ids for _ in range(2_000)]
    ids = {each for own in drawn for each in own}
    assert {"0", "1", "past-1", "past-2", "", "call-1"} <= ids
    assert any(len(own) > len(set(own)) for own in drawn)


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


def test_variations_keep_the_settings_and_answer_every_request() -> None:
    base = base_of(ORDER, Abilities(), "reference")
    choices = SeededChoices(1)
    weights = weights_of_family(choices, Abilities())
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

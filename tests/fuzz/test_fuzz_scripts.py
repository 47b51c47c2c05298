import pytest

from simloop import Limits, Scenario
from simloop.fuzz import scripts
from simloop.fuzz.choices import RecordedChoices, SeededChoices
from simloop.fuzz.replies import END_NAMES, LAST, LAST_SUMMARY
from simloop.fuzz.scripts import Weights
from simloop.fuzz.settings import Abilities
from simloop.runs.loop import loop_of
from simloop.world.faults import BODIES

OWN = Limits(max_steps=9, max_error_count=4)


def _weights(limits: Limits | None = None) -> Weights:
    abilities = Abilities(has_engine=limits is None, limits=limits)
    return scripts.usual_weights(abilities)


def _first_times(weights: Weights) -> set[object]:
    choices, world = SeededChoices(1), Scenario(prompt="Go.", limits=Limits(max_steps=6))
    drawn = [scripts.world_for(choices, world, weights).model[0] for _ in range(500)]
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
    weights = scripts.usual_weights(abilities)
    choices, world = SeededChoices(1), Scenario(prompt="Go.")
    drawn = [scripts.world_for(choices, world, weights).model for _ in range(500)]
    ends = [replies[-1] for replies in drawn]
    assert any(reply is not LAST and reply.times == "always" for reply in ends)
    assert sum(reply is LAST for reply in ends) > 400


def test_the_script_of_an_agent_answers_requests_for_summaries_without_need_of_any() -> None:
    weights, world = _weights(OWN), Scenario(prompt="Go.")
    assert scripts.world_for(SeededChoices(1), world, weights).summaries == [LAST_SUMMARY]


def test_a_script_that_leads_up_to_a_limit_ends_well() -> None:
    world = Scenario(prompt="Go.")
    drawn = scripts.world_for(RecordedChoices([0, 1]), world, _weights()).model
    assert [reply.times for reply in drawn] == [25, "always"]
    assert drawn[-1] is LAST


def test_a_body_comes_with_the_statuses_of_its_providers_in_a_family_of_other_failures() -> None:
    choices, weights = SeededChoices(1), _weights()
    only = [int(name == "http 500") for name in END_NAMES]
    drawn = [scripts.reply_for(choices, weights._replace(ends=only), 0).http for _ in range(3_000)]
    sent = {(http.message, http.status) for http in drawn if http is not None}
    for body in BODIES:
        message = body.keys.get("message", "")
        assert not message or {(message, status) for status in body.statuses} <= sent


def test_the_model_repeats_ids_of_other_replies_and_of_the_history() -> None:
    choices, weights = SeededChoices(1), _weights()
    drawn = [scripts.reply_for(choices, weights, 0).ids for _ in range(2_000)]
    ids = {each for own in drawn for each in own}
    assert {"0", "1", "past-1", "past-2", "", "call-1"} <= ids
    assert any(len(own) > len(set(own)) for own in drawn)

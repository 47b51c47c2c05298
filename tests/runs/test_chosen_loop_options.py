"""The options and the limits of a user's own loop, in every form."""

from typing import Any

import pytest
from test_chosen_loop import ANSWERED, HERE, OWN, Own, machine_of, own

from simloop import (
    Limits,
    Outcome,
    Reply,
    Scenario,
    ScenarioError,
    parse_scenario,
    run,
)
from simloop.loops.pi import PiLoop
from simloop.loops.reference import ReferenceLoop
from simloop.runs.run import Simulation


def needs_an_option(limits: Limits, *, patience: int) -> Own:
    return Own(limits, patience=patience)


SHORT = ReferenceLoop(Limits(max_steps=3, max_steps_per_round=2))


@pytest.mark.parametrize("loop", [f"{HERE}:Own", Own], ids=["name", "class"])
def test_a_loop_takes_options_from_the_call(loop: Any) -> None:
    simulation = Simulation(ANSWERED, loop=loop, loop_options={"patience": 7})
    assert machine_of(simulation).patience == 7


def test_a_named_loop_takes_options_from_the_file_which_those_of_the_call_replace() -> None:
    text = f"prompt: x\nloop: {HERE}:Own\nloops: {{'{HERE}:Own': {{patience: 5}}}}\n"
    scenario = parse_scenario(text)
    machine = machine_of(Simulation(scenario))
    assert machine.patience == 5
    other = Simulation(scenario, loop_options={"patience": 6})
    machine = machine_of(other)
    assert machine.patience == 6
    assert b'"patience":6' in bytes(other.trace.header.scenario)


@pytest.mark.parametrize("loop", [f"{__name__}:needs_an_option", needs_an_option])
def test_an_option_that_a_loop_does_not_take_is_refused_with_those_that_it_takes(
    loop: Any,
) -> None:
    with pytest.raises(ScenarioError, match=r"unexpected keyword.*it takes patience") as caught:
        run(ANSWERED, loop=loop, loop_options={"patients": 1, "patience": 1})
    assert caught.value.key.endswith("needs_an_option")
    with pytest.raises(ScenarioError, match=r"missing a required.*patience"):
        run(ANSWERED, loop=loop)


@pytest.mark.parametrize("loop", [OWN, f"{HERE}:OWN"], ids=["machine", "name"])
def test_a_machine_that_is_made_already_takes_no_options(loop: Any) -> None:
    with pytest.raises(ScenarioError, match=r"is made already, and takes no options"):
        run(ANSWERED, loop=loop, loop_options={"patience": 1})


def test_the_options_of_a_bundled_loop_may_be_given_with_the_call_too() -> None:
    machine = machine_of(Simulation(ANSWERED, loop="pi", loop_options={"parallel": True}))
    assert machine.options.parallel is True
    with pytest.raises(ScenarioError, match=r"pi\.paralel: unknown key"):
        run(ANSWERED, loop="pi", loop_options={"paralel": True})
    version = machine_of(
        Simulation(
            ANSWERED, loop="opencode@1.18.34", loop_options={"parallel": False, "first_delay": "3s"}
        )
    )
    assert (version.options.parallel, version.options.first_delay_ms) == (False, 3_000)
    assert version.options.calls_go_on is True  # the version's own


@pytest.mark.parametrize(
    ("loop", "options"),
    [
        ("pi@0.87.1", {"steering": "all"}),
        ("pi", {"follow_up": "all"}),
        ("opencode", {"steps": "enforce"}),
    ],
)
def test_an_option_that_is_a_word_may_be_given_as_text(loop: str, options: dict[str, str]) -> None:
    by_call = machine_of(Simulation(ANSWERED, loop=loop, loop_options=options))
    name = loop.partition("@")[0]
    scenario = Scenario(prompt="Hi?", loop=loop, loops={name: options})
    by_scenario = machine_of(Simulation(scenario))
    for option, word in options.items():
        assert getattr(by_call.options, option) is getattr(by_scenario.options, option)
        assert getattr(by_call.options, option).value == word
    with pytest.raises(ScenarioError, match="steering: must be 'one-at-a-time' or 'all'"):
        run(ANSWERED, loop="pi", loop_options={"steering": "al"})


def test_the_key_of_options_must_be_a_design_or_have_a_module() -> None:
    with pytest.raises(ScenarioError, match=r"^a:2:9: loops\.pie: unknown key .*`pi`"):
        parse_scenario("prompt: x\nloops: {pie: {}}\n", "a")
    with pytest.raises(ScenarioError, match=r"^a:2:9: loops\.'a:b': must be a mapping"):
        parse_scenario("prompt: x\nloops: {'a:b': 5}\n", "a")


LIMITED = Scenario(
    prompt="Go.",
    limits=Limits(max_steps=2),
    tools={"t": {}},
    model=[Reply(call={"t": {}}, times="always")],
)


@pytest.mark.parametrize("loop", [Own, own, f"{HERE}:Own"], ids=["class", "function", "name"])
def test_what_makes_a_machine_makes_it_with_the_limits_of_the_scenario(loop: Any) -> None:
    result = run(LIMITED, loop=loop)
    assert result.counters
    assert (result.outcome, result.counters.total_steps) == (Outcome.MAX_STEPS, 2)
    assert result.trace.header.limits["max_steps"] == 2


@pytest.mark.parametrize("loop", [OWN, f"{HERE}:OWN"], ids=["machine", "name"])
def test_a_machine_that_was_made_with_other_limits_is_refused(loop: Any) -> None:
    with pytest.raises(
        ScenarioError, match=r"the scenario has max_steps 2, and .* has 100"
    ) as seen:
        run(LIMITED, loop=loop)
    assert seen.value.key == "limits.max_steps"
    assert "give the class" in seen.value.hint


def test_a_machine_with_other_limits_than_the_usual_ones_is_refused_too() -> None:
    with pytest.raises(ScenarioError, match=r"the scenario has max_steps 100, and .* has 3"):
        run(ANSWERED, loop=SHORT)
    with pytest.raises(ScenarioError, match=r"the scenario has max_steps 100, and .* has 3"):
        run(ANSWERED, loop=lambda _: SHORT)
    limits = {"max_steps": 3, "max_steps_per_round": 2}
    assert run(ANSWERED.model_copy(update={"limits": Limits(**limits)}), loop=SHORT).ok


def test_a_machine_that_shows_no_limits_is_refused_those_of_a_scenario() -> None:
    with pytest.raises(ScenarioError, match=r"was made without it"):
        run(LIMITED, loop=PiLoop())


def test_the_header_claims_only_limits_that_a_machine_is_known_to_keep() -> None:
    of_loops = {"max_steps", "max_steps_per_round", "max_error_count", "max_compaction_attempts"}
    assert of_loops <= set(run(ANSWERED, loop=ReferenceLoop()).trace.header.limits)
    claimed = run(ANSWERED, loop=PiLoop()).trace.header.limits
    assert not of_loops & set(claimed)
    assert claimed["model_call_timeout"] == "600s"
    assert of_loops <= set(run(ANSWERED, loop=PiLoop).trace.header.limits)

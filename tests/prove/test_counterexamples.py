"""An example that is written as a scenario goes, in the simulator, exactly the same way."""

from collections.abc import Iterator, Sequence
from functools import cache

import pytest
from counterexamples import (
    Explored,
    scenario_of_ending,
    scenario_of_lasso,
)
from incases import in_cases

from simloop.check.trial import verify
from simloop.errors import RunawayRun, ScenarioError
from simloop.kernel import effects, signals, states
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Run
from simloop.kernel.names import NAMES
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished
from simloop.loops.opencode import OpencodeOptions
from simloop.messages import FinishReason, Outcome
from simloop.prove.graph import Lasso, Step
from simloop.prove.proof import Proof, prove
from simloop.runs.loop import machine_for
from simloop.scenario.designs import LoopOptions, names
from simloop.scenario.loader import parse_scenario
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import scenario_text
from simloop.trace.entries import Transition

SMALL = Limits(max_steps=2, max_error_count=2, max_compaction_attempts=2, max_steps_per_round=3)
ENDLESS = [loop for loop in names() if loop.startswith(("pi", "opencode@"))]


@cache
def proof_of(loop: str, limits: Limits = SMALL) -> Proof:
    return prove(machine_for(loop, limits), limits, loop=loop)


def went(scenario: Scenario) -> list[tuple[Signal, str]]:
    """The transitions of a run that comes out as the scenario expects, twice."""
    verdict = verify(scenario)
    assert (verdict.errors, verdict.failures, verdict.deterministic) == ([], (), True)
    assert verdict.trace is not None
    record = verdict.trace.entries
    return [(entry.signal, entry.state) for entry in record if isinstance(entry, Transition)]


def told(steps: Sequence[Step]) -> list[tuple[Signal, str]]:
    return [(step.signal, NAMES[type(step.run.state)]) for step in steps]


def taken(*given: Signal) -> list[Step]:
    """What pi does when it is given these."""
    machine, steps = machine_for("pi", SMALL), list[Step]()
    run = machine.start()
    for signal in given:
        run, asked = machine.advance(run, signal)
        steps.append(Step(signal, run, asked))
    return steps


def read_again(scenario: Scenario) -> Scenario:
    again = parse_scenario(scenario_text(scenario))
    assert again == scenario
    return again


def endings() -> Iterator[tuple[str, Finished]]:
    for loop in names():
        for state in proof_of(loop).endings:
            yield loop, state


@pytest.mark.slow
@in_cases(endings())
def test_the_shortest_run_to_each_outcome_runs_as_it_is_written(loop: str, state: Finished) -> None:
    steps = proof_of(loop).endings[state]
    scenario = scenario_of_ending(steps, Explored(loop, SMALL))
    assert (scenario.expect.outcome, scenario.expect.limit) == (state.outcome, state.limit)
    assert went(read_again(scenario)) == told(steps)


@pytest.mark.parametrize("loop", ENDLESS)
def test_a_lasso_goes_round_as_it_is_written_until_it_is_a_runaway(loop: str) -> None:
    lasso = proof_of(loop).lasso
    assert lasso is not None
    scenario = scenario_of_lasso(lasso, Explored(loop, SMALL))
    assert scenario.expect.error == RunawayRun.__name__
    rounds, rest = divmod((scenario.max_transitions or 0) - len(lasso.prefix), len(lasso.cycle))
    assert rounds > 10
    assert rest == 0
    assert went(read_again(scenario)) == told((*lasso.prefix, *lasso.cycle * rounds))


def test_the_options_of_a_loop_are_written_too() -> None:
    options = LoopOptions(opencode=OpencodeOptions(steps="unlimited"))
    proof = prove(machine_for("opencode", SMALL, options), SMALL)
    assert proof.lasso is not None
    scenario = scenario_of_lasso(proof.lasso, Explored("opencode", SMALL, options))
    again = read_again(scenario)
    assert again.loops == options
    went(again)


def test_only_what_is_not_the_default_is_written() -> None:
    steps = proof_of("react").endings[Finished(Outcome.COMPLETED)]
    scenario = scenario_of_ending(steps, Explored("react", Limits()))
    assert scenario_text(scenario).splitlines()[1:] == [
        "title: The shortest run of react that ends as completed",
        "loop: react",
        "prompt: Do the work.",
        "model:",
        "  - say: Some words.",
        "expect:",
        "  outcome: completed",
        '  limit: ""',
    ]


def test_time_that_runs_out_where_nothing_takes_time_is_refused() -> None:
    ended = Run(Finished(Outcome.TIMED_OUT, "max_wall_clock"))
    asked = (effects.MeasureContext(),)
    steps = (
        Step(signals.Began(), Run(states.Measuring()), asked),
        Step(signals.WallClockExpired(), ended, (effects.EndRun(),)),
    )
    with pytest.raises(ScenarioError, match="nothing takes time"):
        scenario_of_ending(steps, Explored("pi", SMALL))


def test_time_that_runs_out_in_a_tool_runs_out_in_one_that_hangs() -> None:
    """By hand: in each loop it runs out sooner in a model call, so no proof shows this way."""
    steps = taken(
        signals.Began(),
        signals.ContextMeasured(over=False),
        signals.ModelReplied(FinishReason.TOOL_CALLS, text=True, calls=True),
        signals.WallClockExpired(),
    )
    assert isinstance(steps[-2].run.state, states.RunningTools)
    scenario = scenario_of_ending(steps, Explored("pi", SMALL))
    assert scenario.expect.outcome is Outcome.TIMED_OUT
    assert went(read_again(scenario)) == told(steps)


@pytest.mark.parametrize("finish", FinishReason)
@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("calls", [True, False])
def test_every_reply_there_is_can_be_written(
    finish: FinishReason, *, text: bool, calls: bool
) -> None:
    """On pi, which lets any reply end the run or go on: what comes after it is stopped."""
    steps = taken(
        signals.Began(),
        signals.ContextMeasured(over=False),
        signals.ModelReplied(finish, text, calls),
        *([signals.ToolsReturned()] if calls else []),
        signals.AbortRequested(),
    )
    scenario = scenario_of_ending(steps, Explored("pi", SMALL))
    assert went(read_again(scenario)) == told(steps)


def test_a_lasso_of_two_different_replies_that_stops_in_a_model_call_has_a_reply_for_it() -> None:
    called = [
        signals.ModelReplied(finish, text=True, calls=True)
        for finish in (FinishReason.TOOL_CALLS, FinishReason.STOP)
    ]
    fits = signals.ContextMeasured(over=False)
    around: list[Signal] = [signals.ToolsReturned(), signals.StepClosed(), fits]
    way = taken(signals.Began(), fits, called[0], *around, called[1], *around)
    lasso = Lasso(tuple(way[:2]), tuple(way[2:]))
    scenario = scenario_of_lasso(lasso, Explored("pi", SMALL))
    assert verify(scenario).exit_code == 0


def test_a_lasso_on_which_the_user_aborts_again_and_again_is_refused() -> None:
    begun, called = effects.MeasureContext(), effects.CallModel()
    prefix = (
        Step(signals.Began(), Run(states.Measuring()), (begun,)),
        Step(signals.ContextMeasured(over=False), Run(states.CallingModel()), (called,)),
    )
    again = Step(signals.AbortRequested(), Run(states.CallingModel()), (called,))
    with pytest.raises(ScenarioError, match="abort twice"):
        scenario_of_lasso(Lasso(prefix, (again,)), Explored("pi", SMALL))

"""Every run that the reference loop can reach under small limits, visited one by one.

The walks here use a world of their own, wider than the machine's alphabet: every signal with every
value that decides, so that the alphabet itself can be judged.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from graphlib import TopologicalSorter
from itertools import product
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from simloop.kernel import effects, signals, states
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import IllegalSignal, Run, Transition
from simloop.kernel.signals import Signal
from simloop.kernel.states import State
from simloop.loops.reference import LEGAL, ReferenceLoop
from simloop.messages import FinishReason, Outcome

SEEDED = settings(deadline=None, derandomize=True)
BOTH = (True, False)
MAX_STEPS_PER_ROUND = 2
TOO_MANY_RUNS = 10_000  # the largest map here has 2,116

WORLD: tuple[Signal, ...] = (
    signals.Began(),
    *(signals.ContextMeasured(over) for over in BOTH),
    *(signals.ContextCompacted(shrunk) for shrunk in BOTH),
    *(
        signals.ModelReplied(*reply)
        for reply in product(FinishReason, BOTH, BOTH, range(1, MAX_STEPS_PER_ROUND + 2))
    ),
    *(signals.ModelFailed(*failure) for failure in product(ErrorClass, BOTH)),
    signals.ToolsReturned(),
    signals.StepClosed(),
    signals.BackoffElapsed(),
    signals.HookFailed(),
    signals.CallBlocked(),
    signals.AbortRequested(),
    signals.WallClockExpired(),
)

Alphabet = Callable[[Run], Iterable[Signal]]
Explored = Mapping[Run, Mapping[Signal, Transition]]


def small(steps: int, errors: int, compactions: int, burst: int = MAX_STEPS_PER_ROUND) -> Limits:
    return Limits(
        max_steps=steps,
        max_error_count=errors,
        max_compaction_attempts=compactions,
        max_steps_per_round=burst,
    )


LIMITS = [
    pytest.param(small(*budget), id="-".join(map(str, budget)))
    for budget in [(1, 1, 0), (1, 3, 2), (2, 2, 1), (3, 1, 2), (4, 3, 0), (3, 2, 2)]
]
ROOMY = small(3, 2, 2)
under_every_limit = pytest.mark.parametrize("limits", LIMITS)


def world(run: Run) -> Iterable[Signal]:
    """List every signal that the map lets arrive."""
    return [signal for signal in WORLD if type(signal) in LEGAL[type(run.state)]]


def explore(loop: ReferenceLoop, arrivals: Alphabet) -> Explored:
    """Visit every run that `arrivals` can lead to, breadth first."""
    seen: dict[Run, Mapping[Signal, Transition]] = {}
    frontier = [loop.start()]
    while frontier:
        for run in frontier:
            seen[run] = {signal: loop.advance(run, signal) for signal in arrivals(run)}
        reached = dict.fromkeys(after for run in frontier for after, _ in seen[run].values())
        frontier = [run for run in reached if run not in seen]
        assert len(seen) < TOO_MANY_RUNS, "a budget grows without end"
    return seen


@cache
def visited(limits: Limits) -> Explored:
    return explore(ReferenceLoop(limits), world)


def longest(explored: Explored, weight: Callable[[tuple[Effect, ...]], int]) -> int:
    """Weigh the heaviest path. Raises CycleError if a run can come back to where it was."""
    after = {run: {moved[0] for moved in moves.values()} for run, moves in explored.items()}
    heaviest: dict[Run, int] = {}
    for run in TopologicalSorter(after).static_order():
        ahead = (weight(asked) + heaviest[then] for then, asked in explored[run].values())
        heaviest[run] = max(ahead, default=0)
    return max(heaviest.values())


def count(effect: type[Effect]) -> Callable[[tuple[Effect, ...]], int]:
    return lambda asked: sum(isinstance(one, effect) for one in asked)


def moves(limits: Limits) -> Iterable[tuple[Run, Signal, Run, tuple[Effect, ...]]]:
    for run, arrivals in visited(limits).items():
        for signal, (after, asked) in arrivals.items():
            yield run, signal, after, asked


def most_transitions(limits: Limits) -> int:
    """Count the transitions of the longest run.

    The prompt is 1. A step that goes on is 4 (measured, replied, tools, closed), and so is the last
    one. An error that is tried again is 3 (measured, failed, waited), an overflow that makes room 3
    (measured, failed, compacted).
    """
    retries = limits.max_error_count - 1
    return 1 + 4 * limits.max_steps + 3 * retries + 3 * limits.max_compaction_attempts


def most_calls(limits: Limits) -> int:
    """Count the model calls of the longest run: each but the last leaves one budget smaller."""
    retries, last = limits.max_error_count - 1, 1
    return (limits.max_steps - 1) + retries + limits.max_compaction_attempts + last


# Termination


@under_every_limit
def test_every_run_ends_after_no_more_transitions_than_the_budgets_allow(limits: Limits) -> None:
    assert longest(visited(limits), lambda _: 1) == most_transitions(limits)


@under_every_limit
def test_no_run_calls_the_model_more_often_than_the_budgets_allow(limits: Limits) -> None:
    assert longest(visited(limits), count(effects.CallModel)) == most_calls(limits)


@under_every_limit
def test_no_run_compacts_more_often_than_it_may(limits: Limits) -> None:
    compactions = longest(visited(limits), count(effects.Compact))
    assert compactions == limits.max_compaction_attempts


@under_every_limit
def test_no_run_backs_off_more_often_than_one_less_than_its_errors(limits: Limits) -> None:
    assert longest(visited(limits), count(effects.Backoff)) == limits.max_error_count - 1


@under_every_limit
def test_a_run_says_goodbye_exactly_once(limits: Limits) -> None:
    assert longest(visited(limits), count(effects.Finish)) == 1


@under_every_limit
def test_only_a_finished_run_has_nowhere_to_go(limits: Limits) -> None:
    dead_ends = {run for run, arrivals in visited(limits).items() if not arrivals}
    finished = {run for run in visited(limits) if isinstance(run.state, states.Finished)}
    assert dead_ends == finished


@SEEDED
@given(
    limits=st.builds(
        small, st.integers(1, 9), st.integers(1, 5), st.integers(0, 4), st.integers(1, 5)
    ),
    choices=st.lists(st.integers(0, 10**6), min_size=80, max_size=80),
)
def test_any_walk_over_the_alphabet_stays_on_the_map_and_ends_in_time(
    limits: Limits, choices: list[int]
) -> None:
    loop = ReferenceLoop(limits)
    run, walked = loop.start(), 0
    while arrivals := loop.alphabet(run):
        choice = choices[walked]  # the bound for these limits is under 80
        run, _ = loop.advance(run, arrivals[choice % len(arrivals)])
        walked += 1
    assert walked <= most_transitions(limits) < len(choices)


# The map


def test_the_map_has_every_state() -> None:
    assert set(LEGAL) == set(get_args(State))


def test_the_world_has_every_signal() -> None:
    assert {type(signal) for signal in WORLD} == set(get_args(Signal))


def test_every_edge_of_the_map_is_taken_and_no_other() -> None:
    drawn = {
        (state, signal, target)
        for state, arrivals in LEGAL.items()
        for signal, targets in arrivals.items()
        for target in targets
    }
    taken: set[tuple[type[Struct], type[Struct], type[Struct]]] = {
        (type(run.state), type(signal), type(after.state)) for run, signal, after, _ in moves(ROOMY)
    }
    assert taken == drawn


def test_every_signal_that_is_not_on_the_map_is_refused() -> None:
    loop = ReferenceLoop(ROOMY)
    for run in visited(ROOMY):
        for signal in {type(signal): signal for signal in WORLD}.values():
            if type(signal) not in LEGAL[type(run.state)]:
                with pytest.raises(IllegalSignal):
                    loop.advance(run, signal)


@pytest.mark.parametrize("signal", [signals.AbortRequested(), signals.WallClockExpired()])
def test_every_run_that_is_not_over_can_be_ended_from_outside(signal: Signal) -> None:
    over = [run for run, arrivals in visited(ROOMY).items() if signal not in arrivals]
    assert all(isinstance(run.state, states.Finished) for run in over)


# The alphabet


@under_every_limit
def test_the_alphabet_has_every_signal_that_the_map_accepts_and_no_other(limits: Limits) -> None:
    loop = ReferenceLoop(limits)
    for run in visited(limits):
        assert {type(signal) for signal in loop.alphabet(run)} == set(LEGAL[type(run.state)])


@under_every_limit
def test_the_alphabet_of_a_run_names_no_signal_twice(limits: Limits) -> None:
    loop = ReferenceLoop(limits)
    for run in visited(limits):
        assert len(set(loop.alphabet(run))) == len(loop.alphabet(run))


def test_the_alphabet_reaches_every_run_where_replies_report_one_step_or_a_burst() -> None:
    limits = small(3, 2, 2, burst=1)
    loop = ReferenceLoop(limits)
    one_or_two = [
        signal
        for signal in WORLD
        if not isinstance(signal, signals.ModelReplied) or signal.steps <= 2
    ]

    def narrow(run: Run) -> Iterable[Signal]:
        return [signal for signal in one_or_two if type(signal) in LEGAL[type(run.state)]]

    assert set(explore(loop, loop.alphabet)) == set(explore(loop, narrow))


# Effects


@under_every_limit
def test_every_transition_asks_the_world_for_exactly_one_thing(limits: Limits) -> None:
    assert {len(asked) for _, _, _, asked in moves(limits)} == {1}


def awaited(run: Run) -> set[Effect]:
    """List what a run in this state may be waiting for."""
    match run.state:
        case states.Measuring():
            return {effects.MeasureContext()}
        case states.Compacting(forced=forced):
            return {effects.Compact(forced)}
        case states.CallingModel():
            return {effects.CallModel()}
        case states.RunningTools(reply=reply):
            return {effects.RunTools(), effects.RefuseTools(reply.finish)}
        case states.ClosingStep():
            return {effects.CloseStep(keep=keep) for keep in BOTH}
        case states.BackingOff():
            return {effects.Backoff(run.error_count)}
        case states.Finished(outcome=outcome):
            return {effects.Finish(outcome)}
        case states.Ready():
            return set()


@under_every_limit
def test_a_run_always_asks_for_what_its_new_state_waits_for(limits: Limits) -> None:
    for _, _, after, asked in moves(limits):
        assert set(asked) <= awaited(after)


@pytest.mark.parametrize("finish", ["length", "content-filter", "error", "interrupted"])
def test_the_calls_of_a_reply_that_was_cut_off_are_never_run(finish: str) -> None:
    for _, signal, _, asked in moves(ROOMY):
        if isinstance(signal, signals.ModelReplied) and signal.finish == finish:
            assert effects.RunTools() not in asked


def test_a_reply_without_text_or_calls_never_stays_in_the_context() -> None:
    for _, signal, _, asked in moves(ROOMY):
        if isinstance(signal, signals.ModelReplied) and not (signal.text or signal.calls):
            assert asked == (effects.CloseStep(keep=False),)


def test_a_run_that_goes_on_never_keeps_a_reply_without_calls() -> None:
    """A request must not end with an assistant message: what goes on needs results after it."""
    kept = (effects.CloseStep(keep=True),)
    for _, signal, after, asked in moves(ROOMY):
        if isinstance(signal, signals.ModelReplied) and asked == kept:
            closed, _ = visited(ROOMY)[after][signals.StepClosed()]
            assert isinstance(closed.state, states.Finished)


def test_a_reply_that_was_interrupted_never_stays_in_the_context() -> None:
    for _, _, after, asked in moves(ROOMY):
        if isinstance(after.state, states.ClosingStep):
            broken = after.state.reply.finish is FinishReason.INTERRUPTED
            assert not (broken and effects.CloseStep(keep=True) in asked)


# Budgets


@under_every_limit
def test_no_budget_is_ever_overspent(limits: Limits) -> None:
    for run in visited(limits):
        assert 0 <= run.error_count <= limits.max_error_count
        assert 0 <= run.compaction_attempts <= limits.max_compaction_attempts
        assert 0 <= run.total_steps <= limits.max_steps + MAX_STEPS_PER_ROUND


@under_every_limit
def test_the_model_is_called_only_while_steps_and_errors_are_left(limits: Limits) -> None:
    for run in visited(limits):
        if isinstance(run.state, states.CallingModel):
            assert run.total_steps < limits.max_steps
            assert run.error_count < limits.max_error_count


@under_every_limit
def test_steps_grow_by_what_a_reply_reports_and_by_nothing_else(limits: Limits) -> None:
    for run, signal, after, _ in moves(limits):
        reported = signal.steps if isinstance(signal, signals.ModelReplied) else 0
        assert after.total_steps - run.total_steps == reported


@under_every_limit
def test_compaction_attempts_grow_by_one_per_compaction_and_by_nothing_else(limits: Limits) -> None:
    for run, signal, after, _ in moves(limits):
        tried = isinstance(signal, signals.ContextCompacted)
        assert after.compaction_attempts - run.compaction_attempts == tried


def is_an_error(run: Run, signal: Signal) -> bool:
    """Say whether `signal` tells of a failed call or closes the step of a useless reply."""
    if isinstance(signal, signals.ModelFailed):
        return signal.error is not ErrorClass.OVERFLOW
    if not (isinstance(signal, signals.StepClosed) and isinstance(run.state, states.ClosingStep)):
        return False
    match run.state.reply:
        case states.Reply(finish=FinishReason.INTERRUPTED):
            return True
        case states.Reply(finish=FinishReason.TOOL_CALLS, calls=calls):
            return not calls
        case states.Reply(finish=FinishReason.STOP | FinishReason.OTHER, text=text, calls=calls):
            return not (text or calls)
    return False


@under_every_limit
def test_errors_grow_by_one_per_failed_or_useless_reply_and_by_nothing_else(limits: Limits) -> None:
    for run, signal, after, _ in moves(limits):
        assert after.error_count - run.error_count == is_an_error(run, signal)


# Outcomes


@under_every_limit
def test_every_outcome_can_be_reached(limits: Limits) -> None:
    ended = (run.state for run in visited(limits))
    outcomes = {state.outcome for state in ended if isinstance(state, states.Finished)}
    assert outcomes == set(Outcome)


LIMITS_OF: Mapping[Outcome, set[str]] = {
    Outcome.MAX_STEPS: {"max_steps", "max_steps_per_round"},
    Outcome.TOO_MANY_ERRORS: {"max_error_count"},
    Outcome.CONTEXT_LIMIT: {"max_compaction_attempts", ""},
    Outcome.TIMED_OUT: {"max_wall_clock_ms"},
}


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_names_the_limit_that_ended_the_run_if_one_did(outcome: Outcome) -> None:
    limits = {
        run.state.limit
        for run in visited(ROOMY)
        if isinstance(run.state, states.Finished) and run.state.outcome is outcome
    }
    assert limits == LIMITS_OF.get(outcome, {""})


def test_a_run_completes_only_on_a_reply_with_text() -> None:
    for run, _, after, _ in moves(ROOMY):
        if after.state == states.Finished(Outcome.COMPLETED):
            assert isinstance(run.state, states.ClosingStep)
            assert run.state.reply.text


def test_a_run_completes_only_when_no_call_waits_for_the_model_to_see_its_result() -> None:
    for run, _, after, _ in moves(ROOMY):
        if after.state == states.Finished(Outcome.COMPLETED):
            assert isinstance(run.state, states.ClosingStep)
            assert not run.state.reply.calls

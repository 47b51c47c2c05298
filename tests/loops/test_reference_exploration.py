"""The reference loop's runs end in time, stay on its map, and keep to its alphabet."""

from collections.abc import Callable, Iterable
from graphlib import TopologicalSorter
from typing import get_args

import pytest
from exploration import (
    MAX_STEPS_PER_ROUND,
    ROOMY,
    WORLD,
    Asked,
    Explored,
    alphabet,
    explore,
    moves,
    small,
    under_every_limit,
    visited,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from simloop.kernel import effects, signals, states
from simloop.kernel.effects import Effect
from simloop.kernel.limits import Limits
from simloop.kernel.machine import IllegalSignal, Run, Transition, checked_transition
from simloop.kernel.signals import Signal
from simloop.kernel.states import State
from simloop.loops.reference import LEGAL, ReferenceLoop

SEEDED = settings(derandomize=True)


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
    assert longest(visited(limits), count(effects.EndRun)) == 1


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
    moved: Transition = (loop.start(), ())
    walked = 0
    while arrivals := tuple(alphabet(*moved)):
        choice = choices[walked]  # the bound for these limits is under 80
        moved = checked_transition(loop, moved[0], arrivals[choice % len(arrivals)])
        walked += 1
    assert walked <= most_transitions(limits) < len(choices)


# The map


def test_the_map_has_every_state_but_the_one_for_what_is_done_after_an_abort() -> None:
    assert set(LEGAL) == set(get_args(State)) - {states.Halting}


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
                    checked_transition(loop, run, signal)


@pytest.mark.parametrize("signal", [signals.AbortRequested(), signals.WallClockExpired()])
def test_every_run_that_began_and_is_not_over_can_be_ended_from_outside(signal: Signal) -> None:
    deaf = {type(run.state) for run, arrivals in visited(ROOMY).items() if signal not in arrivals}
    assert deaf == {states.Ready, states.Finished}


# The alphabet


def places(limits: Limits) -> set[tuple[Run, Asked]]:
    """List every run that can be reached, with what was asked for last."""
    return {
        (ReferenceLoop(limits).start(), ()),
        *((run, asked) for *_, run, asked in moves(limits)),
    }


@under_every_limit
def test_what_can_answer_the_last_effect_or_end_a_run_is_accepted(limits: Limits) -> None:
    for run, asked in places(limits):
        assert {type(signal) for signal in alphabet(run, asked)} <= set(LEGAL[type(run.state)])


def test_the_map_accepts_nothing_that_cannot_arrive() -> None:
    """A state may wait for calls that are run or refused: its row is for both."""
    arriving: dict[type[Struct], set[type[Struct]]] = {state: set() for state in LEGAL}
    for run, asked in places(ROOMY):
        arriving[type(run.state)] |= {type(signal) for signal in alphabet(run, asked)}
    assert arriving == {state: set(accepted) for state, accepted in LEGAL.items()}


@under_every_limit
def test_no_signal_that_can_arrive_is_named_twice(limits: Limits) -> None:
    for run, asked in places(limits):
        arrivals = tuple(alphabet(run, asked))
        assert len(set(arrivals)) == len(arrivals)


def test_the_alphabet_reaches_every_run_where_replies_report_one_step_or_a_burst() -> None:
    loop = ReferenceLoop(small(3, 2, 2, burst=MAX_STEPS_PER_ROUND - 1))
    one_or_two = [
        signal
        for signal in WORLD
        if not isinstance(signal, signals.ModelReplied) or signal.steps <= MAX_STEPS_PER_ROUND
    ]

    def narrow(run: Run, _: Asked) -> Iterable[Signal]:
        return [signal for signal in one_or_two if type(signal) in LEGAL[type(run.state)]]

    assert set(explore(loop, alphabet)) == set(explore(loop, narrow))

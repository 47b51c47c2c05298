"""The reference loop's runs end in time, stay on its map, and keep to its alphabet."""

from collections.abc import Iterable

import pytest
from exploration import (
    MAX_STEPS_PER_ROUND,
    ROOMY,
    WORLD,
    Asked,
    alphabet,
    explore,
    moves,
    small,
    visited,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from simloop.kernel import signals
from simloop.kernel.limits import Limits
from simloop.kernel.machine import IllegalSignal, Run, Transition, checked_transition
from simloop.kernel.signals import Signal
from simloop.loops.reference import LEGAL, ReferenceLoop

SEEDED = settings(derandomize=True, max_examples=50)


def most_transitions(limits: Limits) -> int:
    """Count the transitions of the longest run.

    The prompt is 1. A step that goes on is 4 (measured, replied, tools, closed), and so is the last
    one. An error that is tried again is 3 (measured, failed, waited), an overflow that makes room 3
    (measured, failed, compacted).
    """
    retries = limits.max_error_count - 1
    return 1 + 4 * limits.max_steps + 3 * retries + 3 * limits.max_compaction_attempts


# Termination


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
    for run in {type(run.state): run for run in visited(ROOMY)}.values():
        for signal in {type(signal): signal for signal in WORLD}.values():
            if type(signal) not in LEGAL[type(run.state)]:
                with pytest.raises(IllegalSignal):
                    checked_transition(loop, run, signal)


# The alphabet


def places(limits: Limits) -> set[tuple[Run, Asked]]:
    """List every run that can be reached, with what was asked for last."""
    return {
        (ReferenceLoop(limits).start(), ()),
        *((run, asked) for *_, run, asked in moves(limits)),
    }


def test_the_map_accepts_nothing_that_cannot_arrive() -> None:
    """A state may wait for calls that are run or refused: its row is for both."""
    arriving: dict[type[Struct], set[type[Struct]]] = {state: set() for state in LEGAL}
    for run, asked in places(ROOMY):
        arriving[type(run.state)] |= {type(signal) for signal in alphabet(run, asked)}
    assert arriving == {state: set(accepted) for state, accepted in LEGAL.items()}


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

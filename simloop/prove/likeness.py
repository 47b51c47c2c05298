"""The comparison of a machine with the design that it declares, by effects and not by states."""

from collections import deque

from simloop.kernel.effects import Effect
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Machine, Run, checked_transition
from simloop.kernel.names import describe
from simloop.kernel.signals import Began, Signal
from simloop.kernel.states import Finished
from simloop.prove.explore import arrivals_at, why_impossible, without_collections

_Moved = tuple[Run, tuple[Effect, ...]] | str
"""A transition, or the description of a failure of the machine."""

MOST_PAIRS = 20_000
"""About a second: large limits, or a counter without a bound, have far more."""


@without_collections()
def first_difference(machine: Machine, design: Machine, limits: Limits) -> str:
    """Return the shortest way after which `machine` decides unlike `design`, or an empty text."""
    both = machine, design
    start = machine.start(), design.start()
    due: deque[tuple[Run, Run, tuple[Signal, ...], tuple[Signal, ...]]]
    due = deque([(*start, (Began(),), ())])
    known = {start}
    while due and len(known) < MOST_PAIRS:
        run, other, arrivals, way = due.popleft()
        for signal in arrivals:
            if any(why_impossible(each, signal) for each in both):
                continue
            one, two = _moved(machine, run, signal), _moved(design, other, signal)
            if _shown(one) != _shown(two):
                path = ", ".join(map(describe, (*way, signal)))
                return f"after {path} it {_words(one)}, and the design {_words(two)}"
            if isinstance(one, str) or isinstance(two, str) or isinstance(one[0].state, Finished):
                continue
            pair = one[0], two[0]
            if pair not in known:
                known.add(pair)
                due.append((*pair, arrivals_at(one[1], limits.max_steps_per_round), (*way, signal)))
    return ""


def _moved(machine: Machine, run: Run, signal: Signal) -> _Moved:
    try:
        after, asked = checked_transition(machine, run, signal)
    except Exception as error:  # noqa: BLE001 - a machine is somebody's code
        return f"fails with {type(error).__name__}"
    return after, tuple(asked)


def _shown(moved: _Moved) -> object:
    if isinstance(moved, str):
        return moved
    state = moved[0].state
    return moved[1], state if isinstance(state, Finished) else None


def _words(moved: _Moved) -> str:
    if isinstance(moved, str):
        return moved
    state, asked = moved[0].state, ", ".join(map(repr, moved[1])) or "nothing"
    if isinstance(state, Finished):
        return f"ends as {state.outcome}{f' ({state.limit})' if state.limit else ''} by {asked}"
    return f"asks for {asked}"

"""Every run that the reference loop can reach under small limits, visited one by one.

The walks here use a world of their own, wider than the alphabet: every signal with every value that
decides, so that the alphabet itself can be judged.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import product

import pytest

from simloop.kernel import signals
from simloop.kernel.effects import Effect, EndRun
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Run, Transition, checked_transition
from simloop.kernel.signals import Signal
from simloop.loops.reference import LEGAL, ReferenceLoop
from simloop.messages import FinishReason
from simloop.prove.alphabet import ENDINGS, answers

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
    *(signals.ToolsReturned(blocked) for blocked in BOTH),
    *(signals.StepClosed(*waiting) for waiting in product(BOTH, BOTH)),
    signals.BackoffElapsed(),
    signals.HookFailed(),
    signals.CallBlocked(),
    signals.AbortRequested(),
    signals.WallClockExpired(),
)

Asked = tuple[Effect, ...]
Alphabet = Callable[[Run, Asked], Iterable[Signal]]
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


def world(run: Run, asked: Asked) -> Iterable[Signal]:
    """List every signal that the map lets arrive."""
    return [signal for signal in WORLD if type(signal) in LEGAL[type(run.state)]]


def alphabet(run: Run, asked: Asked) -> Iterable[Signal]:
    """List the signals that can answer what was asked for last, and those that end any run."""
    if not asked:
        return (signals.Began(),)
    if isinstance(asked[-1], EndRun):
        return answers(asked[-1], MAX_STEPS_PER_ROUND)
    return (*answers(asked[-1], MAX_STEPS_PER_ROUND), *ENDINGS)


def explore(loop: ReferenceLoop, arrivals: Alphabet) -> Explored:
    """Visit every run that `arrivals` can lead to, after all that it may have asked for last."""
    seen: dict[Run, dict[Signal, Transition]] = {}
    start: Transition = (loop.start(), ())
    known, frontier = {start}, [start]
    while frontier:
        reached: dict[Transition, None] = {}
        for run, asked in frontier:
            moved = {
                signal: checked_transition(loop, run, signal) for signal in arrivals(run, asked)
            }
            seen.setdefault(run, {}).update(moved)
            reached.update(dict.fromkeys(moved.values()))
        frontier = [place for place in reached if place not in known]
        known.update(frontier)
        assert len(seen) < TOO_MANY_RUNS, "a budget grows without end"
    return seen


@cache
def visited(limits: Limits) -> Explored:
    return explore(ReferenceLoop(limits), world)


def moves(limits: Limits) -> Iterable[tuple[Run, Signal, Run, Asked]]:
    for run, arrivals in visited(limits).items():
        for signal, (after, asked) in arrivals.items():
            yield run, signal, after, asked

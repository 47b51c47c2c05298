"""The edges that a machine takes: transitions with the runs at both ends, computed once more.

A machine is pure, so an edge is computed and judged once, however many runs of a plan take it. Not
here: following a run from edge to edge (course.py). The rule to keep: an edge holds nothing of a
trace, so that it is equal in every run.
"""

from collections.abc import Sequence
from operator import attrgetter, ge

from msgspec import Struct

from simloop.kernel.effects import Effect, TakeQueued
from simloop.kernel.machine import Bound, Machine, Run, checked_transition
from simloop.kernel.names import NAMES
from simloop.kernel.signals import (
    AbortRequested,
    Began,
    HookFailed,
    Signal,
    WallClockExpired,
)
from simloop.messages import Counters
from simloop.trace import entries

ENDS_FROM_OUTSIDE = (AbortRequested, WallClockExpired, HookFailed)
"""The signals that end a run wherever it is."""
_COUNTERS = "error_count", "total_steps", "compaction_attempts"
_MOST = 10_000
"""The most edges that are kept: a run without limits can take any number."""


class JudgedEdge(Struct, eq=False):
    """A transition: `machine` answers `signal` in the run `before` with `run` and `asked`.

    `pending` is the effect that the next signal answers, or None. `state` names the state of `run`.
    `moment` is the tuple of what an invariant can see: the signal, the last effect and the state,
    by type, `Bound` if a bound is reached, and `Counters` if counters change; `counting` has
    `Counters` in any case. `wrong` says that the machine does not accept the signal. `violations`
    are those that the invariants of edges find, by place, or None before they have judged it.
    """

    machine: Machine
    before: Run
    signal: Signal
    run: Run
    asked: tuple[Effect, ...]
    wrong: str
    pending: Effect | None
    state: str
    stopped: bool
    moment: tuple[object, ...]
    counting: tuple[object, ...]
    violations: Sequence[tuple[int, str]] | None = None


class JudgedEdges(dict[tuple[Run | None, Signal], JudgedEdge]):
    """The edges that the runs of a machine have taken so far, by the run and the signal.

    Before the first signal of a run there is no run.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        bounds = [*machine.bounds.values(), *getattr(machine, "thresholds", {}).values()]
        self._counters = attrgetter(*_COUNTERS, *(bound.counter for bound in bounds))
        self._most = [bound.at for bound in machine.bounds.values()]

    def __missing__(self, key: tuple[Run | None, Signal]) -> JudgedEdge:
        if len(self) >= _MOST:
            self.clear()
        edge = self[key] = self.take(*key)
        return edge

    def take(self, given: Run | None, signal: Signal) -> JudgedEdge:
        """Return the edge on a signal in the run `given`."""
        machine, kind, before, wrong = self.machine, type(signal), given, ""
        asked: tuple[Effect, ...] = ()
        try:
            if kind is Began:
                before = machine.start()
            if before is None:
                raise ValueError("the run has not begun, or it is over")  # noqa: TRY301
            run, asked = checked_transition(machine, before, signal)
        except Exception as error:  # noqa: BLE001 - a machine is somebody's code
            wrong = f"the machine does not take {kind.__name__}: {error}"
            before = run = given or machine.start()
        last, counters = asked[-1] if asked else None, self._counters(run)
        bound = Bound if any(map(ge, counters[len(_COUNTERS) :], self._most)) else None
        effect = None if last is None else type(last)
        moment: tuple[object, ...] = entries.Transition, kind, effect, type(run.state), bound
        counting = (*moment, Counters)
        changes = given is None or self._counters(given) != counters
        pending = None if effect is TakeQueued else last
        state, stopped = NAMES[type(run.state)], kind in ENDS_FROM_OUTSIDE
        if changes:
            moment = counting
        return JudgedEdge(
            machine, before, signal, run, asked, wrong, pending, state, stopped, moment, counting
        )

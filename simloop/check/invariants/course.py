"""The course of a machine: its run and its effects after each transition, computed again.

A machine is pure, so it makes the same runs and effects again from the signals of a trace. Not
here: the context that the effects lead to (ledger.py), and judging (the invariants). The rule to
keep: an abort that the engine only notes is not delivered to the machine, and so not here either.
"""

from operator import attrgetter, ge
from typing import Any

from simloop.check.invariants.ledger import TABLE, Ledger
from simloop.check.invariants.shortened import Shortened
from simloop.engine.settings import EngineSettings
from simloop.kernel.effects import Effect, TakeQueued
from simloop.kernel.machine import Bound, Machine, Run, checked_transition
from simloop.kernel.policies import OnAbort
from simloop.kernel.signals import (
    AbortRequested,
    Began,
    HookFailed,
    ModelReplied,
    Signal,
    WallClockExpired,
)
from simloop.messages import Counters
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.facts import Facts

ENDS_FROM_OUTSIDE = (AbortRequested, WallClockExpired, HookFailed)
"""The signals that end a run in every state."""


class Course:
    """The course of the runs of one conversation, after the entries that `read` has been given.

    At a transition, `before` and `pending` are the run and the effect that `signal` answers, and
    `run` and `asked` those after it. `noted` says that the transition is only a note. `moves`
    counts the other transitions, and `rounds` those of them that are not on a reply. `since` counts
    the entries that effects leave between the two transitions, by kind, and a request for a summary
    as `summary`.
    `wrong` says that the machine does not accept the signal.
    """

    def __init__(self, machine: Machine, settings: EngineSettings, facts: Facts) -> None:
        self.machine = machine
        self.settings = settings
        self.facts = facts
        self.ledger = Ledger(machine, settings, facts)
        self.signal: Signal | None = None
        self.run: Run | None = None
        self.before: Run | None = None
        self.asked: tuple[Effect, ...] = ()
        self.pending: Effect | None = None
        self.noted = False
        self.stopped = False
        self.wrong = ""
        self.moves = self.rounds = 0
        self.since: dict[object, int] = {}
        self._counts: dict[object, int] = {}
        given = [*machine.bounds.values(), *getattr(machine, "thresholds", {}).values()]
        self._values = attrgetter(*_COUNTERS, *(bound.counter for bound in given))
        self._most = [bound.at for bound in machine.bounds.values()]
        self._reaches = False
        self._last_values: tuple[int, ...] | None = None
        self._last_counters: Counters | None = None
        self._flags_abort = settings.on_abort is not OnAbort.END_RUN

    def read(self, entry: AnyEntry) -> object:
        """Add the next entry, after the facts have read it; return its kind or its moment.

        A moment is a tuple of what an invariant can see: for a transition its signal, the last
        effect and the state to which it leads, by type, `Bound` if a bound is reached, and
        `Counters` if counters have changed.
        """
        kind = type(entry)
        if kind is entries.Transition:
            return self._move(entry)
        account = TABLE.get(kind)
        if account is not None:
            account(self.ledger, entry)
        if kind is entries.Prompt:
            self.run, self.asked, self._counts = None, (), {}
        elif kind is entries.Request:
            if entry.purpose != "main":  # type: ignore[union-attr]
                self._count("summary")
            else:
                self._count(kind)
                if self.ledger.shortened is not None:
                    return _AFTER_COMPACTION
        elif kind in _COUNTED:
            self._count(kind)
        return kind

    def _count(self, kind: object) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def counted(self, kind: object) -> int:
        """Return the number of entries of a kind since the last transition."""
        return self._counts.get(kind, 0)

    def _move(self, entry: Any) -> object:
        signal = entry.signal
        kind = type(signal)
        self.noted = self._flags_abort and kind is AbortRequested
        if self.noted:
            return _NOTED
        self.moves += 1
        if kind is not ModelReplied:
            self.rounds += 1
        self.since, self._counts = self._counts, {}
        self.signal, asked = signal, self.asked
        self.pending = asked[-1] if asked and type(asked[-1]) is not TakeQueued else None
        self.stopped = kind in ENDS_FROM_OUTSIDE
        try:
            before = self.machine.start() if kind is Began else self.run
            if before is None:
                raise ValueError("the run has not begun, or it is over")  # noqa: TRY301
            self.before = before
            self.run, self.asked = checked_transition(self.machine, before, signal)
        except Exception as error:  # noqa: BLE001 - a machine is somebody's code
            self.wrong = f"the machine does not take {kind.__name__}: {error}"
            self.before = self.run = self.run or self.machine.start()
            self.asked = ()
        self.ledger.follow(signal, self.asked, stopped=self.stopped)
        effect = type(self.asked[-1]) if self.asked else None
        values, counters = self._values(self.run), entry.counters
        if values == self._last_values and counters is self._last_counters:
            bound = Bound if self._reaches else None
            return entries.Transition, kind, effect, type(self.run.state), bound
        self._last_values, self._last_counters = values, counters
        self._reaches = any(map(ge, values[len(_COUNTERS) :], self._most))
        bound = Bound if self._reaches else None
        return entries.Transition, kind, effect, type(self.run.state), bound, Counters


_COUNTERS = "error_count", "total_steps", "compaction_attempts"
_AFTER_COMPACTION = (entries.Request, Shortened)
_NOTED = (entries.Transition, AbortRequested)
_COUNTED = frozenset({entries.Compaction, entries.Backoff, entries.Classified})
"""The entries that show that an effect was performed, besides requests."""

"""The course of a machine: its run and its effects after each transition, computed again.

A machine is pure, so it makes the same runs and effects again from the signals of a trace. Not
here: the context that the effects lead to (ledger.py), and judging (the invariants). The rule to
keep: an abort that the engine only notes is not delivered to the machine, and so not here either.
"""

from typing import Any

from simloop.check.invariants.edges import JudgedEdge, JudgedEdges
from simloop.check.invariants.ledger import TABLE, Ledger
from simloop.check.invariants.shortened import Shortened
from simloop.engine.settings import EngineSettings
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Machine, Run
from simloop.kernel.policies import OnAbort
from simloop.kernel.signals import AbortRequested, ContextCompacted, ModelReplied, Signal
from simloop.messages import Counters
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.facts import Facts


class Course:
    """The course of the runs of one conversation, after the entries that `read` has been given.

    At a transition, `edge` is the one that the machine takes: `before` and `pending` are the run
    and the effect that `signal` answers, and `run` and `asked` those after it. `edges` are kept for
    later runs. `noted` says that the transition is only a note. `moves` counts the other
    transitions, and `rounds` those of them that are not on a reply. `since` counts the entries that
    effects leave between the two transitions, by kind, and a request for a summary as `summary`.

    Of this run, `steps` counts the steps of its replies and `compactions` its compactions, and
    `counters` are those of the newest transition. `classified` is the newest classification of a
    failure; `judged` is the one since the newest main request, or None. `failures` is the number of
    the wait before the newest one, or 0 if the count has begun again.
    """

    def __init__(self, machine: Machine, settings: EngineSettings, facts: Facts) -> None:
        self.machine = machine
        self.settings = settings
        self.facts = facts
        self.ledger = Ledger(machine, settings, facts)
        self.edges = JudgedEdges(machine)
        self.edge: JudgedEdge | None = None
        self.signal: Signal | None = None
        self.run: Run | None = None
        self.before: Run | None = None
        self.asked: tuple[Effect, ...] = ()
        self.pending: Effect | None = None
        self.noted = False
        self.stopped = False
        self.moves = self.rounds = self.steps = self.compactions = 0
        self.counters: Counters | None = None
        self.judged: entries.Classified | None = None
        self.classified: entries.Classified | None = None
        self.failures = self._newest_failures = 0
        self.since: dict[object, int] = {}
        self._counts: dict[object, int] = {}
        self._pends: Effect | None = None
        self._last_counters: Counters | None = None
        self._flags_abort = settings.on_abort is not OnAbort.END_RUN

    def read(self, entry: AnyEntry) -> object:
        """Add the next entry of a kind in `FOLLOWED`, after the facts have read it.

        Return its kind or its moment.

        A moment is a tuple of what an invariant can see: for a transition its signal, the last
        effect and the state to which it leads, by type, `Bound` if a bound is reached, and
        `Counters` if counters have changed.
        """
        kind = type(entry)
        if kind is entries.Transition:
            return self._move(entry)
        if kind in TABLE:
            TABLE[kind](self.ledger, entry)
        if kind is entries.Prompt:
            self.run, self.asked, self._pends, self._counts = None, (), None, {}
            self.steps, self.compactions, self.counters = 0, 0, None
            self._newest_failures = 0
        elif kind is entries.Request:
            if entry.purpose != "main":  # type: ignore[union-attr]
                self._count("summary")
            else:
                self._count(kind)
                self.judged = None
                if self.ledger.shortened is not None:
                    return _AFTER_COMPACTION
        elif kind in _COUNTED:
            self._count(kind)
            if kind is entries.Classified:
                self.judged = self.classified = entry  # type: ignore[assignment]
            elif kind is entries.Backoff:
                self.failures, self._newest_failures = self._newest_failures, entry.failures  # type: ignore[union-attr]
        return kind

    def _count(self, kind: object) -> None:
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def counted(self, kind: object) -> int:
        """Return the number of entries of a kind since the last transition."""
        return self._counts.get(kind, 0)

    def _move(self, entry: Any) -> object:
        signal = entry.signal
        self.noted = self._flags_abort and type(signal) is AbortRequested
        if self.noted:
            return _NOTED
        self.moves += 1
        if type(signal) is not ModelReplied:
            self.rounds += 1
            self.compactions += type(signal) is ContextCompacted
        elif self.facts.reply is not None:
            self.steps += max(1, self.facts.reply.steps)
        self.since, self._counts = self._counts, {}
        try:
            edge = self.edges[self.run, signal]
        except TypeError:  # a machine's own run that has no hash, so the edge cannot be kept
            edge = self.edges.take(self.run, signal)
        self.edge, self.signal, self.stopped = edge, signal, edge.stopped
        self.before, self.run, self.asked = edge.before, edge.run, edge.asked
        self.pending, self._pends = self._pends, edge.pending
        self.ledger.follow(edge)
        self.counters = entry.counters
        moment = edge.moment if entry.counters is self._last_counters else edge.counting
        self._last_counters = entry.counters
        if not edge.run.error_count and moment is edge.counting:
            self._newest_failures = 0
        return moment


FOLLOWED = frozenset({entries.Transition, entries.Backoff, *TABLE})
"""The kinds of entries that a course follows; it has nothing to do with any other."""
_AFTER_COMPACTION = (entries.Request, Shortened)
_NOTED = (entries.Transition, AbortRequested)
_COUNTED = frozenset({entries.Compaction, entries.Backoff, entries.Classified})
"""The entries that show that an effect was performed, besides requests."""

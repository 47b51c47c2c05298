"""The subject of a judgement: the declarations that hold for a run, its facts and its course.

A missing declaration is None, and an invariant that needs it is then not judged: simloop guesses no
limits and no policies. A machine is pure, so a course makes its runs and effects again from the
signals of a trace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, ge
from typing import Any, Self

from simloop.check.invariants.pairs import Pairing
from simloop.engine.settings import EngineSettings
from simloop.kernel.effects import CallModel, Effect, TakeQueued
from simloop.kernel.limits import DeclaredLimits, Limits
from simloop.kernel.machine import Bound, Machine, Run, checked_transition
from simloop.kernel.names import NAMES
from simloop.kernel.retry import RetryPolicy
from simloop.kernel.signals import (
    AbortRequested,
    Began,
    ContextCompacted,
    HookFailed,
    ModelReplied,
    Signal,
    WallClockExpired,
)
from simloop.kernel.states import Ready
from simloop.messages import Counters
from simloop.runs.run import Simulation
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.facts import Facts
from simloop.world.tools import Tool

ENDS_FROM_OUTSIDE = (AbortRequested, WallClockExpired, HookFailed)
"""The signals that end a run in every state."""


class Deviates:
    """Marks the moment of a transition that the machine does not make again."""


class Course:
    """The course of the runs of one conversation, after the entries that `read` has been given.

    At a transition, `before` and `pending` are the run and the effect that `signal` answers, and
    `run` and `asked` those after it. `noted` says that the transition is only a note. `moves`
    counts the other transitions, and `rounds` those of them that are not on a reply. `since` counts
    the entries that effects leave between the two transitions, by kind, and a request for a summary
    as `summary`. `wrong` says that the machine does not accept the signal.

    Of this run, `steps` counts the steps of its replies and `compactions` its compactions, and
    `counters` are those of the newest transition. `classified` is the newest classification of a
    failure; `judged` is the one since the newest main request, or None. `failures` is the number of
    the wait before the newest one, or 0 if the count has begun again. `spent` has the counters that
    the machine declares, at the newest effect to call the model, and `spent_before` those at the
    one before it, or None.

    `declared` are the bounds and the thresholds of the machine, by counter.
    """

    def __init__(self, machine: Machine, settings: EngineSettings, facts: Facts) -> None:
        self.machine = machine
        self.settings = settings
        self.facts = facts
        self.signal: Signal = Began()
        self.before = self.run = _NOT_BEGUN
        self.asked: tuple[Effect, ...] = ()
        self.pending: Effect | None = None
        self.noted = False
        self.stopped = False
        self.wrong = ""
        self.moves = self.rounds = self.steps = self.compactions = 0
        self.counters: Counters | None = None
        self.judged: entries.Classified | None = None
        self.classified: entries.Classified | None = None
        self.failures = self._newest_failures = 0
        self.since: dict[object, int] = {}
        self._counts: dict[object, int] = {}
        given = [*machine.bounds.values(), *getattr(machine, "thresholds", {}).values()]
        self.declared = {bound.counter: bound for bound in given}
        self._values = attrgetter(*_COUNTERS, *(bound.counter for bound in given))
        self._most = [bound.at for bound in machine.bounds.values()]
        self._bound: type[Bound] | None = None
        self.spent: tuple[int, ...] | None = None
        self.spent_before: tuple[int, ...] | None = None
        self._last_values: tuple[int, ...] = ()
        self._last_counters: Counters | None = None
        self._flags_abort = settings.abort_is_flag

    def read(self, entry: AnyEntry) -> object:
        """Add the next entry of a kind in `FOLLOWED`, after the facts have read it.

        Return its kind or its moment.

        A moment is a tuple of what an invariant can see: for a transition its signal, the last
        effect and the state to which it leads, by type, `Bound` if a bound is reached, and
        `Counters` if counters have changed.
        """
        kind = type(entry)
        if kind is entries.Transition:
            moment = self._move(entry)
            is_same = not self.wrong and NAMES[type(self.run.state)] == entry.state  # type: ignore[union-attr]
            return moment if is_same else (*moment, Deviates)
        if kind is entries.Prompt:
            self.run, self.asked, self._counts = _NOT_BEGUN, (), {}
            self.steps, self.compactions, self.counters, self.spent = 0, 0, None, None
            self._newest_failures = 0
        elif kind is entries.Request:
            if entry.purpose != "main":  # type: ignore[union-attr]
                self._count("summary")
            else:
                self._count(kind)
                self.judged = None
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

    def _move(self, entry: Any) -> tuple[object, ...]:
        signal, asked = entry.signal, self.asked
        kind = type(signal)
        self.noted = self._flags_abort and kind is AbortRequested
        if self.noted:
            return _NOTED
        self.moves += 1
        if kind is not ModelReplied:
            self.rounds += 1
            self.compactions += kind is ContextCompacted
        elif self.facts.reply is not None:
            self.steps += max(1, self.facts.reply.steps)
        self.since, self._counts = self._counts, {}
        self.signal, self.stopped = signal, kind in ENDS_FROM_OUTSIDE
        self.pending = asked[-1] if asked and type(asked[-1]) is not TakeQueued else None
        self._take(signal)
        self.counters = entry.counters
        effect = type(self.asked[-1]) if self.asked else None
        recounted = self._recount()
        if effect is CallModel:
            self.spent_before, self.spent = self.spent, self._last_values[len(_COUNTERS) :]
        moment = entries.Transition, kind, effect, type(self.run.state), self._bound
        return (*moment, Counters) if recounted else moment

    def _take(self, signal: Signal) -> None:
        """Make the transition of the machine again."""
        try:
            if type(signal) is Began or self.run is _NOT_BEGUN:
                self.run = self.machine.start()
            self.before = self.run
            self.run, self.asked = checked_transition(self.machine, self.run, signal)
        except Exception as error:  # noqa: BLE001 - a machine is somebody's code
            self.wrong = f"the machine does not take {type(signal).__name__}: {error}"
            self.before, self.asked = self.run, ()

    def _recount(self) -> bool:
        """Return whether counters of the run or of the trace have changed."""
        values, counters = self._values(self.run), self.counters
        if values == self._last_values and counters is self._last_counters:
            return False
        self._last_values, self._last_counters = values, counters
        self._bound = Bound if any(map(ge, values[len(_COUNTERS) :], self._most)) else None
        if not self.run.error_count:
            self._newest_failures = 0
        return True


FOLLOWED = frozenset(
    {
        entries.Prompt,
        entries.Request,
        entries.Transition,
        entries.Compaction,
        entries.Backoff,
        entries.Classified,
    }
)
"""The kinds of entries that a course follows; it has nothing to do with any other."""
_NOTED = (entries.Transition, AbortRequested)
_COUNTED = frozenset({entries.Compaction, entries.Backoff, entries.Classified})
"""The entries that show that an effect was performed, besides requests."""
_COUNTERS = "error_count", "total_steps", "compaction_attempts"
_NOT_BEGUN = Run(Ready())
"""The run before the first signal: the machine has not been asked for its own."""


@dataclass(slots=True)
class Subject:
    """The declarations for one conversation, and its facts so far.

    `settings` are those of the engine, with the policies that hold for the run; None for an agent.
    `deviations` are the invariants that the loop design does not keep, each with the reason, and
    `broken_pairs` the pairs that the scenario expects to be broken. `tools` are those of the world.
    `pairing` reads the calls and results of the run. `shared` is for what the invariants of one
    module keep together. `course` follows a machine; an
    agent has none, and an invariant that asks for it needs a machine.
    """

    scenario: Scenario | None = None
    machine: Machine | None = None
    settings: EngineSettings | None = None
    limits: Limits | DeclaredLimits | None = None
    retry: RetryPolicy | None = None
    deviations: Mapping[str, str] = field(default_factory=dict)
    broken_pairs: Sequence[str] = ()
    tools: Mapping[str, Tool] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    shared: dict[str, Any] = field(default_factory=dict)
    pairing: Pairing = field(init=False)
    course: Course = field(init=False, default=None)  # type: ignore[assignment] # see above

    def __post_init__(self) -> None:
        """Begin with an empty run."""
        self.pairing = Pairing(self.facts)
        if self.machine is not None and self.settings is not None:
            self.course = Course(self.machine, self.settings, self.facts)

    @classmethod
    def of(cls, run: Simulation) -> Self:
        """Return the subject of a run that is prepared or has been made."""
        loop = run.loop
        settings = run.settings if loop.machine is not None else None
        return cls(
            scenario=run.scenario,
            machine=loop.machine,
            settings=settings,
            limits=loop.declared_limits if settings is None else settings.limits,
            retry=loop.retry if settings is None else settings.retry,
            deviations=loop.deviations,
            broken_pairs=loop.expected.broken_pairs,
            tools=run.tools,
        )

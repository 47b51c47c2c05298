"""The protocol of a loop machine, and the check of its transitions against its map.

A machine is a Mealy machine: `advance(run, signal) -> (run, effects)`. It reads no clock, draws no
number and touches no world. Equal runs of one machine behave equally for ever after.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from msgspec import Struct, structs

from simloop.errors import InternalError
from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.policies import Policies
from simloop.kernel.signals import Signal
from simloop.kernel.states import ClosingStep, Finished, Ready, ReplyFacts, RunningTools
from simloop.messages import Outcome

Targets = frozenset[type[Struct]]
MapRow = Mapping[type[Struct], Targets]
LegalMap = Mapping[type[Struct], MapRow]
"""For each state, the signals it accepts, and for each of those the states it may lead to."""

END: Targets = frozenset({Finished})
ENDINGS: MapRow = {signals.AbortRequested: END, signals.WallClockExpired: END}
"""The row that most states of a map share: what ends a run from outside ends it."""
STEP_ENDINGS: MapRow = {signals.HookFailed: END, **ENDINGS}
RUNNING_TOOLS: MapRow = {signals.ToolsReturned: frozenset({ClosingStep}), **STEP_ENDINGS}


def row(signal: type[Struct], *targets: type[Struct]) -> MapRow:
    """Return the row of a state that one signal leaves, besides those that end a run."""
    return {signal: frozenset(targets), **ENDINGS}


def calling_model(*after_failure: type[Struct]) -> MapRow:
    """Return the row of a model call, which leads to one of these states if it fails."""
    replied: Targets = frozenset({RunningTools, ClosingStep})
    ends: MapRow = {signals.HookFailed: END, signals.CallBlocked: END, **ENDINGS}
    return {signals.ModelReplied: replied, signals.ModelFailed: frozenset(after_failure), **ends}


def closing_step(*targets: type[Struct]) -> MapRow:
    """Return the row of the end of a step, which leads to one of these states."""
    return {signals.StepClosed: frozenset(targets), **STEP_ENDINGS}


class Run(Struct, frozen=True, gc=False):
    """Everything that decides how a run continues; a counter that never decides stays 0."""

    state: Struct
    # In the reference loop, by design, none of them is ever reset (bug E6).
    error_count: int = 0  # failed or useless model calls
    total_steps: int = 0  # what each reply reports, at least 1; a call without a reply is no step
    compaction_attempts: int = 0  # normal and forced ones, whether or not they helped (bug B4)

    def to(self, state: Struct) -> Self:
        return structs.replace(self, state=state)


Transition = tuple[Run, tuple[Effect, ...]]


class Feature(StrEnum):
    """A feature that a scenario may request and that some loop designs lack."""

    HOOKS = "hooks"
    ABORT = "abort"
    COMPACTION = "compaction"
    EARLY_TOOLS = "early tools"  # tools that start while the reply goes on
    QUEUE = "queue"  # without one, what the user says meanwhile is the next prompt
    HISTORY = "history"  # a conversation that begins before the first prompt
    LIMITS = "limits"  # all but max_wall_clock
    TRIGGERS = "triggers"  # that follow an entry of the engine
    SYSTEM_PROMPT = "system prompt"
    POLICIES = "policies"  # retry, tool execution, hook isolation, notices


class Bound(NamedTuple):
    """A limit as exploration sees it: the counter of `Run`, and the value that ends a run.

    Count completed calls only, not calls in flight: a counter that includes the call under way
    passes its bound one call early. The counter goes up by one, or by the steps of a reply.
    """

    counter: str
    at: int
    resets: bool = False  # else it never goes down
    of_turns: bool = False  # a reply counts once, whatever it reports, and so does a compaction


class AbortRule(NamedTuple):
    """The effects and outcomes that a design may have after an abort, besides the usual ones."""

    effects: frozenset[type[Effect]] = frozenset()
    outcomes: frozenset[Outcome] = frozenset({Outcome.ABORTED})


class Machine(Protocol):
    """A loop design: any object with these attributes and methods.

    A machine may also have `abort_rule`, an `AbortRule`, if it does more after an abort than end as
    aborted, and `thresholds`, in the form of `bounds`: counts at which it decides in another way
    without being bounded by them. A design whose runs need not end, on purpose, says why in
    `endless`: exploration then guards all the rest. `deviations` are the invariants that its runs
    do not have, on purpose, each with the reason. `judge_as` names the bundled design whose
    expectations hold for a loop of the user's own.
    """

    name: str  # what scenarios call it
    legal: LegalMap  # its map
    policies: Policies  # what it does by default
    bounds: Mapping[str, Bound]  # by the limits that its runs end with, which it keeps exactly
    unsupported: Mapping[Feature, str]  # the reason for each feature that it lacks

    def start(self) -> Run:
        """Return the run before any signal has arrived."""

    def advance(self, run: Run, signal: Signal) -> Transition:
        """Return the next run after `signal`, and the effects that it requests."""


class Design:
    """The base of the bundled machines, which state their deviations as data.

    `deviates` has a row for each invariant: the options that break it, and the reason. `-name`
    breaks it if the option is off; without any option the design always breaks it.
    """

    unsupported: Mapping[Feature, str] = {}
    deviates: ClassVar[Mapping[str, tuple[str, str]]]
    options: Any

    @property
    def deviations(self) -> Mapping[str, str]:
        return {
            name: reason
            for name, (options, reason) in self.deviates.items()
            if not options or any(map(self._breaks, options.split()))
        }

    def _breaks(self, option: str) -> bool:
        return bool(getattr(self.options, option.removeprefix("-"))) != option.startswith("-")

    def start(self) -> Run:
        return Run(Ready())


class IllegalSignal(InternalError):  # noqa: N818 - what it is, in the machine's own words
    """A signal arrived in a state that does not wait for it."""


class IllegalTransition(InternalError):  # noqa: N818 - as above
    """A machine made a transition that is not on its map: `moved`."""

    def __init__(self, run: Run, signal: Signal, moved: Transition) -> None:
        wrong = f"{run.state} -> {moved[0].state} on {signal} is not on the map"
        super().__init__(f"{wrong}: please report this")
        self.moved = moved


def checked_transition(machine: Machine, run: Run, signal: Signal) -> Transition:
    """Return the transition of `machine` after a check against its map, as every driver does.

    Raises IllegalSignal if the state does not accept the signal: the machine is not asked then.
    Raises IllegalTransition if the transition is not on the map.
    """
    try:
        targets = machine.legal[type(run.state)][type(signal)]
    except KeyError:
        raise IllegalSignal(f"{run.state} does not wait for {signal}: please report this") from None
    moved = machine.advance(run, signal)
    if type(moved[0].state) not in targets:
        raise IllegalTransition(run, signal, moved)
    return moved


def finish(run: Run, outcome: Outcome, limit: str = "", message: str = "") -> Transition:
    """Return the end of a run: `limit` names the limit that ended it, `message` is for the user."""
    return run.to(Finished(outcome, limit)), (effects.EndRun(message),)


# A table, as exploration asks for these ends more often than for all others.
_ENDED_BY: Mapping[type[Struct], Finished] = {
    signals.AbortRequested: Finished(Outcome.ABORTED),
    signals.WallClockExpired: Finished(Outcome.TIMED_OUT, "max_wall_clock"),
    signals.HookFailed: Finished(Outcome.FAILED),
    signals.CallBlocked: Finished(Outcome.BLOCKED),
}
_WITHOUT_MESSAGE = (effects.EndRun(),)


def stop(run: Run, signal: Signal) -> Transition:
    """Return the end that a signal alone decides in any state, as most designs do."""
    return run.to(_ENDED_BY[type(signal)]), _WITHOUT_MESSAGE


def reply_of(run: Run) -> ReplyFacts:
    """Return the reply of the step that is under way."""
    state: Any = run.state  # ClosingStep or RunningTools, as the maps have it
    return state.reply  # type: ignore[no-any-return]


Edge = tuple[type[Struct], type[Struct], type[Struct]]
"""An edge of a map: the types of a state, a signal, and the state that it leads to."""

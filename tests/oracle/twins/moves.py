"""What the twins of all designs share: their moves, and what a design declares.

A twin says the same as a machine in another form, from the documentation alone: it uses nothing of
the machine but the types of its states. The usual policies are stated here again, too.
"""

import functools
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct

import simloop
from simloop.kernel import policies, signals, states
from simloop.kernel.effects import Effect, EndRun
from simloop.kernel.limits import Limits
from simloop.kernel.machine import AbortRule, Bound, Feature, Run
from simloop.kernel.names import describe
from simloop.kernel.policies import Policies
from simloop.kernel.retry import ExponentialBackoff
from simloop.kernel.signals import Signal
from simloop.messages import Outcome

Move = tuple[Run, tuple[Effect, ...]]
Places = Mapping[type[Struct], Collection[type[Struct]]]

NOT_BEGUN = Run(states.Ready(), error_count=0, total_steps=0, compaction_attempts=0)
_MOST_MOVES = 10_000
_MODEL_WAITS = (states.CallingModel,)
_STEP = (states.CallingModel, states.RunningTools, states.ClosingStep)
PLACES: Places = {
    signals.Began: (states.Ready,),
    signals.ModelReplied: _MODEL_WAITS,
    signals.ModelFailed: _MODEL_WAITS,
    signals.CallBlocked: _MODEL_WAITS,
    signals.ToolsReturned: (states.RunningTools,),
    signals.StepClosed: (states.ClosingStep,),
    signals.HookFailed: _STEP,
}
"""The states in which every design waits for a signal."""
OUTSIDE = (signals.AbortRequested, signals.WallClockExpired)
"""The signals that come in every state of a run that has begun and has not ended."""
_STOPPED_AS: Mapping[type[Struct], tuple[Outcome, str]] = {
    signals.AbortRequested: (Outcome.ABORTED, ""),
    signals.WallClockExpired: (Outcome.TIMED_OUT, "max_wall_clock"),
    signals.HookFailed: (Outcome.FAILED, ""),
    signals.CallBlocked: (Outcome.BLOCKED, ""),
}


class Counts(NamedTuple):
    """The counters of a run."""

    errors: int = 0
    steps: int = 0
    compactions: int = 0

    @classmethod
    def of(cls, run: Run) -> "Counts":
        return cls(run.error_count, run.total_steps, run.compaction_attempts)

    def to(self, state: Struct, *asked: Effect) -> Move:
        """Return the move that leads to this state, with these counters, and asks for that."""
        return Run(state, self.errors, self.steps, self.compactions), asked

    def end(self, outcome: Outcome, limit: str = "", /, **told: Any) -> Move:
        """Return the end of a run; `told` are the fields of its effect."""
        return self.to(states.Finished(outcome=outcome, limit=limit), EndRun(**told))

    def stop(self, signal: Signal, **told: Any) -> Move:
        """Return the end that a signal causes by itself."""
        return self.end(*_STOPPED_AS[type(signal)], **told)


class Declared(NamedTuple):
    """What a design declares of itself, for its options and limits."""

    policies: Policies
    bounds: Mapping[str, Bound] = {}
    thresholds: Mapping[str, Bound] = {}
    lacks: frozenset[Feature] = frozenset()
    after_abort: AbortRule = AbortRule()
    deviates: frozenset[str] = frozenset()

    def differs(self, machine: Any) -> str:
        """Return what a machine declares otherwise, or an empty text."""
        if machine.policies != self.policies:
            for name in Policies.__struct_fields__:
                own, right = getattr(machine.policies, name), getattr(self.policies, name)
                if own != right:
                    return f"the policy `{name}` is {own}, and its options say {right}"
        for name, own, right in (
            ("bounds", dict(machine.bounds), self.bounds),
            ("thresholds", dict(getattr(machine, "thresholds", {})), self.thresholds),
            ("unsupported", frozenset(machine.unsupported), self.lacks),
            ("abort_rule", getattr(machine, "abort_rule", AbortRule()), self.after_abort),
            ("deviations", frozenset(machine.deviations), self.deviates),
        ):
            if own != right:
                return f"`{name}` is {own}, and its options and limits say {right}"
        return ""


class Twin:
    """The second statement of a design, for its options and limits. Known moves are kept."""

    places: ClassVar[Places] = PLACES
    declared: Declared

    def __init__(self, options: Any, limits: Limits) -> None:
        self.options = options
        self.limits = limits
        self.known: dict[tuple[Run, Signal], Move | None] = {}

    def moved(self, before: Run, signal: Signal) -> Move | None:
        """Return the move of the design, or None if it does not wait for the signal."""
        if len(self.known) >= _MOST_MOVES:
            self.known.clear()
        move = self.move(before, signal) if self._waits(before, signal) else None
        self.known[before, signal] = move
        return move

    def _waits(self, before: Run, signal: Signal) -> bool:
        kind = type(before.state)
        if type(signal) in OUTSIDE:
            return kind is not states.Ready and kind is not states.Finished
        return kind in self.places.get(type(signal), ())

    def move(self, before: Run, signal: Signal) -> Move:
        raise NotImplementedError


def usual(**own: Any) -> Policies:
    """Return the policies of a design that has these of its own."""
    given: dict[str, Any] = {
        "retry": backoff(),
        "compaction": compaction(),
        "tool_execution": policies.ToolExecution(order=None, start=None, timeout_ms=None),
        "replies": policies.ReplyReading(
            finish_words=None, failing_words=frozenset(), lower_case_names=False, keep_failed=False
        ),
        "tool_rules": policies.ToolRules(convert=False, check_changed=True, results_fail=True),
        "hook_isolation": policies.HookIsolation(on_failure="isolate", timeout_ms=5_000),
        "hook_execution": policies.HookExecution(order="sequential"),
        "report_failed_tools": True,
        "sent_back": policies.SentBack(failed=True, reasoning=False),
        "abort_is_flag": False,
        "warn_after": None,
    }
    return Policies(**{**given, **own})


def backoff(first_ms: int = 2_000) -> ExponentialBackoff:
    return ExponentialBackoff(
        initial_delay_ms=first_ms, max_delay_ms=30_000, max_retry_after_ms=120_000, jitter=0.0
    )


def compaction(max_messages: int | None = None) -> policies.Compaction:
    return policies.Compaction(
        window=64_000, trigger_percent=75, target_percent=50, max_messages=max_messages,
        keep_turns=4, strategy="summarise",
    )  # fmt: skip


@functools.cache
def _stated(design: str) -> Mapping[str, Sequence[str]]:
    path = Path(simloop.__file__).parent / "loops" / f"{design}.json"
    rows: Mapping[str, Sequence[str]] = json.loads(path.read_text("utf-8"))["deviates"]
    return rows


def deviations(design: str, options: Any) -> frozenset[str]:
    """Return the invariants that a design breaks: by `name` if it is on, by `-name` if off."""
    found = []
    for name, (words, _) in _stated(design).items():
        broken = [
            bool(getattr(options, word.strip("-"))) is (word[0] != "-") for word in words.split()
        ]
        if not broken or True in broken:
            found.append(name)
    return frozenset(found)


def told(run: Run, asked: Sequence[Effect]) -> str:
    """Return a move in words."""
    state: Any = run.state
    where = [describe(state)]
    if isinstance(reply := getattr(state, "reply", None), states.ReplyFacts):
        where.append(f"after {describe(reply)}")
    counts = "/".join(map(str, Counts.of(run)))
    effects = " + ".join("(" + describe(each) + ")" for each in asked) or "nothing"
    return f"{effects}, then {' '.join(where)} with counters {counts}"

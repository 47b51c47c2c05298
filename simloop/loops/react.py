"""The ReAct loop of document 003: ask, act on one function call, observe, until there is none.

A round is one model call and at most one function call, and `max_rounds` of them are the only
bound that the document has.

The document decides by whether the reply holds a function call, and by nothing else: a cut-off,
filtered, empty or unfinished reply without one is the answer, and ends the run as completed. A
model call that fails ends it too; there is no retry. The limit is found after the last tool has
run. What was said stays in the history, so the next prompt goes on from there with a fresh budget.

Where the real program (try-agent) differs:

- all calls of a reply are run at once: the option `all_calls`.
- calls of a reply that ends with `length`, or without a finish, vanish; here they are run.
- `compressIfNeeded` shortens the history once per prompt; the document's loop never does.
- an unknown tool or a raising one gives `{error: ...}` and arguments are not validated; here the
  wording and the validation are those of document 001.
- two synthetic messages with the wall-clock time go before every request; here none do.
- it keeps in its history the value that a tool returned. Here the history keeps the text that the
  model reads, because every loop shares one history.
- a tool that is registered during a run can be called at once, and is offered from the next prompt
  on. Here the tools of a run are fixed, so that a trace can name them.
- a listener that throws leaves an unanswered call in the history; here callbacks are isolated.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, assert_never

from annotated_types import Ge

from simloop.kernel import effects
from simloop.kernel.checks import Checked
from simloop.kernel.limits import Limits
from simloop.kernel.machine import (
    END,
    ENDINGS,
    Bound,
    Feature,
    LegalMap,
    Run,
    Transition,
    deviating,
    finish,
    reply_of,
    stop,
)
from simloop.kernel.policies import Policies, ToolExecution, ToolOrder
from simloop.kernel.signals import (
    AbortRequested,
    BackoffElapsed,
    Began,
    CallBlocked,
    ContextCompacted,
    ContextMeasured,
    HookFailed,
    ModelFailed,
    ModelReplied,
    Signal,
    StepClosed,
    ToolsReturned,
    WallClockExpired,
)
from simloop.kernel.states import (
    CallingModel,
    ClosingStep,
    Finished,
    Ready,
    ReplyFacts,
    RunningTools,
)
from simloop.messages import Outcome

LEGAL: LegalMap = {
    Ready: {Began: frozenset({CallingModel})},
    CallingModel: {
        ModelReplied: frozenset({RunningTools, ClosingStep}),
        ModelFailed: END,
        HookFailed: END,
        CallBlocked: END,
        **ENDINGS,
    },
    RunningTools: {ToolsReturned: frozenset({ClosingStep}), HookFailed: END, **ENDINGS},
    ClosingStep: {StepClosed: frozenset({CallingModel, Finished}), HookFailed: END, **ENDINGS},
    Finished: {},
}
TOO_MANY_ROUNDS = "Max tool call rounds exceeded"

_CALL = (effects.CallModel(),)
_KEEP = (effects.CloseStep(keep=True),)


_ALWAYS = {
    "retryable-failures-retried": "the loop has no retry",
    "cut-off-replies-force-compaction": "the loop never shortens its history",
    "overflows-force-compaction": "the loop never shortens its history",
    "max-steps-per-round-enforced": "the loop counts rounds instead of the steps of a reply",
    "no-empty-replies-sent": "the loop keeps each reply, also an empty one",
    **dict.fromkeys(
        (
            "no-tools-for-incomplete-replies",
            "no-tools-for-failed-replies",
            "no-incomplete-replies-in-context",
            "broken-replies-end-runs",
            "completed-after-a-reply",
            "completed-after-a-complete-reply",
        ),
        "the design ignores the finish reason of a reply",
    ),
}
"""The invariants that the loop breaks by design with all options, with reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactOptions(Checked, at="loops.react"):
    """The options of the react loop."""

    max_rounds: Annotated[int, Ge(1)] | None = None
    """Model calls for one prompt; by default `limits.max_steps`, which is 100 by default."""
    all_calls: bool = False
    """Run every call of a reply, all at once, as the real program does."""

    def deviations(self) -> dict[str, str]:
        """Return the invariants that a loop with these options breaks by design, with reasons."""
        return _ALWAYS | deviating(
            (
                self.max_rounds is not None,
                "bounded-model-calls",
                "the loop has its own limit, max_rounds",
            ),
            (
                not self.all_calls,
                "replies-with-calls-kept",
                "the loop keeps only the first of several calls",
            ),
        )


class ReactLoop:
    """The machine. A round is a step: `total_steps` counts model calls that were answered."""

    name = "react"
    legal = LEGAL
    unsupported: Mapping[Feature, str] = {
        Feature.HOOKS: "react has no hooks",
        Feature.ABORT: "react has no way to stop a run",
        Feature.COMPACTION: "react never shortens its history",
        Feature.EARLY_TOOLS: "react starts a tool when the reply has ended",
        Feature.QUEUE: "react takes no messages while it runs",
    }

    def __init__(self, limits: Limits | None = None, options: ReactOptions | None = None) -> None:
        self.options = options or ReactOptions()
        self.max_rounds = self.options.max_rounds or (limits or Limits()).max_steps
        order = ToolOrder.PARALLEL if self.options.all_calls else ToolOrder.SEQUENTIAL
        self.policies = Policies(tool_execution=ToolExecution(order=order))
        self.bounds: Mapping[str, Bound] = {
            "max_rounds": Bound("total_steps", self.max_rounds, of_turns=True)
        }
        self._run_tools = (effects.RunTools(first_only=not self.options.all_calls),)

    @property
    def deviations(self) -> Mapping[str, str]:
        """Return the invariants that the design does not keep, each with the reason."""
        return self.options.deviations()

    def start(self) -> Run:
        """Return the run before any signal has arrived."""
        return Run(Ready())

    def advance(self, run: Run, signal: Signal) -> Transition:
        """Return the next run and the effects that it requests: see `Machine.advance`."""
        match signal:
            case Began():
                return run.to(CallingModel()), _CALL
            case ModelReplied():
                return self._take_reply(run, signal)
            case ToolsReturned():
                return run.to(ClosingStep(reply_of(run))), _KEEP
            case StepClosed():
                return self._go_on(run) if reply_of(run).calls else finish(run, Outcome.COMPLETED)
            case ModelFailed():
                return finish(run, Outcome.FAILED)
            case AbortRequested() | WallClockExpired() | HookFailed() | CallBlocked():
                return stop(run, signal)
            case ContextMeasured() | ContextCompacted() | BackoffElapsed():
                raise AssertionError("never asked for, so refused by the map")
            case _:
                assert_never(signal)

    def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
        reply = ReplyFacts(signal.finish, signal.text, signal.calls)
        counted = Run(run.state, total_steps=run.total_steps + 1)
        if reply.calls:
            return counted.to(RunningTools(reply)), self._run_tools
        return counted.to(ClosingStep(reply)), _KEEP

    def _go_on(self, run: Run) -> Transition:
        """Begin the next round, or end the run after the last round, whose tool has run."""
        if run.total_steps >= self.max_rounds:
            return finish(run, Outcome.MAX_STEPS, "max_rounds", TOO_MANY_ROUNDS)
        return run.to(CallingModel()), _CALL

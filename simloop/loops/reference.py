"""The documented loop (documents 000/002) as a Mealy machine, with its known risks mended.

Every decision about where a run goes next is made in this file. Not here: how anything is done
(sim), or how long to wait (kernel/retry.py). The rule to keep: every path that goes on spends some
budget (steps, errors or compactions), so that the loop ends whatever the model does.

Where it differs from the documented program on purpose (the numbers are those of the catalogue of
real bugs; simloop/ARCHITECTURE.md says more about each):

- `stop` that carries tool calls runs them and goes on (D13).
- `length` with tool calls executes none of them; each gets an error result (A9, D11). For this,
  tools start after the reply, and not when called as the documents have it (section 5): running a
  truncated call is impossible. `tool_execution: {start: when-called}` gives this up.
- `tool-calls` without calls (A2), an empty reply (A11, A15) and a stream that ends without a finish
  (C6) count as errors; an unknown finish reason with text completes the run (A1, A12).
- an overflow error forces a compaction instead of counting as an error (B1, B17).
- compactions are counted when tried, not when they succeed (B4).
- a failing tool also reports `on_tool_result` (D20), and a failed model call tells nothing to
  `after_llm_call`, as at 527e790; 8b75a91 does. Its `onToolInputStart`, `Delta` and `End` are parts
  that `on_chunk` sees; `onToolCall` of a plugin is not modelled.
- a message that the user queues is sent with the next request; a run that would be completed goes
  on with it instead (B12).
"""

from collections.abc import Mapping
from typing import assert_never

from msgspec import Struct

from simloop.kernel import effects
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import (
    END,
    ENDINGS,
    Bound,
    Feature,
    LegalMap,
    Run,
    Transition,
    finish,
    on_the_map,
    reply_of,
    stop,
)
from simloop.kernel.policies import Policies, ToolExecution, ToolStart
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
    BackingOff,
    CallingModel,
    ClosingStep,
    Compacting,
    Finished,
    Measuring,
    Ready,
    Reply,
    RunningTools,
)
from simloop.messages import FinishReason, Outcome

_AFTER_FAILURE: frozenset[type[Struct]] = frozenset({BackingOff, Compacting, Finished})

LEGAL: LegalMap = {
    Ready: {Began: frozenset({Measuring})},
    Measuring: {ContextMeasured: frozenset({Compacting, CallingModel}), **ENDINGS},
    Compacting: {
        ContextCompacted: frozenset({Measuring, CallingModel, Finished}),
        **ENDINGS,
    },
    CallingModel: {
        ModelReplied: frozenset({RunningTools, ClosingStep}),
        ModelFailed: _AFTER_FAILURE,
        HookFailed: END,
        CallBlocked: END,
        **ENDINGS,
    },
    RunningTools: {
        ToolsReturned: frozenset({ClosingStep}),
        HookFailed: END,
        **ENDINGS,
    },
    ClosingStep: {
        StepClosed: frozenset({Measuring, BackingOff, Compacting, Finished}),
        HookFailed: END,
        **ENDINGS,
    },
    BackingOff: {BackoffElapsed: frozenset({Measuring}), **ENDINGS},
    Finished: {},
}

# States without data and the effects of every round are built once: they never change.
_MEASURING, _CALLING, _BACKING_OFF = Measuring(), CallingModel(), BackingOff()
_MEASURE = (effects.TakeQueued(), effects.MeasureContext())
_CALL = (effects.CallModel(),)
_RUN_TOOLS = (effects.RunTools(),)
_KEEP, _DROP = (effects.CloseStep(keep=True),), (effects.CloseStep(keep=False),)

_RUNS_ITS_CALLS = frozenset({FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER})
_KEEPS_ITS_TEXT = _RUNS_ITS_CALLS - {FinishReason.TOOL_CALLS} | {FinishReason.CONTENT_FILTER}


class ReferenceLoop:
    """The machine. `limits` are part of it: equal runs of one machine behave equally."""

    name = "reference"
    legal = LEGAL
    policies = Policies(tool_execution=ToolExecution(start=ToolStart.AFTER_REPLY))
    lacks: Mapping[Feature, str] = {}

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.bounds: Mapping[str, Bound] = {
            "max_error_count": Bound("error_count", self.limits.max_error_count),
            "max_steps": Bound("total_steps", self.limits.max_steps),
            "max_compaction_attempts": Bound(
                "compaction_attempts", self.limits.max_compaction_attempts
            ),
        }

    def start(self) -> Run:
        """The run before anything has happened."""
        return Run(Ready())

    def advance(self, run: Run, signal: Signal) -> Transition:
        """Where `signal` leads `run`, and what is asked of the world: see `Machine.advance`."""
        return on_the_map(LEGAL, self._decide, run, signal)

    def _decide(self, run: Run, signal: Signal) -> Transition:
        match signal:
            case ContextMeasured(over=over):
                return self._enter_round(run, over=over)
            case ModelReplied():
                return self._take_reply(run, signal)
            case ToolsReturned():
                reply = reply_of(run)
                broken = reply.finish is FinishReason.INTERRUPTED
                return run.to(ClosingStep(reply)), _DROP if broken else _KEEP
            case StepClosed(steering=steering, follow_up=follow_up):
                return self._follow(run, reply_of(run), queued=steering or follow_up)
            case Began() | BackoffElapsed():
                return run.to(_MEASURING), _MEASURE
            case ContextCompacted(shrunk=shrunk):
                return self._resume(run, shrunk=shrunk)
            case ModelFailed(error=error, retryable=retryable):
                if error is ErrorClass.OVERFLOW:
                    return self._make_room(run)
                return self._recover(run, retryable=retryable)
            case AbortRequested() | WallClockExpired() | HookFailed() | CallBlocked():
                return stop(run, signal)
            case _:
                assert_never(signal)

    def _enter_round(self, run: Run, *, over: bool) -> Transition:
        """Compact if the context is over the trigger and an attempt is left, else call anyway.

        Over the trigger is not over the window: the documents go on when attempts are used up.
        """
        if over and run.compaction_attempts < self.limits.max_compaction_attempts:
            return run.to(Compacting(forced=False)), (effects.Compact(forced=False),)
        return run.to(_CALLING), _CALL

    def _resume(self, run: Run, *, shrunk: bool) -> Transition:
        assert isinstance(run.state, Compacting)
        forced = run.state.forced
        tried = Run(run.state, run.error_count, run.total_steps, run.compaction_attempts + 1)
        if shrunk:
            return tried.to(_MEASURING), _MEASURE
        if forced:
            return finish(tried, Outcome.CONTEXT_LIMIT)
        return tried.to(_CALLING), _CALL

    def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
        """Count its steps, answer its calls by running or refusing them, then close the step."""
        burst = signal.steps > self.limits.max_steps_per_round
        reply = Reply(signal.finish, signal.text, signal.calls, burst)
        total_steps = run.total_steps + signal.steps
        if not signal.calls:
            closing = Run(ClosingStep(reply), run.error_count, total_steps, run.compaction_attempts)
            return closing, _KEEP if signal.text and signal.finish in _KEEPS_ITS_TEXT else _DROP
        tools = Run(RunningTools(reply), run.error_count, total_steps, run.compaction_attempts)
        if signal.finish in _RUNS_ITS_CALLS:
            return tools, _RUN_TOOLS
        return tools, (effects.RefuseTools(signal.finish),)

    def _follow(self, run: Run, reply: Reply, *, queued: bool) -> Transition:
        """The table of documents 000/002 section 6. A queued message goes on where it says stop."""
        match reply.finish:
            case FinishReason.CONTENT_FILTER:
                return finish(run, Outcome.CONTENT_FILTERED)
            case FinishReason.ERROR:
                return finish(run, Outcome.MODEL_ERROR)
            case FinishReason.LENGTH:
                return self._make_room(run)
            case FinishReason.INTERRUPTED:
                return self._recover(run, retryable=True)
            case FinishReason.STOP | FinishReason.TOOL_CALLS | FinishReason.OTHER:
                done = reply.text and reply.finish is not FinishReason.TOOL_CALLS
                if reply.calls or (done and queued):
                    return self._exceeded(run) or (run.to(_MEASURING), _MEASURE)
                if done:
                    return finish(run, Outcome.COMPLETED)
                return self._recover(run, retryable=True)
            case _:
                assert_never(reply.finish)

    def _recover(self, run: Run, *, retryable: bool) -> Transition:
        """Error count first, then the policy's word, then give up (documents, section 7)."""
        failed = Run(run.state, run.error_count + 1, run.total_steps, run.compaction_attempts)
        if failed.error_count >= self.limits.max_error_count:
            return finish(failed, Outcome.TOO_MANY_ERRORS, "max_error_count")
        if not retryable:
            return finish(failed, Outcome.FAILED)
        backoff = (effects.Backoff(failed.error_count),)
        return self._exceeded(failed) or (failed.to(_BACKING_OFF), backoff)

    def _make_room(self, run: Run) -> Transition:
        """Force a compaction: the context is too long to go on with, or was for the provider."""
        if run.compaction_attempts >= self.limits.max_compaction_attempts:
            return finish(run, Outcome.CONTEXT_LIMIT, "max_compaction_attempts")
        forced = (effects.Compact(forced=True),)
        return self._exceeded(run) or (run.to(Compacting(forced=True)), forced)

    def _exceeded(self, run: Run) -> Transition | None:
        """The end of a run that would go on, but has no steps left or reported too many at once."""
        if isinstance(run.state, ClosingStep) and run.state.reply.burst:
            return finish(run, Outcome.MAX_STEPS, "max_steps_per_round")
        if run.total_steps >= self.limits.max_steps:
            return finish(run, Outcome.MAX_STEPS, "max_steps")
        return None

"""The documented loop (documents 000/002) as a Mealy machine, with its known risks mended.

How it works. A round asks four times: measure the context, call the model, run the tools of the
reply, close the step. Each answer is one signal, and `advance` decides alone by the state, the
counters and that signal where the run goes next. `LEGAL` lists every way that it may take; the
driver and exploration check each transition against it, and no decision is made anywhere else.

Why it ends. The model may reply what it likes, for ever, and each way back to `Measuring` spends a
budget that nothing gives back:

- a reply, with or without calls, adds the steps that it reports, at least one, to `total_steps`,
  and wherever the run would go on, `max_steps` is tested;
- a failed call, and a reply that is of no use (no text and no calls, calls that are announced and
  missing, a stream without a finish), adds one to `error_count`, which `max_error_count` ends;
- a compaction that is tried, whether it helps or not, adds one to `compaction_attempts`: past
  `max_compaction_attempts` a context over the trigger is sent as it is, and one that the provider
  finds too long ends the run.

So the longest run has a length, which exploration computes from the limits.

Each mend is an option of `ReferenceOptions`, on in the reference loop and off in
`reference@documented`; its docstring says what happens without it. docs/loops.md says which real
bugs they answer.

Tools start after the reply, and not when called as the documents have it (section 5): the loop
decides about a reply before any of its calls runs, so that running a truncated call is impossible.
`tool_execution: {start: when-called}` gives this up.

A failed model call does not run the `after_llm_call` hooks, as in the documented program; a later
version of that program runs them. The `onToolInputStart`, `Delta` and `End` of the later version
are parts that `on_chunk` sees; `onToolCall` of a plugin is not modelled.

`reference@documented` differs from the documents in these points. A reply counts at least one step,
without which `tool-calls` could go on for ever. A failing callback is recorded and goes no further,
where the documents count an error. A hook that fails ends the run at once, and does not count as an
error. The world around a run is that of all loops: compaction, timeouts of model calls, the wall
clock, the wording of results.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields

from msgspec import Struct

from simloop.kernel import effects
from simloop.kernel.checks import Checked
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import (
    END,
    ENDINGS,
    AbortRule,
    Bound,
    Feature,
    LegalMap,
    Run,
    Transition,
    finish,
    reply_of,
    stop,
)
from simloop.kernel.policies import (
    HookIsolation,
    OnHookFailure,
    Policies,
    ToolExecution,
    ToolStart,
)
from simloop.kernel.retry import ExponentialBackoff, StatusRetry
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
)
from simloop.kernel.states import (
    BackingOff,
    CallingModel,
    ClosingStep,
    Compacting,
    Finished,
    Halting,
    Measuring,
    Ready,
    ReplyFacts,
    RunningTools,
)
from simloop.messages import FinishReason, Outcome

_DEVIATIONS = {
    "last-message-role": (
        "drop_unused_text missing_calls_fail",
        "the context keeps text that was cut off, or that announced missing calls",
    ),
    "no-tools-for-incomplete-replies": (
        "refuse_cut_calls",
        "the loop runs the calls of a reply that was cut off",
    ),
    "no-tools-for-failed-replies": (
        "refuse_cut_calls",
        "the loop runs the calls of a reply with any finish reason",
    ),
    "nothing-starts-after-stop": (
        "abort_in_backoff",
        "the loop notices an abort in a backoff at the next model call",
    ),
    "outcome-matches-stop": (
        "abort_in_backoff",
        "a run may end before the loop notices an abort in a backoff",
    ),
    "stopped-run-ends-in-time": (
        "abort_in_backoff isolate_hooks",
        "the loop notices an abort only after the backoff",
    ),
    "replies-with-calls-kept": (
        "keep_stopped_step",
        "the context keeps no message of a stopped step",
    ),
    "completed-without-open-calls": (
        "calls_go_on",
        "a reply with calls and the finish reason `stop` ends the run",
    ),
    "no-incomplete-replies-in-context": (
        "unfinished_fails",
        "a stream without a finish reason completes the run, and its text is kept",
    ),
    "completed-after-a-reply": (
        "unfinished_fails",
        "a stream without a finish reason completes the run",
    ),
    "completed-after-a-complete-reply": (
        "unfinished_fails",
        "a finish reason for a lost provider completes the run",
    ),
    "message-matches-last-reply": (
        "report_early_end",
        "if the last reply has no text, the run ends with a text of the loop",
    ),
    "useless-replies-count-as-errors": (
        "missing_calls_fail empty_reply_fails unfinished_fails",
        "a useless reply ends the run, or leads to a further step",
    ),
    "overflows-force-compaction": (
        "overflow_compacts",
        "the loop treats an overflow like any other error",
    ),
    "max-compaction-attempts-enforced": (
        "count_tries",
        "the loop counts only compactions that make the context smaller",
    ),
    "max-steps-per-round-enforced": (
        "bound_bursts",
        "the loop does not bound the steps that one reply reports",
    ),
}
"""The invariants that the loop breaks if one of these options is off, and the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOptions(Checked, at="loops.reference"):
    """The fixes that the reference loop has: by default all of them."""

    calls_go_on: bool = True
    """A reply with calls goes on after `stop` and unknown finish reasons. Without: it ends the run,
    and the model never sees the results."""
    tools_after_reply: bool = True
    """Tools start when the reply has ended. Without: when their call arrives."""
    refuse_cut_calls: bool = True
    """The calls of a reply that was cut off, filtered or broken get error results. Without: they
    run."""
    missing_calls_fail: bool = True
    """`tool-calls` without calls is an error. Without: the loop goes on, up to `max_steps`."""
    empty_reply_fails: bool = True
    """A reply with neither text nor calls is an error. Without: it completes the run."""
    unfinished_fails: bool = True
    """A stream that ends without a finish is an error. Without: it completes the run."""
    drop_unused_text: bool = True
    """Text that was cut off, or that announced missing calls, is not kept. Without: it is, and the
    next request ends with an assistant message."""
    steps_bound_all: bool = True
    """`max_steps` is tested wherever the run would go on. Without: after `tool-calls` only."""
    bound_bursts: bool = True
    """`max_steps_per_round` bounds the steps of one reply, wherever the run would go on. Without:
    nothing does."""
    count_tries: bool = True
    """A compaction counts when it is tried. Without: when it helps."""
    overflow_compacts: bool = True
    """A context overflow forces a compaction. Without: it is an error like any other."""
    classify_errors: bool = True
    """Errors are retried by their class. Without: by the statuses 429, 500, 502 and 503."""
    honour_retry_after: bool = True
    """Retry-After sets the delay. Without: it is ignored."""
    abort_in_backoff: bool = True
    """An abort ends the wait before a retry. Without: the wait goes on to its end, and the next
    call comes back as aborted."""
    keep_stopped_step: bool = True
    """A step that is stopped stays in the context, with its calls answered. Without: nothing of it
    stays."""
    take_queue: bool = True
    """A message that the user queues is sent with the next request. Without: as the next prompt."""
    report_failed_tools: bool = True
    """`after_tool_call` hooks and `on_tool_result` receive failed calls. Without: they do not."""
    report_early_end: bool = True
    """The user gets a message that a run has ended early, and why. Without: the user gets the text
    of the last reply, if it has any. The documents print "fallback text"; their program takes it
    for that."""
    isolate_hooks: bool = True
    """A hook that fails is left out, and one that hangs is given up. Without: a failure ends the
    run, and nothing bounds a hook."""

    def deviations(self) -> dict[str, str]:
        """Return the invariants that a loop with these options breaks by design, with reasons."""
        return {
            name: reason
            for name, (options, reason) in _DEVIATIONS.items()
            if not all(getattr(self, option) for option in options.split())
        }

    @functools.lru_cache(maxsize=32)  # noqa: B019 - options are frozen, and few of them differ
    def policies(self) -> Policies:
        """Return the policies of the loop with these options; equal options share them."""
        start = ToolStart.AFTER_REPLY if self.tools_after_reply else ToolStart.WHEN_CALLED
        unbounded = HookIsolation(on_failure=OnHookFailure.FAIL_RUN, timeout_ms=None)
        mended = self.classify_errors and self.honour_retry_after
        return Policies(
            retry=ExponentialBackoff() if mended else self._retry(),
            tool_execution=ToolExecution(start=start),
            hook_isolation=HookIsolation() if self.isolate_hooks else unbounded,
            report_failed_tools=self.report_failed_tools,
        )

    def _retry(self) -> StatusRetry:
        return StatusRetry(
            by_status=not self.classify_errors, honours_retry_after=self.honour_retry_after
        )


DOCUMENTED = ReferenceOptions(**{field.name: False for field in fields(ReferenceOptions)})
VERSIONS: Mapping[str, ReferenceOptions] = {"documented": DOCUMENTED}
"""The loop as documents 000/002 print it: without any mend."""


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
# The wait before a retry swallows an abort, and the next call finds it.
_LEGAL_WITH_HALTING: LegalMap = {
    **LEGAL,
    BackingOff: {**LEGAL[BackingOff], AbortRequested: frozenset({Halting})},
    Halting: {ModelFailed: END, **ENDINGS},
}

# States without data and the effects of every round are built once: they never change.
_MEASURING, _CALLING, _BACKING_OFF = Measuring(), CallingModel(), BackingOff()
_MEASURE = (effects.TakeQueued(), effects.MeasureContext())
_CALL = (effects.CallModel(),)
_RUN_TOOLS = (effects.RunTools(),)
_KEEP, _DROP = (effects.CloseStep(keep=True),), (effects.CloseStep(keep=False),)

# Members of an Enum are looked up slowly in their class.
_TOOL_CALLS, _LENGTH = FinishReason.TOOL_CALLS, FinishReason.LENGTH
_CONTENT_FILTER, _ERROR = FinishReason.CONTENT_FILTER, FinishReason.ERROR
_INTERRUPTED = FinishReason.INTERRUPTED

_CALL_ABORTED = (effects.CallModel(aborted=True),)
_RUNS_ITS_CALLS = frozenset({FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER})
_KEEPS_ITS_TEXT = _RUNS_ITS_CALLS - {FinishReason.TOOL_CALLS} | {FinishReason.CONTENT_FILTER}


def _limits(limits: Limits) -> Mapping[str, Bound]:
    return {
        "max_error_count": Bound("error_count", limits.max_error_count),
        "max_steps": Bound("total_steps", limits.max_steps),
        "max_compaction_attempts": Bound("compaction_attempts", limits.max_compaction_attempts),
    }


class ReferenceLoop:
    """The machine. `limits` are part of it: equal runs of one machine behave equally."""

    name = "reference"

    def __init__(
        self, limits: Limits | None = None, options: ReferenceOptions | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.options = options or ReferenceOptions()
        self._stopped = (effects.EndRun(keep=self.options.keep_stopped_step),)
        self._ended = (effects.EndRun(text_first=not self.options.report_early_end),)
        self.policies = self.options.policies()
        self.legal = LEGAL if self.options.abort_in_backoff else _LEGAL_WITH_HALTING
        self.unsupported: Mapping[Feature, str] = (
            {} if self.options.take_queue else {Feature.QUEUE: "reference@documented has no queue"}
        )
        # A limit that is tested on some ways only, or counted only sometimes, bounds nothing.
        kept = {
            "max_error_count": True,
            "max_steps": self.options.steps_bound_all,
            "max_compaction_attempts": self.options.count_tries,
        }
        stated = _limits(self.limits)
        self.bounds: Mapping[str, Bound] = {n: b for n, b in stated.items() if kept[n]}
        self.thresholds = {n: b for n, b in stated.items() if not kept[n]}
        last_try: set[type[Effect]] = (
            set() if self.options.abort_in_backoff else {effects.CallModel}
        )
        self.abort_rule = AbortRule(frozenset(last_try))

    @property
    def deviations(self) -> Mapping[str, str]:
        """Return the invariants that the design does not keep, each with the reason."""
        return self.options.deviations()

    def start(self) -> Run:
        """Return the run before any signal has arrived."""
        return Run(Ready())

    def advance(self, run: Run, signal: Signal) -> Transition:
        """Return the next run and the effects that it requests: see `Machine.advance`."""
        # A class pattern that fails on a Struct takes longer than the decision.
        if type(signal) is ContextMeasured:
            return self._enter_round(run, over=signal.over)
        if type(signal) is ModelReplied:
            return self._take_reply(run, signal)
        if type(signal) is ToolsReturned:
            reply = reply_of(run)
            state = ClosingStep(reply)
            closing = Run(state, run.error_count, run.total_steps, run.compaction_attempts)
            return closing, _DROP if self._is_broken(reply.finish) else _KEEP
        if type(signal) is StepClosed:
            queued = (signal.steering or signal.follow_up) and self.options.take_queue
            return self._follow(run, reply_of(run), queued=queued)
        return self._decide_rarely(run, signal)

    def _decide_rarely(self, run: Run, signal: Signal) -> Transition:
        if type(signal) is ModelFailed:
            if signal.error is ErrorClass.ABORTED:
                return self._stop(run, AbortRequested())
            if signal.error is ErrorClass.OVERFLOW and self.options.overflow_compacts:
                return self._make_room(run)
            return self._recover(run, retryable=signal.retryable)
        if type(signal) is ContextCompacted:
            return self._resume(run, shrunk=signal.shrunk)
        if type(signal) is Began or type(signal) is BackoffElapsed:
            return self._measure(run)
        return self._stop(run, signal)

    def _measure(self, run: Run) -> Transition:
        measuring = Run(_MEASURING, run.error_count, run.total_steps, run.compaction_attempts)
        return measuring, _MEASURE if self.options.take_queue else _MEASURE[1:]

    def _stop(self, run: Run, signal: Signal) -> Transition:
        waits = type(run.state) is BackingOff and not self.options.abort_in_backoff
        if waits and type(signal) is AbortRequested:
            return run.to(Halting()), _CALL_ABORTED
        return stop(run, signal)[0], self._stopped

    def _finish(self, run: Run, outcome: Outcome, limit: str = "") -> Transition:
        return finish(run, outcome, limit)[0], self._ended

    def _enter_round(self, run: Run, *, over: bool) -> Transition:
        """Compact if the context is over the trigger and an attempt is left, else call anyway.

        Over the trigger is not over the window: the documents go on when attempts are used up.
        """
        if over and run.compaction_attempts < self.limits.max_compaction_attempts:
            return run.to(Compacting(forced=False)), (effects.Compact(forced=False),)
        # Written out, as it is in each transition that every round takes: `run.to` is slow.
        return Run(_CALLING, run.error_count, run.total_steps, run.compaction_attempts), _CALL

    def _resume(self, run: Run, *, shrunk: bool) -> Transition:
        assert isinstance(run.state, Compacting)
        forced = run.state.forced
        attempts = run.compaction_attempts + (shrunk or self.options.count_tries)
        tried = Run(run.state, run.error_count, run.total_steps, attempts)
        if shrunk:
            return self._measure(tried)
        if forced:
            return self._finish(tried, Outcome.CONTEXT_LIMIT)
        return tried.to(_CALLING), _CALL

    def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
        burst = self.options.bound_bursts and signal.steps > self.limits.max_steps_per_round
        reply = ReplyFacts(signal.finish, signal.text, signal.calls, burst)
        total_steps = run.total_steps + signal.steps
        if not signal.calls:
            closing = Run(ClosingStep(reply), run.error_count, total_steps, run.compaction_attempts)
            return closing, _KEEP if signal.text and self._keeps_text(signal.finish) else _DROP
        tools = Run(RunningTools(reply), run.error_count, total_steps, run.compaction_attempts)
        if signal.finish in _RUNS_ITS_CALLS or not self.options.refuse_cut_calls:
            return tools, _RUN_TOOLS
        return tools, (effects.RefuseTools(signal.finish),)

    def _is_broken(self, finish: FinishReason) -> bool:
        return finish is _INTERRUPTED and self.options.unfinished_fails

    def _keeps_text(self, finish: FinishReason) -> bool:
        if finish is _INTERRUPTED:
            return not self._is_broken(finish)
        return finish in _KEEPS_ITS_TEXT or not self.options.drop_unused_text

    def _follow(self, run: Run, reply: ReplyFacts, *, queued: bool) -> Transition:
        """Apply the table of documents 000/002 section 6; a queued message overrides its stop."""
        reason = reply.finish
        if reason is _TOOL_CALLS:
            if reply.calls or not self.options.missing_calls_fail:
                return self._exceeded(run) or self._measure(run)
            return self._recover(run, retryable=True)
        if reason is _LENGTH:
            return self._make_room(run)
        if reason is _CONTENT_FILTER:
            return self._finish(run, Outcome.CONTENT_FILTERED)
        if reason is _ERROR:
            return self._finish(run, Outcome.MODEL_ERROR)
        return self._answer(run, reply, queued=queued)

    def _answer(self, run: Run, reply: ReplyFacts, *, queued: bool) -> Transition:
        """Take a reply that does not announce calls for the last one, if it is of any use."""
        if self._is_broken(reply.finish):
            return self._recover(run, retryable=True)
        if reply.calls and self.options.calls_go_on:
            return self._exceeded(run) or self._measure(run)
        if not (reply.text or reply.calls) and self.options.empty_reply_fails:
            return self._recover(run, retryable=True)
        if queued:
            return self._exceeded(run) or self._measure(run)
        return self._finish(run, Outcome.COMPLETED)

    def _recover(self, run: Run, *, retryable: bool) -> Transition:
        """Check the error count, then the retry policy; else end the run (documents, section 7)."""
        failed = Run(run.state, run.error_count + 1, run.total_steps, run.compaction_attempts)
        if failed.error_count >= self.limits.max_error_count:
            return finish(failed, Outcome.TOO_MANY_ERRORS, "max_error_count")
        if not retryable:
            return finish(failed, Outcome.FAILED)
        polls = not self.options.abort_in_backoff
        backoff = (effects.Backoff(failed.error_count, polls=polls),)
        return self._exceeded_on_a_detour(failed) or (failed.to(_BACKING_OFF), backoff)

    def _make_room(self, run: Run) -> Transition:
        """Force a compaction: the context is too long to go on with, or was for the provider."""
        if run.compaction_attempts >= self.limits.max_compaction_attempts:
            return self._finish(run, Outcome.CONTEXT_LIMIT, "max_compaction_attempts")
        forced = (effects.Compact(forced=True),)
        return self._exceeded_on_a_detour(run) or (run.to(Compacting(forced=True)), forced)

    def _exceeded_on_a_detour(self, run: Run) -> Transition | None:
        """Return the end of a run that would retry or compact, as the options bound these."""
        return self._exceeded(run) if self.options.steps_bound_all else self._burst(run)

    def _exceeded(self, run: Run) -> Transition | None:
        burst = self._burst(run)
        if burst is None and run.total_steps >= self.limits.max_steps:
            return self._finish(run, Outcome.MAX_STEPS, "max_steps")
        return burst

    def _burst(self, run: Run) -> Transition | None:
        if type(run.state) is ClosingStep and run.state.reply.burst:
            return self._finish(run, Outcome.MAX_STEPS, "max_steps_per_round")
        return None

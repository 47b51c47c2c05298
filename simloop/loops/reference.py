"""The loop that docs/loops.md describes first, as a Mealy machine, with its known risks mended.

That page says how a round goes, what each finish reason decides, and why the loop ends: each way
back to `Measuring` spends a budget that nothing gives back. Each mend is an option of
`ReferenceOptions`, on in the reference loop and off in `reference@documented`.

Tools start after the reply, and not when they are called, as it was described: the loop
decides about a reply before any of its calls runs, so that running a truncated call is impossible.
`tool_execution: {start: when-called}` gives this up.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from simloop.kernel import effects, machine, policies, signals, states
from simloop.kernel.checks import Checked
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Bound, Feature, Run, Transition, finish, reply_of, stop
from simloop.kernel.retry import ExponentialBackoff, StatusRetry
from simloop.kernel.signals import Signal
from simloop.kernel.states import ReplyFacts
from simloop.messages import FinishReason, Outcome


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
    """`max_steps` is tested wherever the run would go on. Without: not before a retry, or a
    compaction for lack of room."""
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

    @functools.lru_cache(maxsize=32)  # noqa: B019 - options are frozen, and few of them differ
    def policies(self) -> policies.Policies:
        by_class, honours = self.classify_errors, self.honour_retry_after
        documented = StatusRetry(by_status=not by_class, honours_retry_after=honours)
        start: policies.ToolStart = "after-reply" if self.tools_after_reply else "when-called"
        return policies.Policies(
            retry=ExponentialBackoff() if by_class and honours else documented,
            tool_execution=policies.ToolExecution(start=start),
            hook_isolation=policies.HookIsolation() if self.isolate_hooks else _FAILING,
            report_failed_tools=self.report_failed_tools,
        )


_FAILING = policies.HookIsolation(on_failure="fail-run", timeout_ms=None)

DOCUMENTED = ReferenceOptions(**{field.name: False for field in fields(ReferenceOptions)})
VERSIONS: Mapping[str, ReferenceOptions] = {"documented": DOCUMENTED}
"""The loop as it was described: without any mend."""

_AFTER_FAILURE: machine.Targets = frozenset({states.BackingOff, states.Compacting, states.Finished})
LEGAL: machine.LegalMap = {
    states.Ready: {signals.Began: frozenset({states.Measuring})},
    states.Measuring: machine.row(signals.ContextMeasured, states.Compacting, states.CallingModel),
    states.Compacting: machine.row(
        signals.ContextCompacted, states.Measuring, states.CallingModel, states.Finished
    ),
    states.CallingModel: machine.calling_model(*_AFTER_FAILURE),
    states.RunningTools: machine.RUNNING_TOOLS,
    states.ClosingStep: machine.closing_step(*_AFTER_FAILURE, states.Measuring),
    states.BackingOff: machine.row(signals.BackoffElapsed, states.Measuring),
    states.Finished: {},
}
# The wait before a retry swallows an abort, and the next call finds it.
_ABORTED: machine.MapRow = {signals.AbortRequested: frozenset({states.Halting})}
_LEGAL_WITH_HALTING: machine.LegalMap = {
    **LEGAL, states.BackingOff: {**LEGAL[states.BackingOff], **_ABORTED},
    states.Halting: machine.row(signals.ModelFailed, states.Finished),
}  # fmt: skip

# States without data and the effects of every round are built once: they never change.
_MEASURING, _CALLING, _BACKING_OFF = states.Measuring(), states.CallingModel(), states.BackingOff()
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


class ReferenceLoop(machine.Design):
    """The machine. `limits` are part of it: equal runs of one machine behave equally."""

    name = "reference"
    deviates = json.loads(Path(__file__).with_name("reference.json").read_text("utf-8"))["deviates"]

    def __init__(
        self, limits: Limits | None = None, options: ReferenceOptions | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.options = options or ReferenceOptions()
        self._stopped = (effects.EndRun(keep=self.options.keep_stopped_step),)
        self._ended = (effects.EndRun(text_first=not self.options.report_early_end),)
        self.policies = self.options.policies()
        self.legal = LEGAL if self.options.abort_in_backoff else _LEGAL_WITH_HALTING
        if not self.options.take_queue:
            self.unsupported = {Feature.QUEUE: "reference@documented has no queue"}
        most_compactions = self.limits.max_compaction_attempts
        stated = {
            "max_error_count": Bound("error_count", self.limits.max_error_count),
            "max_steps": Bound("total_steps", self.limits.max_steps),
            "max_compaction_attempts": Bound("compaction_attempts", most_compactions),
        }
        # A limit that is tested on some ways only, or counted only sometimes, bounds nothing.
        free = [] if self.options.steps_bound_all else ["max_steps"]
        free += [] if self.options.count_tries else ["max_compaction_attempts"]
        self.thresholds = {name: stated.pop(name) for name in free}
        self.bounds: Mapping[str, Bound] = stated
        last_try = () if self.options.abort_in_backoff else (effects.CallModel,)
        self.abort_rule = machine.AbortRule(frozenset(last_try))

    def advance(self, run: Run, signal: Signal) -> Transition:
        # A class pattern that fails on a Struct takes longer than the decision.
        if type(signal) is signals.ContextMeasured:
            return self._enter_round(run, over=signal.over)
        if type(signal) is signals.ModelReplied:
            return self._take_reply(run, signal)
        if type(signal) is signals.ToolsReturned:
            reply = reply_of(run)
            state = states.ClosingStep(reply)
            closing = Run(state, run.error_count, run.total_steps, run.compaction_attempts)
            return closing, _DROP if self._is_broken(reply.finish) else _KEEP
        if type(signal) is signals.StepClosed:
            queued = (signal.steering or signal.follow_up) and self.options.take_queue
            return self._follow(run, reply_of(run), queued=queued)
        return self._decide_rarely(run, signal)

    def _decide_rarely(self, run: Run, signal: Signal) -> Transition:
        if type(signal) is signals.ModelFailed:
            if signal.error is ErrorClass.ABORTED:
                return self._stop(run, signals.AbortRequested())
            if signal.error is ErrorClass.OVERFLOW and self.options.overflow_compacts:
                return self._make_room(run)
            return self._recover(run, retryable=signal.retryable)
        if type(signal) is signals.ContextCompacted:
            return self._resume(run, shrunk=signal.shrunk)
        if type(signal) is signals.Began or type(signal) is signals.BackoffElapsed:
            return self._measure(run)
        return self._stop(run, signal)

    def _measure(self, run: Run) -> Transition:
        measuring = Run(_MEASURING, run.error_count, run.total_steps, run.compaction_attempts)
        return measuring, _MEASURE if self.options.take_queue else _MEASURE[1:]

    def _stop(self, run: Run, signal: Signal) -> Transition:
        waits = type(run.state) is states.BackingOff and not self.options.abort_in_backoff
        if waits and type(signal) is signals.AbortRequested:
            return run.to(states.Halting()), _CALL_ABORTED
        return stop(run, signal)[0], self._stopped

    def _finish(self, run: Run, outcome: Outcome, limit: str = "") -> Transition:
        return finish(run, outcome, limit)[0], self._ended

    def _enter_round(self, run: Run, *, over: bool) -> Transition:
        """Compact if the context is over the trigger and an attempt is left, else call anyway."""
        # Over the trigger is not over the window: the loop goes on when attempts are used up.
        if over and run.compaction_attempts < self.limits.max_compaction_attempts:
            return run.to(states.Compacting(forced=False)), (effects.Compact(forced=False),)
        # Written out, as it is in each transition that every round takes: `run.to` is slow.
        return Run(_CALLING, run.error_count, run.total_steps, run.compaction_attempts), _CALL

    def _resume(self, run: Run, *, shrunk: bool) -> Transition:
        assert isinstance(run.state, states.Compacting)
        attempts = run.compaction_attempts + (shrunk or self.options.count_tries)
        tried = Run(run.state, run.error_count, run.total_steps, attempts)
        if shrunk:
            return self._measure(tried)
        if run.state.forced:
            return self._finish(tried, Outcome.CONTEXT_LIMIT)
        return tried.to(_CALLING), _CALL

    def _take_reply(self, run: Run, signal: signals.ModelReplied) -> Transition:
        burst = self.options.bound_bursts and signal.steps > self.limits.max_steps_per_round
        reply = ReplyFacts(signal.finish, signal.text, signal.calls, burst)
        total_steps = run.total_steps + signal.steps
        state = states.RunningTools(reply) if signal.calls else states.ClosingStep(reply)
        replied = Run(state, run.error_count, total_steps, run.compaction_attempts)
        if not signal.calls:
            return replied, _KEEP if signal.text and self._keeps_text(signal.finish) else _DROP
        if signal.finish in _RUNS_ITS_CALLS or not self.options.refuse_cut_calls:
            return replied, _RUN_TOOLS
        return replied, (effects.RefuseTools(signal.finish),)

    def _is_broken(self, finish: FinishReason) -> bool:
        return finish is _INTERRUPTED and self.options.unfinished_fails

    def _keeps_text(self, finish: FinishReason) -> bool:
        if finish is _INTERRUPTED:
            return not self._is_broken(finish)
        return finish in _KEEPS_ITS_TEXT or not self.options.drop_unused_text

    def _follow(self, run: Run, reply: ReplyFacts, *, queued: bool) -> Transition:
        if (reason := reply.finish) is _TOOL_CALLS:
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
        backoff = (effects.Backoff(failed.error_count, polls=not self.options.abort_in_backoff),)
        return self._exceeded_on_a_detour(failed) or (failed.to(_BACKING_OFF), backoff)

    def _make_room(self, run: Run) -> Transition:
        """Force a compaction: the context is too long to go on with, or was for the provider."""
        if run.compaction_attempts >= self.limits.max_compaction_attempts:
            return self._finish(run, Outcome.CONTEXT_LIMIT, "max_compaction_attempts")
        forced = (effects.Compact(forced=True),)
        return self._exceeded_on_a_detour(run) or (run.to(states.Compacting(forced=True)), forced)

    def _exceeded_on_a_detour(self, run: Run) -> Transition | None:
        return self._exceeded(run) if self.options.steps_bound_all else self._burst(run)

    def _exceeded(self, run: Run) -> Transition | None:
        if (burst := self._burst(run)) is None and run.total_steps >= self.limits.max_steps:
            return self._finish(run, Outcome.MAX_STEPS, "max_steps")
        return burst

    def _burst(self, run: Run) -> Transition | None:
        if type(run.state) is states.ClosingStep and run.state.reply.burst:
            return self._finish(run, Outcome.MAX_STEPS, "max_steps_per_round")
        return None

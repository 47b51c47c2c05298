"""The twin of the reference loop: the table of docs/loops.md, and what each mend changes in it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from oracle.twins.moves import PLACES, Counts, Declared, Move, Places, Twin, deviations, usual
from simloop.kernel import effects, policies, signals, states
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import AbortRule, Bound, Feature, Run
from simloop.kernel.retry import StatusRetry
from simloop.kernel.signals import Signal
from simloop.kernel.states import ReplyFacts
from simloop.messages import Outcome

_GO_ON, _AGAIN, _SHORTEN = "go on", "try again", "shorten"
_TABLE: Mapping[str, tuple[str, str, str]] = {
    # finish reason: with calls, with text only, with nothing
    "stop": (_GO_ON, "completed", _AGAIN),
    "tool-calls": (_GO_ON, _AGAIN, _AGAIN),
    "length": (_SHORTEN, _SHORTEN, _SHORTEN),
    "content-filter": ("content-filtered", "content-filtered", "content-filtered"),
    "error": ("model-error", "model-error", "model-error"),
    "other": (_GO_ON, "completed", _AGAIN),
    "interrupted": (_AGAIN, _AGAIN, _AGAIN),
}
_REFUSED = ("length", "content-filter", "error", "interrupted")
_UNUSED = ("tool-calls", "length", "error")
"""The reasons with which a text was cut off, or announced calls that are missing."""


def _table(options: Any) -> Mapping[str, tuple[str, str, str]]:
    """Return the table without the mends that are off."""
    rows = {finish: list(row) for finish, row in _TABLE.items()}
    for finish in ("stop", "other"):
        if not options.calls_go_on:
            rows[finish][0] = "completed"
        if not options.empty_reply_fails:
            rows[finish][2] = "completed"
    if not options.missing_calls_fail:
        rows["tool-calls"] = [_GO_ON] * 3
    if not options.unfinished_fails:
        rows["interrupted"] = rows["other"]
    return {finish: (row[0], row[1], row[2]) for finish, row in rows.items()}


class ReferenceTwin(Twin):
    """It looks up what a reply leads to, and then goes through the limits on that way."""

    places: ClassVar[Places] = {
        **PLACES,
        signals.ContextMeasured: (states.Measuring,),
        signals.ContextCompacted: (states.Compacting,),
        signals.ModelFailed: (states.CallingModel, states.Halting),
        signals.BackoffElapsed: (states.BackingOff,),
    }

    def __init__(self, options: Any, limits: Limits) -> None:
        super().__init__(options, limits)
        self.table = _table(options)
        self.tells = {"text_first": not options.report_early_end}
        self.leaves = {"keep": options.keep_stopped_step}
        self.declared = _declared(options, limits)

    def move(self, before: Run, signal: Signal) -> Move:
        counts, options, state = Counts.of(before), self.options, before.state
        match signal:
            case signals.ContextMeasured(over=over):
                left = counts.compactions < self.limits.max_compaction_attempts
                return self._shorten(counts, forced=False) if over and left else self._ask(counts)
            case signals.ContextCompacted(shrunk=shrunk):
                forced = state == states.Compacting(forced=True)
                return self._compacted(counts, shrunk=shrunk, forced=forced)
            case signals.ModelReplied():
                return self._replied(counts, signal)
            case signals.ToolsReturned():
                reply = _reply(state)
                keep = not (reply.finish == "interrupted" and options.unfinished_fails)
                return counts.to(states.ClosingStep(reply), effects.CloseStep(keep=keep))
            case signals.StepClosed(steering=steering, follow_up=follow_up):
                return self._closed(counts, _reply(state), says_more=steering or follow_up)
            case signals.ModelFailed(error=error, retryable=retryable):
                return self._failed(counts, error, retryable=retryable)
            case signals.Began() | signals.BackoffElapsed():
                return self._begin(counts)
            case signals.AbortRequested() if self._is_deaf(state):
                return counts.to(states.Halting(), effects.CallModel(aborted=True))
            case _:
                return counts.stop(signal, **self.leaves)

    def _is_deaf(self, state: Any) -> bool:
        return state == states.BackingOff() and not self.options.abort_in_backoff

    # ------------------------------------------------------------------ ways to go on

    def _begin(self, counts: Counts) -> Move:
        """Take what the user has said, and measure: each round and each retry begins so."""
        asked = [effects.TakeQueued(queue=None, one=False)] if self.options.take_queue else []
        return counts.to(states.Measuring(), *asked, effects.MeasureContext())

    def _ask(self, counts: Counts) -> Move:
        called = effects.CallModel(note="", tools=True, polls=False, aborted=False)
        return counts.to(states.CallingModel(), called)

    def _shorten(self, counts: Counts, *, forced: bool) -> Move:
        asked = effects.Compact(forced=forced, then_say="", marker="")
        return counts.to(states.Compacting(forced=forced), asked)

    def _compacted(self, counts: Counts, *, shrunk: bool, forced: bool) -> Move:
        counted = 1 if self.options.count_tries or shrunk else 0
        counts = counts._replace(compactions=counts.compactions + counted)
        if not shrunk and forced:
            return counts.end(Outcome.CONTEXT_LIMIT, **self.tells)
        return self._begin(counts) if shrunk else self._ask(counts)

    # ------------------------------------------------------------------ replies and failures

    def _replied(self, counts: Counts, signal: signals.ModelReplied) -> Move:
        options, finish = self.options, signal.finish
        burst = options.bound_bursts and signal.steps > self.limits.max_steps_per_round
        reply = ReplyFacts(finish=finish, text=signal.text, calls=signal.calls, burst=burst)
        counts = counts._replace(steps=counts.steps + signal.steps)
        if signal.calls and finish in _REFUSED and options.refuse_cut_calls:
            return counts.to(states.RunningTools(reply), effects.RefuseTools(finish=finish))
        if signal.calls:
            tools = effects.RunTools(first_only=False, polls=False)
            return counts.to(states.RunningTools(reply), tools)
        dropped = (finish in _UNUSED and options.drop_unused_text) or (
            finish == "interrupted" and options.unfinished_fails
        )
        keep = signal.text and not dropped
        return counts.to(states.ClosingStep(reply), effects.CloseStep(keep=keep))

    def _closed(self, counts: Counts, reply: ReplyFacts, *, says_more: bool) -> Move:
        way = self.table[reply.finish][0 if reply.calls else 1 if reply.text else 2]
        if way == "completed" and says_more and self.options.take_queue:
            way = _GO_ON
        if way == _AGAIN:
            return self._again(counts, burst=reply.burst, retryable=True)
        if way == _SHORTEN:
            return self._too_long(counts, burst=reply.burst)
        if way == _GO_ON:
            # Those that other mends open are tested too, whatever `steps_bound_all` says.
            return self._spent(counts, burst=reply.burst) or self._begin(counts)
        return counts.end(Outcome(way), **self.tells)

    def _failed(self, counts: Counts, error: ErrorClass, *, retryable: bool) -> Move:
        if error == "aborted":
            return counts.end(Outcome.ABORTED, **self.leaves)
        if error == "overflow" and self.options.overflow_compacts:
            return self._too_long(counts, burst=False)
        return self._again(counts, burst=False, retryable=retryable)

    def _again(self, counts: Counts, *, burst: bool, retryable: bool) -> Move:
        counts = counts._replace(errors=counts.errors + 1)
        if counts.errors >= self.limits.max_error_count:
            return counts.end(Outcome.TOO_MANY_ERRORS, "max_error_count")
        if not retryable:
            return counts.end(Outcome.FAILED)
        polls = not self.options.abort_in_backoff
        waits = effects.Backoff(failures=counts.errors, polls=polls)
        end = self._spent(counts, burst=burst, detour=True)
        return end or counts.to(states.BackingOff(), waits)

    def _too_long(self, counts: Counts, *, burst: bool) -> Move:
        if counts.compactions >= self.limits.max_compaction_attempts:
            return counts.end(Outcome.CONTEXT_LIMIT, "max_compaction_attempts", **self.tells)
        end = self._spent(counts, burst=burst, detour=True)
        return end or self._shorten(counts, forced=True)

    def _spent(self, counts: Counts, *, burst: bool, detour: bool = False) -> Move | None:
        """Return the end by a limit on steps; retries and compactions are detours."""
        is_tested = self.options.steps_bound_all or not detour
        if burst:
            return counts.end(Outcome.MAX_STEPS, "max_steps_per_round", **self.tells)
        if is_tested and counts.steps >= self.limits.max_steps:
            return counts.end(Outcome.MAX_STEPS, "max_steps", **self.tells)
        return None


def _reply(state: Any) -> ReplyFacts:
    reply: ReplyFacts = state.reply
    return reply


def _declared(options: Any, limits: Limits) -> Declared:
    retry = {}
    if not (options.classify_errors and options.honour_retry_after):
        honours = options.honour_retry_after
        own = StatusRetry(by_status=not options.classify_errors, honours_retry_after=honours)
        retry["retry"] = own
    start: policies.ToolStart = "after-reply" if options.tools_after_reply else "when-called"
    unguarded = policies.HookIsolation(on_failure="fail-run", timeout_ms=None)
    hooks = {} if options.isolate_hooks else {"hook_isolation": unguarded}
    bounds = {"max_error_count": Bound("error_count", limits.max_error_count)}
    thresholds = dict[str, Bound]()
    for name, counter, is_exact in (
        ("max_steps", "total_steps", options.steps_bound_all),
        ("max_compaction_attempts", "compaction_attempts", options.count_tries),
    ):
        (bounds if is_exact else thresholds)[name] = Bound(counter, getattr(limits, name))
    return Declared(
        policies=usual(
            **retry, **hooks, report_failed_tools=options.report_failed_tools,
            tool_execution=policies.ToolExecution(order=None, start=start, timeout_ms=None),
        ),
        bounds=bounds, thresholds=thresholds,
        lacks=frozenset() if options.take_queue else frozenset({Feature.QUEUE}),
        after_abort=AbortRule(
            effects=frozenset() if options.abort_in_backoff else frozenset({effects.CallModel}),
            outcomes=frozenset({Outcome.ABORTED}),
        ),
        deviates=deviations("reference", options),
    )  # fmt: skip

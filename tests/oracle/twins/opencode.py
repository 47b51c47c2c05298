"""The twin of opencode: the four ends of its outer loop, and the tries of its inner one."""

from typing import Any, ClassVar

from oracle.twins.moves import (
    PLACES,
    Counts,
    Declared,
    Move,
    Places,
    Twin,
    backoff,
    deviations,
    usual,
)
from simloop.kernel import effects, policies, signals, states
from simloop.kernel.limits import Limits
from simloop.kernel.machine import AbortRule, Bound, Run
from simloop.kernel.retry import RetryPolicy
from simloop.kernel.signals import Signal
from simloop.kernel.states import ReplyFacts
from simloop.loops.opencode import OpencodeRetry, Turning
from simloop.messages import Outcome

_NOTE = "The steps are used up. Call no tools: say what was done, and what is left to do."
_MARKER = "What did we do so far?"
_GO_ON = "Go on with what is left to do. If nothing is, say so."
_UNKNOWN = "other", "interrupted"
_WORDS = "stop length function_call tool_calls tool-calls content_filter content-filter"


class OpencodeTwin(Twin):
    """A step is a reply or a compaction; errors count within one step."""

    places: ClassVar[Places] = {
        **PLACES,
        signals.ContextMeasured: (Turning,),
        signals.ContextCompacted: (states.Compacting,),
        signals.ModelFailed: (states.CallingModel, states.Halting),
        signals.BackoffElapsed: (states.BackingOff,),
    }

    def __init__(self, options: Any, limits: Limits) -> None:
        super().__init__(options, limits)
        self.most = limits.max_steps
        self.counts_steps = options.steps in ("advise", "enforce")
        self.enforces = options.steps == "enforce"
        self.declared = _declared(options, limits)

    def move(self, before: Run, signal: Signal) -> Move:
        state: Any = before.state
        errors, steps = before.error_count, before.total_steps
        same = Counts(errors, steps)
        # Past the last step the number decides nothing more.
        next_step = Counts(steps=min(steps + 1, self.most) if self.counts_steps else 0)
        match signal:
            case signals.Began():
                return self._turn(Counts())
            case signals.ContextMeasured(over=over):
                return self._measured(same, state, over=over)
            case signals.ContextCompacted(shrunk=shrunk):
                return self._compacted(next_step, shrunk=shrunk)
            case signals.ModelReplied(finish=finish, text=text, calls=calls):
                reply = ReplyFacts(finish=finish, text=text, calls=calls)
                if not calls:
                    return next_step.to(states.ClosingStep(reply), self._close(reply))
                polls = not self.options.abort_at_once
                tools = effects.RunTools(first_only=False, polls=polls)
                return next_step.to(states.RunningTools(reply), tools)
            case signals.ToolsReturned(blocked=blocked):
                closing = states.ClosingStep(state.reply, blocked=blocked)
                return same.to(closing, self._close(state.reply))
            case signals.StepClosed(steering=steering, follow_up=follow_up):
                return self._closed(same, state, says_more=steering or follow_up)
            case signals.ModelFailed(error=error, retryable=retryable):
                return self._failed(same, str(error), retryable=retryable)
            case signals.BackoffElapsed():
                return self._ask(same)
            case signals.AbortRequested() if self._is_deaf(state):
                return same.to(states.Halting(), self._call(steps, aborted=True))
            case _:
                return same.stop(signal)

    def _is_deaf(self, state: Any) -> bool:
        return state == states.BackingOff() and not self.options.abort_at_once

    # ------------------------------------------------------------------ the model is asked

    def _call(self, steps: int, *, aborted: bool = False) -> effects.CallModel:
        is_last = self.counts_steps and steps >= self.most - 1
        return effects.CallModel(
            note=_NOTE if is_last else "",
            tools=not (is_last and self.enforces),
            polls=not aborted and not self.options.abort_at_once,
            aborted=aborted,
        )

    def _ask(self, counts: Counts, *before: effects.Effect) -> Move:
        return counts.to(states.CallingModel(), *before, self._call(counts.steps))

    def _turn(self, counts: Counts) -> Move:
        return self._ask(counts, effects.TakeQueued(queue=None, one=False))

    def _failed(self, counts: Counts, error: str, *, retryable: bool) -> Move:
        if error == "aborted":
            return counts.end(Outcome.ABORTED)
        if error == "overflow" and self.options.compact_on_overflow:
            return _compact(counts, forced=True)
        counts = Counts(counts.errors + 1, counts.steps)
        if not retryable:
            return counts.end(Outcome.FAILED)
        if counts.errors >= self.options.max_retries + 1:
            return counts.end(Outcome.TOO_MANY_ERRORS, "max_retries")
        return counts.to(states.BackingOff(), effects.Backoff(failures=counts.errors, polls=False))

    # ------------------------------------------------------------------ the run goes on, or ends

    def _is_filtered(self, reply: ReplyFacts) -> bool:
        return reply.finish == "content-filter" and bool(self.options.filter_fails)

    def _close(self, reply: ReplyFacts) -> effects.CloseStep:
        """Keep what has text or calls, unless it is an error; thoughts as an option says."""
        if self._is_filtered(reply):
            return effects.CloseStep(keep=False, keep_thoughts=False)
        thoughts = self.options.keep_thoughts
        return effects.CloseStep(keep=reply.text or reply.calls, keep_thoughts=thoughts)

    def _closed(self, counts: Counts, state: Any, *, says_more: bool) -> Move:
        reply: ReplyFacts = state.reply
        measure = effects.MeasureContext()
        if self._is_filtered(reply):
            return counts.end(Outcome.CONTENT_FILTERED)
        if state.blocked:
            return counts.to(Turning(answered=False, blocked=True), measure)
        is_final = reply.finish != "tool-calls" and reply.finish not in _UNKNOWN
        if is_final and not (reply.calls and self.options.calls_go_on) and not says_more:
            return counts.to(Turning(answered=True, blocked=False), measure)
        taken = effects.TakeQueued(queue=None, one=False)
        return counts.to(Turning(answered=False, blocked=False), taken, measure)

    def _measured(self, counts: Counts, state: Any, *, over: bool) -> Move:
        is_spent = self.enforces and counts.steps >= self.most
        for holds, move in (
            (over and not is_spent, _compact(counts, forced=False)),
            (state.blocked, counts.end(Outcome.BLOCKED)),
            (state.answered, counts.end(Outcome.COMPLETED)),
            (is_spent, counts.end(Outcome.MAX_STEPS, "max_steps")),
        ):
            if holds:
                return move
        return self._turn(counts)

    def _compacted(self, counts: Counts, *, shrunk: bool) -> Move:
        if not (shrunk or self.options.compact_without_progress):
            return counts.end(Outcome.CONTEXT_LIMIT)
        if self.enforces and counts.steps >= self.most:
            return counts.end(Outcome.MAX_STEPS, "max_steps")
        return self._turn(counts)


def _compact(counts: Counts, *, forced: bool) -> Move:
    """Compact; after an overflow, a marker stands for what was before."""
    marker = _MARKER if forced else ""
    asked = effects.Compact(forced=forced, then_say=_GO_ON, marker=marker)
    return counts.to(states.Compacting(forced=forced), asked)


def _declared(options: Any, limits: Limits) -> Declared:
    first_ms = options.first_delay_ms
    retry: RetryPolicy = backoff(first_ms)
    if options.program_errors:
        retry = OpencodeRetry(initial_delay_ms=first_ms)
    compatible = options.compatible_words
    order: policies.ToolOrder = "parallel" if options.parallel else "sequential"
    bounds = {"max_retries": Bound("error_count", options.max_retries + 1, resets=True)}
    if options.steps == "enforce":
        bounds["max_steps"] = Bound("total_steps", limits.max_steps, of_turns=True)
    later = frozenset() if options.abort_at_once else frozenset({effects.CallModel})
    return Declared(
        policies=usual(
            retry=retry,
            tool_execution=policies.ToolExecution(order=order, start="when-called"),
            replies=policies.ReplyReading(
                finish_words=frozenset(_WORDS.split()) if compatible else None,
                failing_words=frozenset({"network_error"}) if compatible else frozenset(),
                lower_case_names=options.lower_case_names,
                keep_failed=options.keep_failed,
            ),
        ),
        bounds=bounds,
        after_abort=AbortRule(effects=later, outcomes=frozenset({Outcome.ABORTED})),
        deviates=deviations("opencode", options),
    )

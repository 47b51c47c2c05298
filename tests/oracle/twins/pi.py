"""The twin of pi: it goes on for calls, then for messages to steer by, then for follow-ups."""

from typing import Any, ClassVar

from oracle.twins.moves import (
    PLACES,
    Counts,
    Declared,
    Move,
    Places,
    Twin,
    compaction,
    deviations,
    usual,
)
from simloop.kernel import effects, policies, signals, states
from simloop.kernel.limits import Limits
from simloop.kernel.machine import AbortRule, Feature, Run
from simloop.kernel.signals import Signal
from simloop.kernel.states import ReplyFacts
from simloop.messages import Outcome, Queue

_FAILED_AS = {
    "error": Outcome.MODEL_ERROR,
    "interrupted": Outcome.MODEL_ERROR,
    "content-filter": Outcome.CONTENT_FILTERED,
}
_UNCOUNTED = Counts()
"""It counts nothing."""


class PiTwin(Twin):
    """It has no limit: the calls, the queues and the failures decide."""

    places: ClassVar[Places] = {
        **PLACES,
        signals.ContextMeasured: (states.Measuring,),
        signals.ContextCompacted: (states.Compacting,),
    }

    def __init__(self, options: Any, limits: Limits) -> None:
        super().__init__(options, limits)
        self.declared = _declared(options)

    def move(self, before: Run, signal: Signal) -> Move:
        state: Any = before.state
        match signal:
            case signals.Began():
                return self._ask_with(Queue.STEERING, self.options.steering)
            case signals.ContextMeasured(over=True):
                shorter = effects.Compact(forced=False, then_say="", marker="")
                return _UNCOUNTED.to(states.Compacting(forced=False), shorter)
            case signals.ContextMeasured(over=False) | signals.ContextCompacted():
                return _UNCOUNTED.to(states.CallingModel(), effects.CallModel())
            case signals.ModelReplied(finish=finish, text=text, calls=calls):
                reply = ReplyFacts(finish=finish, text=text, calls=calls)
                return self._answered(reply) if calls else self._close(reply)
            case signals.ToolsReturned(terminate=terminate):
                reply = state.reply
                ends = terminate and self.options.terminate  # as if there were no calls
                return self._close(ReplyFacts(finish=reply.finish, text=reply.text, calls=not ends))
            case signals.StepClosed():
                return self._closed(state.reply, signal)
            case signals.ModelFailed(error="aborted"):
                return _UNCOUNTED.end(Outcome.ABORTED)
            case signals.ModelFailed():
                return _UNCOUNTED.end(Outcome.FAILED)
            case _:
                return _UNCOUNTED.stop(signal)

    def _ask_with(self, queue: Queue, delivery: str) -> Move:
        taken = effects.TakeQueued(queue=queue, one=delivery == "one-at-a-time")
        if self.options.compacts:
            return _UNCOUNTED.to(states.Measuring(), taken, effects.MeasureContext())
        return _UNCOUNTED.to(states.CallingModel(), taken, effects.CallModel())

    def _answered(self, reply: ReplyFacts) -> Move:
        """Run the calls, unless the reply failed; those of a cut reply run in the document."""
        is_cut = reply.finish == "length"
        if reply.finish in _FAILED_AS or (is_cut and self.options.refuse_cut_calls):
            asked: effects.Effect = effects.RefuseTools(finish=reply.finish)
        else:
            asked = effects.RunTools(first_only=False, polls=False)
        return _UNCOUNTED.to(states.RunningTools(reply), asked)

    def _close(self, reply: ReplyFacts) -> Move:
        keep = True if self.options.resend_failed else reply.finish not in _FAILED_AS
        closed = effects.CloseStep(keep=keep, keep_thoughts=False)
        return _UNCOUNTED.to(states.ClosingStep(reply), closed)

    def _closed(self, reply: ReplyFacts, said: signals.StepClosed) -> Move:
        if (outcome := _FAILED_AS.get(reply.finish)) is not None:
            return _UNCOUNTED.end(outcome)
        if reply.calls or said.steering:
            return self._ask_with(Queue.STEERING, self.options.steering)
        if said.follow_up:
            return self._ask_with(Queue.FOLLOW_UP, self.options.follow_up)
        return _UNCOUNTED.end(Outcome.COMPLETED)


def _declared(options: Any) -> Declared:
    answers = policies.HookIsolation(on_failure="error-result", timeout_ms=None)
    hooks = {"hook_isolation": answers} if options.hook_errors_answer else {}
    order: policies.ToolOrder = "parallel" if options.parallel else "sequential"
    lacks = ("early tools",) if options.compacts else ("early tools", "compaction")
    return Declared(
        policies=usual(
            **hooks,
            compaction=compaction(max_messages=100),
            tool_execution=policies.ToolExecution(order=order, start=None, timeout_ms=None),
            tool_rules=policies.ToolRules(
                convert=options.convert_arguments,
                check_changed=options.check_changed,
                results_fail=False,
            ),
            sent_back=policies.SentBack(
                failed=options.resend_failed, reasoning=options.resend_thinking
            ),
            abort_is_flag=options.call_after_abort,
            warn_after=50 if options.warns else None,
        ),
        lacks=frozenset(map(Feature, lacks)),
        after_abort=AbortRule(),
        deviates=deviations("pi", options),
    )

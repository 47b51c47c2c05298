"""The twin of ReAct: a reply with a call is a round, and any other reply is the answer."""

from typing import Any

from oracle.twins.moves import Counts, Declared, Move, Twin, deviations, usual
from simloop.kernel import effects, policies, signals, states
from simloop.kernel.limits import Limits
from simloop.kernel.machine import AbortRule, Bound, Feature, Run
from simloop.kernel.signals import Signal
from simloop.kernel.states import ReplyFacts
from simloop.messages import Outcome

_LACKS = "hooks", "abort", "compaction", "early tools", "queue"


class ReactTwin(Twin):
    """The finish reason, the text and the user's messages decide nothing."""

    def __init__(self, options: Any, limits: Limits) -> None:
        super().__init__(options, limits)
        self.rounds = limits.max_steps if options.max_rounds is None else options.max_rounds
        order: policies.ToolOrder = "parallel" if options.all_calls else "sequential"
        tools = policies.ToolExecution(order=order, start=None, timeout_ms=None)
        bound = Bound(counter="total_steps", at=self.rounds, resets=False, of_turns=True)
        self.declared = Declared(
            policies=usual(tool_execution=tools), bounds={"max_rounds": bound},
            lacks=frozenset(map(Feature, _LACKS)), after_abort=AbortRule(),
            deviates=deviations("react", options),
        )  # fmt: skip

    def move(self, before: Run, signal: Signal) -> Move:
        rounds, state = before.total_steps, before.state
        if type(signal) is signals.ModelReplied:
            reply = ReplyFacts(finish=signal.finish, text=signal.text, calls=signal.calls)
            here = Counts(steps=rounds + 1)
            if not signal.calls:
                return here.to(states.ClosingStep(reply), _KEPT)
            first = not self.options.all_calls
            tools = effects.RunTools(first_only=first, polls=False)
            return here.to(states.RunningTools(reply), tools)
        here = Counts(steps=rounds)
        if type(state) is states.RunningTools and type(signal) is signals.ToolsReturned:
            return here.to(states.ClosingStep(state.reply), _KEPT)
        if type(signal) is signals.ModelFailed:
            return here.end(Outcome.FAILED)
        if type(state) is states.ClosingStep and type(signal) is signals.StepClosed:
            if not state.reply.calls:
                return here.end(Outcome.COMPLETED)
            if rounds >= self.rounds:
                message = "Max tool call rounds exceeded"
                return here.end(Outcome.MAX_STEPS, "max_rounds", message=message)
        elif type(signal) is not signals.Began:
            return here.stop(signal)
        return here.to(states.CallingModel(), effects.CallModel())


_KEPT = effects.CloseStep(keep=True, keep_thoughts=False)

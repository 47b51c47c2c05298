"""The ReAct loop: ask, act on one function call, observe, until there is none.

A round is one model call and at most one function call, and `max_rounds` of them are the only
bound. docs/loops.md says where the document and the real program differ.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from simloop.kernel import effects, machine, policies, signals, states
from simloop.kernel.checks import Checked
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Bound, Feature, Run, Transition, finish
from simloop.kernel.signals import Signal
from simloop.kernel.states import ReplyFacts
from simloop.messages import Outcome

LEGAL: machine.LegalMap = {
    states.Ready: {signals.Began: frozenset({states.CallingModel})},
    states.CallingModel: machine.calling_model(states.Finished),
    states.RunningTools: machine.RUNNING_TOOLS,
    states.ClosingStep: machine.closing_step(states.CallingModel, states.Finished),
    states.Finished: {},
}
TOO_MANY_ROUNDS = "Max tool call rounds exceeded"

_CALL = (effects.CallModel(),)
_KEEP = (effects.CloseStep(keep=True),)
_DESIGN: Any = json.loads(Path(__file__).with_name("react.json").read_text("utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactOptions(Checked, at="loops.react"):
    """The options of the react loop."""

    max_rounds: Annotated[int, Ge(1)] | None = None
    """Model calls for one prompt; by default `limits.max_steps`, which is 100 by default."""
    all_calls: bool = False
    """Run every call of a reply, all at once, as the real program does."""


class ReactLoop(machine.Design):
    """The machine. A round is a step: `total_steps` counts model calls that were answered."""

    name = "react"
    legal = LEGAL
    deviates = _DESIGN["deviates"]
    unsupported: Mapping[Feature, str] = {
        Feature(name): why for name, why in _DESIGN["unsupported"].items()
    }

    def __init__(self, limits: Limits | None = None, options: ReactOptions | None = None) -> None:
        self.options = options or ReactOptions()
        self.max_rounds = self.options.max_rounds or (limits or Limits()).max_steps
        order: policies.ToolOrder = "parallel" if self.options.all_calls else "sequential"
        self.policies = policies.Policies(tool_execution=policies.ToolExecution(order=order))
        rounds = Bound("total_steps", self.max_rounds, of_turns=True)
        self.bounds: Mapping[str, Bound] = {"max_rounds": rounds}
        self._run_tools = (effects.RunTools(first_only=not self.options.all_calls),)

    def advance(self, run: Run, signal: Signal) -> Transition:
        match signal:
            case signals.Began():
                return run.to(states.CallingModel()), _CALL
            case signals.ModelReplied():
                return self._take_reply(run, signal)
            case signals.ToolsReturned():
                return run.to(states.ClosingStep(machine.reply_of(run))), _KEEP
            case signals.StepClosed():
                goes_on = machine.reply_of(run).calls
                return self._go_on(run) if goes_on else finish(run, Outcome.COMPLETED)
            case signals.ModelFailed():
                return finish(run, Outcome.FAILED)
            case _:
                return machine.stop(run, signal)

    def _take_reply(self, run: Run, signal: signals.ModelReplied) -> Transition:
        reply = ReplyFacts(signal.finish, signal.text, signal.calls)
        counted = Run(run.state, total_steps=run.total_steps + 1)
        if reply.calls:
            return counted.to(states.RunningTools(reply)), self._run_tools
        return counted.to(states.ClosingStep(reply)), _KEEP

    def _go_on(self, run: Run) -> Transition:
        """Begin the next round, or end the run after the last round, whose tool has run."""
        if run.total_steps >= self.max_rounds:
            return finish(run, Outcome.MAX_STEPS, "max_rounds", TOO_MANY_ROUNDS)
        return run.to(states.CallingModel()), _CALL

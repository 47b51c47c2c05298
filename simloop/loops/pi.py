"""The loop of pi: until the reply holds no tool calls, and no message waits.

It has no cap, by design. Nothing that it counts decides, so a run has no counters. docs/loops.md
says where the document and the real program differ.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import structs

from simloop.kernel import effects, machine, policies, signals, states
from simloop.kernel.checks import Checked
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Bound, Feature, Run, Transition, finish
from simloop.kernel.signals import Signal
from simloop.kernel.states import ReplyFacts
from simloop.messages import FinishReason, Outcome, Queue

Delivery: TypeAlias = Literal["one-at-a-time", "all"]
"""The number of queued messages that are taken at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PiOptions(Checked, at="loops.pi"):
    """The options of the pi loop; the version 0.87.1 has those after the first two."""

    steering: Delivery = "one-at-a-time"
    """How many steering messages go with the next request."""
    follow_up: Delivery = "one-at-a-time"
    """How many follow-up messages are taken at the end of a run."""
    parallel: bool = False
    """Run the calls of a reply at once, as the real program does."""
    refuse_cut_calls: bool = False
    """Calls of a reply that ends with `length` are not executed."""
    call_after_abort: bool = False
    """After an abort no further tool begins, and one more model call comes back as aborted.
    Without: the run ends at once."""
    compacts: bool = True
    """Compact a context of more than 100 messages; the real program's loop has no compaction."""
    warns: bool = True
    """Report each model call after the fiftieth; the real program reports none."""
    resend_failed: bool = True
    """A reply that failed goes into later requests; in the real program only the transcript has
    it."""
    resend_thinking: bool = False
    """The model's reasoning goes into later requests."""
    convert_arguments: bool = False
    """Arguments of the wrong type are converted to the type of the schema, where that is clear."""
    check_changed: bool = True
    """Validate arguments again that a hook has changed; the real program does not."""
    hook_errors_answer: bool = False
    """A tool hook that raises gives its call an error result, and no hook times out."""
    terminate: bool = False
    """A run ends when every result of a reply asks for it with `terminate`."""

    @functools.lru_cache(maxsize=32)  # noqa: B019 - options are frozen, and few of them differ
    def policies(self) -> policies.Policies:
        order: policies.ToolOrder = "parallel" if self.parallel else "sequential"
        return policies.Policies(
            compaction=policies.Compaction(max_messages=100),
            tool_execution=policies.ToolExecution(order=order),
            tool_rules=policies.ToolRules(
                convert=self.convert_arguments, check_changed=self.check_changed, results_fail=False
            ),
            hook_isolation=_ANSWERING if self.hook_errors_answer else policies.HookIsolation(),
            sent_back=policies.SentBack(failed=self.resend_failed, reasoning=self.resend_thinking),
            abort_is_flag=self.call_after_abort,
            warn_after=50 if self.warns else None,
        )


_ANSWERING = policies.HookIsolation(on_failure="error-result", timeout_ms=None)

_PROGRAM: Any = json.loads(Path(__file__).with_name("pi.json").read_text("utf-8"))
VERSIONS: Mapping[str, PiOptions] = {
    version: PiOptions(**options) for version, options in _PROGRAM["versions"].items()
}

_ROUND = frozenset({states.Measuring, states.CallingModel})
LEGAL: machine.LegalMap = {
    states.Ready: {signals.Began: _ROUND},
    states.Measuring: machine.row(signals.ContextMeasured, states.Compacting, states.CallingModel),
    states.Compacting: machine.row(signals.ContextCompacted, states.CallingModel),
    states.CallingModel: machine.calling_model(states.Finished),
    states.RunningTools: machine.RUNNING_TOOLS,
    states.ClosingStep: machine.closing_step(*_ROUND, states.Finished),
    states.Finished: {},
}

_BREAKS_OFF = {
    FinishReason.ERROR: Outcome.MODEL_ERROR,
    FinishReason.INTERRUPTED: Outcome.MODEL_ERROR,
    FinishReason.CONTENT_FILTER: Outcome.CONTENT_FILTERED,
}


class PiLoop(machine.Design):
    """The machine. It keeps no limit but the wall clock, which is the simulator's."""

    name = "pi"
    legal = LEGAL
    deviates = _PROGRAM["deviates"]
    bounds: Mapping[str, Bound] = {}

    def __init__(self, limits: Limits | None = None, options: PiOptions | None = None) -> None:
        del limits  # by design: see the docstring of the module
        self.options = chosen = options or PiOptions()
        self.policies = chosen.policies()
        self.unsupported = {Feature.EARLY_TOOLS: "pi starts a tool when the reply has ended"}
        if not chosen.compacts:
            self.unsupported[Feature.COMPACTION] = "pi has no compaction in this version"
        then: Effect = effects.MeasureContext() if chosen.compacts else effects.CallModel()
        taken = {Queue.STEERING: chosen.steering, Queue.FOLLOW_UP: chosen.follow_up}
        self._take: Mapping[Queue, tuple[Effect, ...]] = {
            queue: (effects.TakeQueued(queue, delivery != "all"), then)
            for queue, delivery in taken.items()
        }

    def advance(self, run: Run, signal: Signal) -> Transition:
        match signal:
            case signals.Began():
                return self._begin_round(Queue.STEERING)
            case signals.ContextMeasured(over=True):
                return Run(states.Compacting(forced=False)), (effects.Compact(forced=False),)
            case signals.ContextMeasured() | signals.ContextCompacted():
                return Run(states.CallingModel()), (effects.CallModel(),)
            case signals.ModelReplied():
                return self._take_reply(ReplyFacts(signal.finish, signal.text, signal.calls))
            case signals.ToolsReturned(terminate=terminate):
                reply = machine.reply_of(run)
                if terminate and self.options.terminate:
                    reply = structs.replace(reply, calls=False)
                return self._close(reply)
            case signals.StepClosed():
                return self._follow(run, machine.reply_of(run), signal)
            case signals.ModelFailed(error=error):
                aborted = error is ErrorClass.ABORTED
                return finish(run, Outcome.ABORTED if aborted else Outcome.FAILED)
            case _:
                return machine.stop(run, signal)

    def _begin_round(self, queue: Queue) -> Transition:
        state = states.Measuring() if self.options.compacts else states.CallingModel()
        return Run(state), self._take[queue]

    def _take_reply(self, reply: ReplyFacts) -> Transition:
        if not reply.calls:
            return self._close(reply)
        cut = reply.finish is FinishReason.LENGTH and self.options.refuse_cut_calls
        refused = cut or reply.finish in _BREAKS_OFF
        asked = effects.RefuseTools(reply.finish) if refused else effects.RunTools()
        return Run(states.RunningTools(reply)), (asked,)

    def _close(self, reply: ReplyFacts) -> Transition:
        keep = self.options.resend_failed or reply.finish not in _BREAKS_OFF
        return Run(states.ClosingStep(reply)), (effects.CloseStep(keep=keep),)

    def _follow(self, run: Run, reply: ReplyFacts, closed: signals.StepClosed) -> Transition:
        if reply.finish in _BREAKS_OFF:
            return finish(run, _BREAKS_OFF[reply.finish])
        if reply.calls or closed.steering:
            return self._begin_round(Queue.STEERING)
        if closed.follow_up:
            return self._begin_round(Queue.FOLLOW_UP)
        return finish(run, Outcome.COMPLETED)

"""The loop of document 001: until the reply holds no tool calls, and no message waits.

Not here: how anything is done (sim) and what its events are called (trace/pi_events.py). The rule
to keep: it has no cap, by design. Nothing that it counts decides, so a run has no counters, and
exploration finds the shortest way round.

The document decides by whether the reply holds tool calls, not by the finish reason: `stop` with
calls goes on, `tool-calls` without calls ends the run. After 50 model calls each one more is
reported, and none is stopped (`Policies.warn_after`). Invalid arguments, unknown tools and tools
that raise are told to the model. A failed model call ends the run: the loop itself has no retry.
Over 100 messages the context is compacted before the next call, whether that helps or not; a
scenario with a `compaction` of its own goes by tokens, unless that says `max_messages`.

Where the real program differs, or does more than the document says (`documented-loops.md`
section 2; pi-agent-core 0.58.3, 0.73.1 and 0.87.1):

- tools run in parallel by default since 0.58.0: `tool_execution: {order: parallel}`, and the
  versions of `VERSIONS`.
- steering and follow-up queues prolong a run; by default each gives one message at a time.
  Up to 0.58 a steering message made the remaining calls of the batch be skipped: not modelled.
- calls of a reply that was cut off are run up to 0.73.1; 0.87.1 fails them: `refuse_cut_calls`.
- a finish of `error`, or a stream without one, ends the run before its calls; so here. A content
  filter is an error to pi; here it is an outcome of its own.
- after an abort during tools one more model call is made, with what was said to steer by, which
  comes back as aborted, and 0.73.1 also starts the calls that were still waiting: `after_abort`.
  0.87.1 leaves those without a result in its transcript, and adds one to the request; here the
  context has it.
- retries (2, 4, 8 s), compaction at the end of a run, its recovery from an overflow and `terminate`
  belong to the session around the loop: not modelled. The queues are not polled after an error: so
  here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, assert_never

from simloop.kernel import effects
from simloop.kernel.checked import AS_WRITTEN, check_settings
from simloop.kernel.effects import Effect, Queue
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
    on_the_map,
    reply_of,
    stop,
)
from simloop.kernel.policies import Compaction, Policies, ToolExecution, ToolOrder
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
    Compacting,
    Finished,
    Halting,
    Measuring,
    Ready,
    Reply,
    RunningTools,
)
from simloop.messages import FinishReason, Outcome

LEGAL: LegalMap = {
    Ready: {Began: frozenset({Measuring})},
    Measuring: {ContextMeasured: frozenset({Compacting, CallingModel}), **ENDINGS},
    Compacting: {ContextCompacted: frozenset({CallingModel}), **ENDINGS},
    CallingModel: {
        ModelReplied: frozenset({RunningTools, ClosingStep}),
        ModelFailed: END,
        HookFailed: END,
        CallBlocked: END,
        **ENDINGS,
    },
    RunningTools: {
        ToolsReturned: frozenset({ClosingStep}),
        HookFailed: END,
        **ENDINGS,
        AbortRequested: frozenset({Finished, Halting}),
    },
    ClosingStep: {StepClosed: frozenset({Measuring, Finished}), HookFailed: END, **ENDINGS},
    Halting: {
        ToolsReturned: frozenset({Halting}),
        StepClosed: frozenset({Halting}),
        ModelFailed: END,
        HookFailed: END,
        **ENDINGS,
    },
    Finished: {},
}


class Delivery(StrEnum):
    """How much of a queue is taken at a time."""

    ONE_AT_A_TIME = "one-at-a-time"
    ALL = "all"


class AfterAbort(StrEnum):
    """What follows an abort that comes while tools run."""

    STOP = "stop"  # the end
    CALL = "call"  # one more model call, which comes back as aborted
    TOOLS_AND_CALL = "tools-and-call"  # the calls that were still waiting, and then that


@dataclass(frozen=True, slots=True, kw_only=True)
class PiOptions:
    """What can be chosen about the loop of document 001."""

    __pydantic_config__: ClassVar = AS_WRITTEN

    steering: Delivery = Delivery.ONE_AT_A_TIME
    """How many steering messages go with the next request."""
    follow_up: Delivery = Delivery.ONE_AT_A_TIME
    """How many follow-up messages are taken when the run would be over."""
    parallel: bool = False
    """Run the calls of a reply at once, as the real program does since 0.58.0."""
    refuse_cut_calls: bool = False
    """Calls of a reply that ends with `length` are not executed (0.87.1)."""
    after_abort: AfterAbort = AfterAbort.STOP
    """What follows an abort during tools: one more model call (0.87.1), or more (0.73.1)."""

    def __post_init__(self) -> None:
        """Refuse what a file could not say either: see `check_settings`."""
        check_settings(self, "loops.pi")


VERSIONS: Mapping[str, PiOptions] = {
    "0.73.1": PiOptions(parallel=True, after_abort=AfterAbort.TOOLS_AND_CALL),
    "0.87.1": PiOptions(parallel=True, refuse_cut_calls=True, after_abort=AfterAbort.CALL),
}
"""The options with which the loop does as that version of pi-agent-core."""

_STOP = AfterAbort.STOP
_LAST_CALL: frozenset[type[Effect]] = frozenset(
    {effects.RefuseTools, effects.CloseStep, effects.TakeQueued, effects.CallModel}
)
_AFTER_ABORT: Mapping[AfterAbort, frozenset[type[Effect]]] = {
    AfterAbort.STOP: frozenset(),
    AfterAbort.CALL: _LAST_CALL,
    AfterAbort.TOOLS_AND_CALL: _LAST_CALL - {effects.RefuseTools} | {effects.RunTools},
}
"""The effects that follow an abort, for the rule of the exploration."""
_KEEP = (effects.CloseStep(keep=True),)
_BREAKS_OFF = {
    FinishReason.ERROR: Outcome.MODEL_ERROR,
    FinishReason.INTERRUPTED: Outcome.MODEL_ERROR,
    FinishReason.CONTENT_FILTER: Outcome.CONTENT_FILTERED,
}


class PiLoop:
    """The machine. It heeds no limit but the wall clock, which is the simulator's."""

    name = "pi"
    legal = LEGAL
    lacks: Mapping[Feature, str] = {
        Feature.EARLY_TOOLS: "pi starts a tool when the reply has ended"
    }
    bounds: Mapping[str, Bound] = {}

    def __init__(self, limits: Limits | None = None, options: PiOptions | None = None) -> None:
        del limits  # by design: see the docstring of the module
        self.options = options or PiOptions()
        self.policies = Policies(
            compaction=Compaction(max_messages=100),
            tool_execution=ToolExecution(
                order=ToolOrder.PARALLEL if self.options.parallel else ToolOrder.SEQUENTIAL
            ),
            warn_after=50,
        )
        self.abort_rule = AbortRule(_AFTER_ABORT[self.options.after_abort])
        self._take = {
            Queue.STEERING: _taking(Queue.STEERING, self.options.steering),
            Queue.FOLLOW_UP: _taking(Queue.FOLLOW_UP, self.options.follow_up),
        }

    def start(self) -> Run:
        """The run before anything has happened."""
        return Run(Ready())

    def advance(self, run: Run, signal: Signal) -> Transition:
        """Where `signal` leads `run`, and what is asked of the world: see `Machine.advance`."""
        return on_the_map(LEGAL, self._decide, run, signal)

    def _decide(self, run: Run, signal: Signal) -> Transition:
        match signal:
            case Began():
                return Run(Measuring()), self._take[Queue.STEERING]
            case ContextMeasured(over=True):
                return Run(Compacting(forced=False)), (effects.Compact(forced=False),)
            case ContextMeasured() | ContextCompacted():
                return Run(CallingModel()), (effects.CallModel(),)
            case ModelReplied():
                return self._take_reply(Reply(signal.finish, signal.text, signal.calls))
            case ToolsReturned():
                closing = run.state if type(run.state) is Halting else ClosingStep(reply_of(run))
                return Run(closing), _KEEP
            case StepClosed(steering=steering, follow_up=follow_up):
                if type(run.state) is Halting:
                    return run, (self._take[Queue.STEERING][0], effects.CallModel(aborted=True))
                return self._follow(run, reply_of(run), steering=steering, follow_up=follow_up)
            case ModelFailed(error=error):
                aborted = error is ErrorClass.ABORTED
                return finish(run, Outcome.ABORTED if aborted else Outcome.FAILED)
            case AbortRequested():
                if type(run.state) is RunningTools and self.options.after_abort is not _STOP:
                    return self._halt()
                return stop(run, signal)
            case WallClockExpired() | HookFailed() | CallBlocked():
                return stop(run, signal)
            case BackoffElapsed():
                raise AssertionError("never asked for, so refused by the map")
            case _:
                assert_never(signal)

    def _take_reply(self, reply: Reply) -> Transition:
        if not reply.calls:
            return Run(ClosingStep(reply)), _KEEP
        cut = reply.finish is FinishReason.LENGTH and self.options.refuse_cut_calls
        refused = cut or reply.finish in _BREAKS_OFF
        asked = effects.RefuseTools(reply.finish) if refused else effects.RunTools()
        return Run(RunningTools(reply)), (asked,)

    def _follow(self, run: Run, reply: Reply, *, steering: bool, follow_up: bool) -> Transition:
        """Go on while there are calls or messages to steer by; then with what waits for the end."""
        if reply.finish in _BREAKS_OFF:
            return finish(run, _BREAKS_OFF[reply.finish])
        if reply.calls or steering:
            return Run(Measuring()), self._take[Queue.STEERING]
        if follow_up:
            return Run(Measuring()), self._take[Queue.FOLLOW_UP]
        return finish(run, Outcome.COMPLETED)

    def _halt(self) -> Transition:
        """What the real program does with an abort that comes while tools run."""
        if self.options.after_abort is AfterAbort.TOOLS_AND_CALL:
            return Run(Halting()), (effects.RunTools(),)
        return Run(Halting()), (effects.RefuseTools(None),)


def _taking(queue: Queue, delivery: Delivery) -> tuple[Effect, ...]:
    one = delivery is Delivery.ONE_AT_A_TIME
    return effects.TakeQueued(queue, one), effects.MeasureContext()

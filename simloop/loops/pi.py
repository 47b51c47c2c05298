"""The loop of document 001: until the reply holds no tool calls, and no message waits.

It has no cap, by design. Nothing that it counts decides, so a run has no counters, and exploration
finds the shortest way round.

The document decides by whether the reply holds tool calls, not by the finish reason: `stop` with
calls goes on, `tool-calls` without calls ends the run. After 50 model calls each one more is
reported, and none is stopped; a scenario may set another number, for every loop (`warn_after`), and
listeners get the event `notice`. Invalid arguments, unknown tools and tools that raise are told to
the model as errors; a result that a tool returns is a success, also one with `is_error`. A failed
model call ends the run: the loop itself has no retry. Over 100 messages the context is compacted
before the next call, whether that helps or not; a scenario with a `compaction` of its own goes by
tokens, unless that says `max_messages`.

Unlike the document, `details.error` of a failed tool is its message and not its stack: a stack
holds paths and lines of one machine, and a trace has the same bytes on all of them. The document
sends `temperature: 0.7` and `maxTokens: 4096` with each request; requests here have no settings for
the model, because a script decides the reply.

The real program differs (pi-agent-core 0.87.1, observed by running it). Each difference is an
option, and `pi@0.87.1` is a set of options:

- `parallel`: the calls of a reply run at once, unless one of their tools is `sequential`.
- `steering`, `follow_up`: both queues prolong a run, and give one message at a time or all.
- `refuse_cut_calls`: the calls of a reply that was cut off get error results, and do not run.
- `call_after_abort`: an abort is a flag. It breaks off a stream and each running tool by itself,
  and no hook; the results of tools still go through their hooks. No further call begins, and the
  transcript has no result for those. The next model call, with what was said to steer by, comes
  back as aborted, and ends the run. A run that makes no further call completes.
- `resend_failed`: a reply that failed or was aborted is in the transcript, with the part that came
  and its half calls, and in no request. A finish of `error`, a content filter (here an outcome of
  its own) and a stream without a finish count as failed, also in the document's loop.
- `resend_thinking`: the model's reasoning goes into later requests.
- `convert_arguments`, `check_changed`: arguments are converted to the types of the schema, and not
  validated again after a hook.
- `hook_errors_answer`: a tool hook that raises gives its call an error result, and none times out.
- `terminate`: a run ends when every result of a reply asks for it.
- `compacts`, `warns`: it neither compacts nor reports a long run.

A provider's own `aborted` ends a run as aborted in both. The queues are not polled after an
error.

Not modelled of the real loop: its events; `prepareNextTurn`, `prepareRequest` and `finishTurn`,
which may change or end a run between turns; `transformContext` and `convertToLlm`;
`prepareArguments` of a tool; a `terminate` of the hook that blocks a call; the salvage of arguments
that are not valid JSON, which are refused here; system messages that declare changes of the tools;
images; deferred replies. Retries (2, 4, 8 s), compaction at the end of a run and the recovery from
an overflow belong to the session around the loop.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from msgspec import structs

from simloop.kernel import effects
from simloop.kernel.checks import Checked, Word
from simloop.kernel.effects import Effect
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
    deviating,
    finish,
    reply_of,
    stop,
)
from simloop.kernel.policies import (
    Compaction,
    HookIsolation,
    OnHookFailure,
    Policies,
    SentBack,
    ToolExecution,
    ToolOrder,
    ToolRules,
)
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
    Measuring,
    Ready,
    ReplyFacts,
    RunningTools,
)
from simloop.messages import FinishReason, Outcome, Queue


class Delivery(Word):
    """The number of queued messages that are taken at a time."""

    ONE_AT_A_TIME = "one-at-a-time"
    ALL = "all"


_ALWAYS = {
    "bounded-model-calls": "a run continues while the model calls tools",
    "retryable-failures-retried": "the loop has no retry",
    "max-steps-per-round-enforced": "the loop counts no steps",
    "cut-off-replies-force-compaction": (
        "the loop treats a reply that was cut off like any other reply"
    ),
    "overflows-force-compaction": "a request that is too long ends the run",
    "no-empty-replies-sent": "the loop keeps each reply, also an empty one",
    "max-compaction-attempts-enforced": "nothing bounds the compactions of a run",
    "useless-unlimited-compaction-ends-run": "a context is compacted whether that helps or not",
    "completed-after-a-complete-reply": (
        "every reply without calls completes the run, also if it was cut off"
    ),
}
"""The invariants that the loop breaks by design with all options, with reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PiOptions(Checked, at="loops.pi"):
    """The options of the pi loop; the version 0.87.1 has those after the first two."""

    steering: Delivery = Delivery.ONE_AT_A_TIME
    """How many steering messages go with the next request."""
    follow_up: Delivery = Delivery.ONE_AT_A_TIME
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

    def deviations(self) -> dict[str, str]:
        """Return the invariants that a loop with these options breaks by design, with reasons."""
        return _ALWAYS | deviating(
            (
                not self.refuse_cut_calls,
                "no-tools-for-incomplete-replies",
                "the loop runs the calls of a reply that was cut off",
            ),
            (
                self.resend_failed,
                "no-incomplete-replies-in-context",
                "later requests contain a reply without a finish reason",
            ),
            (
                self.terminate,
                "completed-without-open-calls",
                "tool results that request the end of the run complete it",
            ),
        )

    @functools.lru_cache(maxsize=32)  # noqa: B019 - options are frozen, and few of them differ
    def policies(self) -> Policies:
        """Return the policies that these options define; equal options share them."""
        return Policies(
            compaction=Compaction(max_messages=100),
            tool_execution=ToolExecution(
                order=ToolOrder.PARALLEL if self.parallel else ToolOrder.SEQUENTIAL
            ),
            tool_rules=ToolRules(
                convert=self.convert_arguments,
                check_changed=self.check_changed,
                results_fail=False,
            ),
            hook_isolation=_ANSWERING if self.hook_errors_answer else HookIsolation(),
            sent_back=SentBack(failed=self.resend_failed, reasoning=self.resend_thinking),
            abort_is_flag=self.call_after_abort,
            warn_after=50 if self.warns else None,
        )


_ANSWERING = HookIsolation(on_failure=OnHookFailure.ERROR_RESULT, timeout_ms=None)

VERSIONS: Mapping[str, PiOptions] = {
    "0.87.1": PiOptions(
        parallel=True,
        refuse_cut_calls=True,
        call_after_abort=True,
        compacts=False,
        warns=False,
        resend_failed=False,
        resend_thinking=True,
        convert_arguments=True,
        check_changed=False,
        hook_errors_answer=True,
        terminate=True,
    ),
}
"""The options that reproduce a version of pi-agent-core."""


_ROUND = frozenset({Measuring, CallingModel})

LEGAL: LegalMap = {
    Ready: {Began: _ROUND},
    Measuring: {ContextMeasured: frozenset({Compacting, CallingModel}), **ENDINGS},
    Compacting: {ContextCompacted: frozenset({CallingModel}), **ENDINGS},
    CallingModel: {
        ModelReplied: frozenset({RunningTools, ClosingStep}),
        ModelFailed: END,
        HookFailed: END,
        CallBlocked: END,
        **ENDINGS,
    },
    RunningTools: {ToolsReturned: frozenset({ClosingStep}), HookFailed: END, **ENDINGS},
    ClosingStep: {StepClosed: _ROUND | END, HookFailed: END, **ENDINGS},
    Finished: {},
}


_BREAKS_OFF = {
    FinishReason.ERROR: Outcome.MODEL_ERROR,
    FinishReason.INTERRUPTED: Outcome.MODEL_ERROR,
    FinishReason.CONTENT_FILTER: Outcome.CONTENT_FILTERED,
}


class PiLoop:
    """The machine. It keeps no limit but the wall clock, which is the simulator's."""

    name = "pi"
    legal = LEGAL
    bounds: Mapping[str, Bound] = {}

    def __init__(self, limits: Limits | None = None, options: PiOptions | None = None) -> None:
        del limits  # by design: see the docstring of the module
        self.options = chosen = options or PiOptions()
        self.policies = chosen.policies()
        self.unsupported = _unsupported(chosen)
        self._round: Effect = effects.MeasureContext() if chosen.compacts else effects.CallModel()
        self._take = {
            Queue.STEERING: self._taking(Queue.STEERING, chosen.steering),
            Queue.FOLLOW_UP: self._taking(Queue.FOLLOW_UP, chosen.follow_up),
        }

    @property
    def deviations(self) -> Mapping[str, str]:
        """Return the invariants that the design does not keep, each with the reason."""
        return self.options.deviations()

    def start(self) -> Run:
        """Return the run before any signal has arrived."""
        return Run(Ready())

    def advance(self, run: Run, signal: Signal) -> Transition:
        """Return the next run and the effects that it requests: see `Machine.advance`."""
        match signal:
            case Began():
                return self._begin_round(Queue.STEERING)
            case ContextMeasured(over=True):
                return Run(Compacting(forced=False)), (effects.Compact(forced=False),)
            case ContextMeasured() | ContextCompacted():
                return Run(CallingModel()), (effects.CallModel(),)
            case ModelReplied():
                return self._take_reply(ReplyFacts(signal.finish, signal.text, signal.calls))
            case ToolsReturned(terminate=terminate):
                reply = reply_of(run)
                if terminate and self.options.terminate:
                    reply = structs.replace(reply, calls=False)
                return self._close(reply)
            case StepClosed(steering=steering, follow_up=follow_up):
                return self._follow(run, reply_of(run), steering=steering, follow_up=follow_up)
            case ModelFailed(error=error):
                aborted = error is ErrorClass.ABORTED
                return finish(run, Outcome.ABORTED if aborted else Outcome.FAILED)
            case AbortRequested() | WallClockExpired() | HookFailed() | CallBlocked():
                return stop(run, signal)
            case BackoffElapsed():
                raise AssertionError("never asked for, so refused by the map")
            case _:
                assert_never(signal)

    def _begin_round(self, queue: Queue) -> Transition:
        return Run(Measuring() if self.options.compacts else CallingModel()), self._take[queue]

    def _take_reply(self, reply: ReplyFacts) -> Transition:
        if not reply.calls:
            return self._close(reply)
        cut = reply.finish is FinishReason.LENGTH and self.options.refuse_cut_calls
        refused = cut or reply.finish in _BREAKS_OFF
        asked = effects.RefuseTools(reply.finish) if refused else effects.RunTools()
        return Run(RunningTools(reply)), (asked,)

    def _close(self, reply: ReplyFacts) -> Transition:
        """End the step. A failed reply stays in the context only if the options say so."""
        keep = self.options.resend_failed or reply.finish not in _BREAKS_OFF
        return Run(ClosingStep(reply)), (effects.CloseStep(keep=keep),)

    def _follow(
        self, run: Run, reply: ReplyFacts, *, steering: bool, follow_up: bool
    ) -> Transition:
        """Go on while there are calls or messages to steer by; then with what waits for the end."""
        if reply.finish in _BREAKS_OFF:
            return finish(run, _BREAKS_OFF[reply.finish])
        if reply.calls or steering:
            return self._begin_round(Queue.STEERING)
        if follow_up:
            return self._begin_round(Queue.FOLLOW_UP)
        return finish(run, Outcome.COMPLETED)

    def _taking(self, queue: Queue, delivery: Delivery) -> tuple[Effect, ...]:
        return effects.TakeQueued(queue, delivery is not Delivery.ALL), self._round


def _unsupported(options: PiOptions) -> Mapping[Feature, str]:
    unsupported = {Feature.EARLY_TOOLS: "pi starts a tool when the reply has ended"}
    if not options.compacts:
        unsupported[Feature.COMPACTION] = "pi has no compaction in this version"
    return unsupported

"""The loop of document 004: an outer loop over steps, an inner one over tries of a model call.

The inner loop returns `continue`, `stop` or `compact`, and only the outer loop ends a run. In
states: `Turning` is the top of the outer loop, `CallingModel` to `ClosingStep` and `BackingOff` are
the inner one.

A run ends in four ways (document, section 1.2): the newest reply has a finish that is neither
`tool-calls` nor unknown, and the user has said nothing since; the user aborts; the inner loop
returns `stop` (an error, or a forbidden call); a compaction stops. The finishes `other` and
`interrupted` are the document's `unknown`. The context is measured after each reply, where the
document returns `compact`, and so never before the first one. A failed call is tried again at most
`max_retries` times, after 1, 2, 4 s ..., or as Retry-After says; `error_count` counts the failures
of one step.

The document has no limit that ends a run. From step `max_steps` on, each request ends with a note
of the assistant and keeps its tools, and the run goes on, without end if the model never answers. A
step is a turn of the outer loop that asks the model for a reply or for a summary; a result's
`total_steps` counts replies alone. With `steps: enforce`, which is an option of simloop, the last
step has no tools and the run ends after it, also if a compaction takes that step.

The loop sees an abort at the top of the outer loop, at each part of the stream and in the wait
before a retry, as the document prints it: it waits for a tool, and the wait before a retry gives
way to one more call, which comes back as aborted. The document does not mention hooks, and no abort
during a compaction: the loop waits for hooks around a call, and cuts short a compaction and the
hooks after a step.

Differences from the document:

- its catch (section 2.3.2) takes failures of the model and of tools alike. Here a tool that fails
  gives its call an error result, and the run goes on, as in the real program, whose tool runner
  catches the failure before that catch can.
- the message that it keeps of a failed call holds the error (section 2.3.2; section 3.2 ends with
  it). Here no message stays of a call that failed: the error is in the trace and in the result.
- a compaction that fails stops its run (sections 1.1.4 and 2.3.1). Here a summary that fails gives
  way to dropping the oldest messages, and only a compaction that gains nothing stops the run; one
  that gains too little is followed by another.
- its compaction task names the agent, the model and `auto: true` (section 1.1.3), and its events
  name the session. Here a run has one agent, one model and one session, and compacts by itself.

An empty reply is in no later request, in the document's loop as in the program; one with reasoning
alone is in the program's, as an empty message (`keep_thoughts`).

The real program differs from the document in `OpencodeOptions`, which `opencode@1.18.34`
sets. These differences of the program have no option:

- delays: it adds up to a quarter by chance; here a delay is exact.
- errors: it reads the whole body for the words of a passing failure (bug C7), here the message and
  the code are read. A body without a message of its own is part of the message, so an overflow is
  also known by words that stand elsewhere in such a body, and a provider whose name begins with
  `openai` has its 404 retried. Of an error frame it reads the whole JSON, here the message and the
  code are read. An exception of the client is judged by its message alone, and here as a frame.
- broken streams: it waits 250 ms at most for a tool that still runs; here the loop waits for it.
  After an abort, or a compaction, the failed tries of a step are forgotten here.
- compactions: one that the size of the context causes keeps the newest turns here, and its summary
  has a role of its own. The program leaves the marker, the summary and a word to go on, as it does
  here after an overflow, and keeps the newest turns too. It adds that word even if the compaction
  gained nothing, measures by the provider's usage, and measures a history that a session begins
  with. A summary that fails stops it; here the oldest messages go instead.
- messages said during a run go into the transcript at once; here they wait for the next turn of the
  outer loop, and after a run that ended early they come behind the next prompt.
- the step limit of the program comes from its configuration; without one, `steps` is `unlimited`.
- not modelled: sub-tasks, the doom-loop guard, pruning of old tool outputs, titles, the reminder
  around messages said during a run, structured output, and the `invalid` tool, whose complaint
  counts as a success.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, assert_never

from annotated_types import Ge
from msgspec import Struct

from simloop.kernel import effects
from simloop.kernel.checks import Checked, Word
from simloop.kernel.durations import Lasting, Milliseconds
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
    deviating,
    finish,
    reply_of,
    stop,
)
from simloop.kernel.policies import Policies, ReplyReading, ToolExecution, ToolOrder, ToolStart
from simloop.kernel.retry import ExponentialBackoff, RetryPolicy
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
    BackingOff,
    CallingModel,
    ClosingStep,
    Compacting,
    Finished,
    Halting,
    Ready,
    ReplyFacts,
    RunningTools,
)
from simloop.loops.opencode_retry import OpencodeRetry
from simloop.messages import FinishReason, Outcome


class Steps(Word):
    """The behaviour of a run that has reached `max_steps`."""

    ADVISE = "advise"  # each further request ends with a note, and keeps its tools: the document
    ENFORCE = "enforce"  # the last step has the note and no tools, and the run ends after it
    UNLIMITED = "unlimited"  # nothing happens: the real program, unless it is configured


_ALWAYS = {
    "bounded-model-calls": "nothing bounds the steps",
    "max-steps-per-round-enforced": "the loop counts each reply as one step",
    "cut-off-replies-force-compaction": "a reply that was cut off ends the run",
    "no-request-after-an-answer": (
        "after an answer that fills the context, the loop compacts it and continues"
    ),
    "max-compaction-attempts-enforced": "only the limit of steps bounds the compactions",
    "useless-replies-count-as-errors": (
        "the loop sends a further request after an unknown finish reason"
    ),
    "last-message-role": "a note at the step limit, or an unfinished reply, is the last message",
    "no-tools-for-incomplete-replies": "the loop runs the calls of a reply with any finish reason",
    "no-tools-for-failed-replies": "the loop runs the calls of a reply with any finish reason",
    "broken-replies-end-runs": "the loop continues after some replies with such a finish reason",
    "newest-user-message-sent": (
        "the summary of a forced compaction replaces a prompt that is the only message"
    ),
    "no-incomplete-replies-in-context": (
        "the loop continues after a reply without a finish reason, and keeps its text"
    ),
    "completed-after-a-complete-reply": "every known finish reason ends the run",
}
"""The invariants that the loop breaks by design with all options, with reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpencodeOptions(Checked, at="loops.opencode"):
    """The options of the opencode loop."""

    max_retries: Annotated[int, Ge(0)] = 5
    """How often a failed call is tried again."""
    first_delay_ms: Annotated[int, Lasting(0)] = Milliseconds(1_000)
    """Milliseconds before the first retry, then doubled; 2000 in 1.18.34. `retry` beats it."""
    program_errors: bool = False
    """Errors are classified as in 1.18.34, by status, codes and words. Retry-After counts as it is:
    zero and less retry at once, and an answer's delay has no cap. `retry` beats it."""
    steps: Steps = Steps.ADVISE
    """Whether `max_steps` adds a note to each further request, ends the run, or does nothing
    (1.18.34). The design only adds the note; `enforce` is an addition of simloop."""
    compact_without_progress: bool = False
    """A compaction that gains nothing does not end the run (1.18.34)."""
    compact_on_overflow: bool = False
    """A context overflow is answered by a compaction (1.18.34)."""
    compatible_words: bool = False
    """Only the finish words of an OpenAI-compatible provider are known, as spelled: `STOP` and
    `max_tokens` are not, and `network_error` is a failure that is retried (1.18.34)."""
    lower_case_names: bool = False
    """A tool that is not offered is also found by its name in lower case (1.18.34)."""
    keep_failed: bool = False
    """A reply that breaks off leaves its calls in the context, under an empty message, when a retry
    has succeeded (1.18.34)."""
    keep_thoughts: bool = False
    """A reply with reasoning alone goes into later requests, as an empty message (1.18.34)."""
    calls_go_on: bool = False
    """A reply with calls goes on, whatever its finish (1.18.34)."""
    filter_fails: bool = False
    """A content filter is an error (1.18.34)."""
    parallel: bool = False
    """Run the calls of a reply at once (1.18.34)."""
    abort_at_once: bool = False
    """An abort is seen wherever the run waits, and no call is made after it (1.18.34)."""

    def deviations(self) -> dict[str, str]:
        """Return the invariants that a loop with these options breaks by design, with reasons."""
        late = not self.abort_at_once
        useless = "a compaction that gains nothing does not end the run"
        return _ALWAYS | deviating(
            (
                not self.compact_on_overflow,
                "overflows-force-compaction",
                "a request that is too long ends the run",
            ),
            (self.compact_without_progress, "useless-forced-compaction-ends-run", useless),
            (self.compact_without_progress, "useless-unlimited-compaction-ends-run", useless),
            (
                late,
                "nothing-starts-after-stop",
                "the loop looks for an abort only before the next step",
            ),
            (late, "outcome-matches-stop", "a run may end before the loop notices the abort"),
            (
                late,
                "stopped-run-ends-in-time",
                "the loop notices an abort after the reply, the tools or the backoff",
            ),
            (
                self.keep_failed,
                "replies-with-calls-kept",
                "a failed reply stays in the context without its text",
            ),
            (
                self.keep_failed or self.keep_thoughts,
                "no-empty-replies-sent",
                "a failed reply, or one with reasoning alone, stays in the context as an empty one",
            ),
            (
                not self.calls_go_on,
                "completed-without-open-calls",
                "a reply with calls and the finish reason `stop` ends the run",
            ),
        )


VERSIONS: Mapping[str, OpencodeOptions] = {
    "1.18.34": OpencodeOptions(
        first_delay_ms=2_000,
        program_errors=True,
        steps=Steps.UNLIMITED,
        compact_without_progress=True,
        compact_on_overflow=True,
        compatible_words=True,
        lower_case_names=True,
        keep_failed=True,
        keep_thoughts=True,
        calls_go_on=True,
        filter_fails=True,
        parallel=True,
        abort_at_once=True,
    ),
}
"""The options that reproduce a version of opencode."""


class Turning(Struct, frozen=True, gc=False):
    """The top of the outer loop after a reply; a full context is compacted before all else.

    `answered`: the exit test holds. `blocked`: the inner loop returned `stop`.
    """

    answered: bool
    blocked: bool = False


LEGAL: LegalMap = {
    Ready: {Began: frozenset({CallingModel})},
    Turning: {ContextMeasured: frozenset({Compacting, CallingModel, Finished}), **ENDINGS},
    Compacting: {ContextCompacted: frozenset({CallingModel, Finished}), **ENDINGS},
    CallingModel: {
        ModelReplied: frozenset({RunningTools, ClosingStep}),
        ModelFailed: frozenset({BackingOff, Compacting, Finished}),
        HookFailed: END,
        CallBlocked: END,
        **ENDINGS,
    },
    RunningTools: {ToolsReturned: frozenset({ClosingStep}), HookFailed: END, **ENDINGS},
    ClosingStep: {StepClosed: frozenset({Turning, Finished}), HookFailed: END, **ENDINGS},
    BackingOff: {
        BackoffElapsed: frozenset({CallingModel}),
        **ENDINGS,
        AbortRequested: frozenset({Halting, Finished}),
    },
    Halting: {ModelFailed: END, **ENDINGS},
    Finished: {},
}
MAX_STEPS = "The steps are used up. Call no tools: say what was done, and what is left to do."
MARKER = "What did we do so far?"
GO_ON = "Go on with what is left to do. If nothing is, say so."


_TURN = (effects.TakeQueued(), effects.MeasureContext())
_GOES_ON = frozenset({FinishReason.TOOL_CALLS, FinishReason.OTHER, FinishReason.INTERRUPTED})


def _retry_policy(options: OpencodeOptions) -> RetryPolicy:
    policy = OpencodeRetry if options.program_errors else ExponentialBackoff
    return policy(initial_delay_ms=options.first_delay_ms)


# The words of the protocol, and those of scenarios for the same.
_COMPATIBLE = frozenset({"stop", "length", "function_call"}) | {
    f"{first}{joint}{second}"
    for first, second in (("tool", "calls"), ("content", "filter"))
    for joint in "_-"
}


def _reading(options: OpencodeOptions) -> ReplyReading:
    return ReplyReading(
        finish_words=_COMPATIBLE if options.compatible_words else None,
        failing_words=frozenset({"network_error"} if options.compatible_words else ()),
        lower_case_names=options.lower_case_names,
        keep_failed=options.keep_failed,
    )


class OpencodeLoop:
    """The machine. `compaction_attempts` stays 0, because steps bound the compactions."""

    name = "opencode"
    legal = LEGAL
    unsupported: Mapping[Feature, str] = {}

    def __init__(
        self, limits: Limits | None = None, options: OpencodeOptions | None = None
    ) -> None:
        self.options = options or OpencodeOptions()
        self.max_steps = (limits or Limits()).max_steps
        order = ToolOrder.PARALLEL if self.options.parallel else ToolOrder.SEQUENTIAL
        self.policies = Policies(
            retry=_retry_policy(self.options),
            tool_execution=ToolExecution(order=order, start=ToolStart.WHEN_CALLED),
            replies=_reading(self.options),
        )
        tries = Bound("error_count", self.options.max_retries + 1, resets=True)
        bounds: dict[str, Bound] = {"max_retries": tries}
        if self.options.steps is Steps.ENFORCE:
            bounds["max_steps"] = Bound("total_steps", self.max_steps, of_turns=True)
        self.bounds: Mapping[str, Bound] = bounds
        # The wait before a retry swallows an abort, and the next try finds it.
        last_try: set[type[Effect]] = set() if self.options.abort_at_once else {effects.CallModel}
        self.abort_rule = AbortRule(frozenset(last_try))
        self._run_tools = (effects.RunTools(polls=not self.options.abort_at_once),)

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
                return self._call_with_queued(run)
            case ContextMeasured(over=over):
                return self._turn(run, over=over)
            case ContextCompacted(shrunk=shrunk):
                return self._resume(run, shrunk=shrunk)
            case ModelReplied():
                return self._take_reply(run, ReplyFacts(signal.finish, signal.text, signal.calls))
            case ModelFailed(error=error, retryable=retryable):
                return self._catch(run, error, retryable=retryable)
            case BackoffElapsed():
                return self._call(run)
            case ToolsReturned(blocked=blocked):
                reply = reply_of(run)
                return run.to(ClosingStep(reply, blocked)), self._close(reply)
            case StepClosed(steering=steering, follow_up=follow_up):
                return self._judge(run, reply_of(run), queued=steering or follow_up)
            case AbortRequested():
                return self._abort(run, signal)
            case WallClockExpired() | HookFailed() | CallBlocked():
                return stop(run, signal)
            case _:
                assert_never(signal)

    # ------------------------------------------------------------------ the outer loop

    def _turn(self, run: Run, *, over: bool) -> Transition:
        """Compact what is too long, leave if there is an answer, else ask the model."""
        assert isinstance(run.state, Turning)
        spent = self._is_spent(run)
        if over and not spent:
            return self._compact(run, forced=False)
        if run.state.blocked:
            return finish(run, Outcome.BLOCKED)
        if run.state.answered:
            return finish(run, Outcome.COMPLETED)
        if spent:
            return finish(run, Outcome.MAX_STEPS, "max_steps")
        return self._call_with_queued(run)

    def _is_spent(self, run: Run) -> bool:
        return self.options.steps is Steps.ENFORCE and run.total_steps >= self.max_steps

    def _compact(self, run: Run, *, forced: bool) -> Transition:
        marker = MARKER if forced else ""
        return run.to(Compacting(forced)), (effects.Compact(forced, GO_ON, marker),)

    def _resume(self, run: Run, *, shrunk: bool) -> Transition:
        """Continue after a compaction, which spends a step and stops the run without progress."""
        counted = self._counted(run)
        if not shrunk and not self.options.compact_without_progress:
            return finish(counted, Outcome.CONTEXT_LIMIT)
        if self._is_spent(counted):
            return finish(counted, Outcome.MAX_STEPS, "max_steps")
        return self._call_with_queued(counted)

    def _counted(self, run: Run) -> Run:
        """Return the run with one more step, if steps decide, and no failures of that step."""
        counts = self.options.steps is not Steps.UNLIMITED
        steps = min(run.total_steps + 1, self.max_steps) if counts else 0
        return Run(run.state, total_steps=steps)

    # ------------------------------------------------------------------ the inner loop

    def _call(self, run: Run) -> Transition:
        return run.to(CallingModel()), (self._request(run, aborted=False),)

    def _call_with_queued(self, run: Run) -> Transition:
        after, asked = self._call(run)
        return after, (effects.TakeQueued(), *asked)

    def _request(self, run: Run, *, aborted: bool) -> effects.CallModel:
        """Return the call; from `max_steps` on it has the note, and no tools if enforced."""
        last = self.options.steps is not Steps.UNLIMITED and run.total_steps + 1 >= self.max_steps
        return effects.CallModel(
            note=MAX_STEPS if last else "",
            tools=not (last and self.options.steps is Steps.ENFORCE),
            polls=not (self.options.abort_at_once or aborted),
            aborted=aborted,
        )

    def _take_reply(self, run: Run, reply: ReplyFacts) -> Transition:
        counted = self._counted(run)
        if reply.calls:
            return counted.to(RunningTools(reply)), self._run_tools
        return counted.to(ClosingStep(reply)), self._close(reply)

    def _close(self, reply: ReplyFacts) -> tuple[effects.CloseStep]:
        """Return the end of a step: an empty reply is not kept, a filtered one is an error."""
        filtered = reply.finish is FinishReason.CONTENT_FILTER and self.options.filter_fails
        keep = (reply.text or reply.calls) and not filtered
        return (effects.CloseStep(keep, self.options.keep_thoughts and not filtered),)

    def _judge(self, run: Run, reply: ReplyFacts, *, queued: bool) -> Transition:
        """End the run on `stop`; the outer loop distinguishes `continue` and `compact`."""
        assert isinstance(run.state, ClosingStep)
        if reply.finish is FinishReason.CONTENT_FILTER and self.options.filter_fails:
            return finish(run, Outcome.CONTENT_FILTERED)
        if run.state.blocked:  # `compact` is returned before `stop` (document, 2.3.1)
            return run.to(Turning(answered=False, blocked=True)), (effects.MeasureContext(),)
        goes_on = reply.finish in _GOES_ON or (reply.calls and self.options.calls_go_on)
        if goes_on or queued:
            return run.to(Turning(answered=False)), _TURN
        # Nothing is taken here: a message that comes only now would be in no request of this run.
        return run.to(Turning(answered=True)), _TURN[1:]

    def _catch(self, run: Run, error: ErrorClass, *, retryable: bool) -> Transition:
        if error is ErrorClass.ABORTED:
            return finish(run, Outcome.ABORTED)
        if error is ErrorClass.OVERFLOW and self.options.compact_on_overflow:
            return self._compact(run, forced=True)
        failed = Run(run.state, run.error_count + 1, run.total_steps)
        if not retryable:
            return finish(failed, Outcome.FAILED)
        if failed.error_count > self.options.max_retries:
            return finish(failed, Outcome.TOO_MANY_ERRORS, "max_retries")
        return failed.to(BackingOff()), (effects.Backoff(failed.error_count),)

    def _abort(self, run: Run, signal: AbortRequested) -> Transition:
        """Abort the run; an abort in the wait before a retry takes effect at the next try."""
        if type(run.state) is BackingOff and not self.options.abort_at_once:
            return run.to(Halting()), (self._request(run, aborted=True),)
        return stop(run, signal)

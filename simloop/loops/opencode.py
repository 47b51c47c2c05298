"""The loop of opencode: an outer loop over steps, an inner one over tries of a model call.

`Turning` is the top of the outer loop; `CallingModel` to `ClosingStep` and `BackingOff` are the
inner one, which returns `continue`, `stop` or `compact`. docs/loops.md says when a run ends, and
where the document and the real program differ.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge
from msgspec import Struct

from simloop.kernel import effects, machine, policies, signals, states
from simloop.kernel.checks import Checked
from simloop.kernel.durations import Lasting, Milliseconds
from simloop.kernel.errorclass import ErrorClass, class_of_status, classify, says_overflow
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Bound, Run, Transition, finish, stop
from simloop.kernel.retry import RETRYABLE, ExponentialBackoff
from simloop.kernel.signals import Signal
from simloop.kernel.states import ReplyFacts
from simloop.messages import Fault, FinishReason, Outcome

_TURN = (effects.TakeQueued(), effects.MeasureContext())
_GOES_ON = frozenset({FinishReason.TOOL_CALLS, FinishReason.OTHER, FinishReason.INTERRUPTED})
# The words of the protocol, and those of scenarios for the same.
_FINISHES = ("tool_calls", "tool-calls", "content_filter", "content-filter")
_COMPATIBLE = frozenset({"stop", "length", "function_call", *_FINISHES})

Steps: TypeAlias = Literal[
    "advise",  # each further request ends with a note, and keeps its tools: the document
    "enforce",  # the last step has the note and no tools, and the run ends after it
    "unlimited",  # nothing happens: the real program, unless it is configured
]
"""The behaviour of a run that has reached `max_steps`."""


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
    steps: Steps = "advise"
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


_PROGRAM: Any = json.loads(Path(__file__).with_name("opencode.json").read_text("utf-8"))
"""The options of versions of the real program, words that it knows, and deviations."""
VERSIONS: Mapping[str, OpencodeOptions] = {
    version: OpencodeOptions(**options) for version, options in _PROGRAM["versions"].items()
}


class Turning(Struct, frozen=True, gc=False):
    """The top of the outer loop after a reply; a full context is compacted before all else."""

    answered: bool  # the exit test holds
    blocked: bool = False  # the inner loop returned `stop`


LEGAL: machine.LegalMap = {
    states.Ready: {signals.Began: frozenset({states.CallingModel})},
    Turning: machine.row(
        signals.ContextMeasured, states.Compacting, states.CallingModel, states.Finished
    ),
    states.Compacting: machine.row(signals.ContextCompacted, states.CallingModel, states.Finished),
    states.CallingModel: machine.calling_model(
        states.BackingOff, states.Compacting, states.Finished
    ),
    states.RunningTools: machine.RUNNING_TOOLS,
    states.ClosingStep: machine.closing_step(Turning, states.Finished),
    states.BackingOff: {
        **machine.row(signals.BackoffElapsed, states.CallingModel),
        signals.AbortRequested: frozenset({states.Halting, states.Finished}),
    },
    states.Halting: machine.row(signals.ModelFailed, states.Finished),
    states.Finished: {},
}
MAX_STEPS = "The steps are used up. Call no tools: say what was done, and what is left to do."
MARKER = "What did we do so far?"
GO_ON = "Go on with what is left to do. If nothing is, say so."

# Read in opencode-linux-x64 1.18.34. They are found anywhere in a message, with the faults of the
# program: 500 is found in "15000" (bug C7).
_MAY_PASS = re.compile(
    "|".join(_PROGRAM["words of a failure that may pass"]), re.IGNORECASE | re.ASCII | re.MULTILINE
)
_CONFLICT, _TOO_LARGE, _SERVER = 409, 413, 500
# No cap but the longest wait of a JavaScript timer.
_HEADERS = "retry-after-ms", "retry-after"
_UNCAPPED = dict.fromkeys(("max_delay_ms", "max_retry_after_ms"), 2**31 - 1)
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpencodeRetry:
    """Repeats 408, 409, 429, all from 500 on, and errors by their words, without a cap."""

    initial_delay_ms: int = 2_000

    def retryable(self, error: ErrorClass) -> bool:
        return error in RETRYABLE

    def delay_ns(self, failures: int, fault: Fault | None, *, now_ns: int, draw: float) -> int:
        """Return the wait that a header asks for, zero and less for none, else 2, 4, 8 s ...

        The first header that is a number decides.
        """
        headers = [fault.header(each) or "" for each in _HEADERS] if fault is not None else []
        asked = next((float(each) for each in headers if _NUMBER.fullmatch(each)), None)
        if asked is not None and asked <= 0:
            return 0
        uncapped = ExponentialBackoff(initial_delay_ms=self.initial_delay_ms, **_UNCAPPED)
        return uncapped.delay_ns(failures, fault, now_ns=now_ns, draw=draw)

    def classify(self, fault: Fault) -> ErrorClass:
        """Return the class that decides in the program, which may differ from the true one."""
        known, status = classify(fault), 0
        if isinstance(fault.status, int):
            if (status := fault.status) == _TOO_LARGE or says_overflow(fault.message):
                return ErrorClass.OVERFLOW
            if known is not ErrorClass.OVERFLOW:
                known = class_of_status(status)
        if known in (*RETRYABLE, ErrorClass.ABORTED, ErrorClass.OVERFLOW):
            return known
        passes = status == _CONFLICT or status >= _SERVER
        if passes or _MAY_PASS.search(f"{fault.message}\n{fault.code}"):
            return ErrorClass.SERVER
        return known


class OpencodeLoop(machine.Design):
    """The machine. `compaction_attempts` stays 0, because steps bound the compactions."""

    name = "opencode"
    legal = LEGAL
    deviates = _PROGRAM["deviates"]

    def __init__(
        self, limits: Limits | None = None, options: OpencodeOptions | None = None
    ) -> None:
        self.options = options or OpencodeOptions()
        self.max_steps = (limits or Limits()).max_steps
        order: policies.ToolOrder = "parallel" if self.options.parallel else "sequential"
        retry = OpencodeRetry if self.options.program_errors else ExponentialBackoff
        compatible = self.options.compatible_words
        replies = policies.ReplyReading(
            finish_words=_COMPATIBLE if compatible else None, keep_failed=self.options.keep_failed,
            failing_words=frozenset({"network_error"} if compatible else ()),
            lower_case_names=self.options.lower_case_names,
        )  # fmt: skip
        execution = policies.ToolExecution(order=order, start="when-called")
        waits = retry(initial_delay_ms=self.options.first_delay_ms)
        self.policies = policies.Policies(retry=waits, tool_execution=execution, replies=replies)
        tries = Bound("error_count", self.options.max_retries + 1, resets=True)
        bounds: dict[str, Bound] = {"max_retries": tries}
        if self.options.steps == "enforce":
            bounds["max_steps"] = Bound("total_steps", self.max_steps, of_turns=True)
        self.bounds: Mapping[str, Bound] = bounds
        # The wait before a retry swallows an abort, and the next try finds it.
        last_try = () if self.options.abort_at_once else (effects.CallModel,)
        self.abort_rule = machine.AbortRule(frozenset(last_try))
        self._run_tools = (effects.RunTools(polls=not self.options.abort_at_once),)

    def advance(self, run: Run, signal: Signal) -> Transition:
        match signal:
            case signals.Began():
                return self._call_with_queued(run)
            case signals.ContextMeasured(over=over):
                return self._turn(run, over=over)
            case signals.ContextCompacted(shrunk=shrunk):
                return self._resume(run, shrunk=shrunk)
            case signals.ModelReplied():
                return self._take_reply(run, ReplyFacts(signal.finish, signal.text, signal.calls))
            case signals.ModelFailed(error=error, retryable=retryable):
                return self._catch(run, error, retryable=retryable)
            case signals.BackoffElapsed():
                return self._call(run)
            case signals.ToolsReturned(blocked=blocked):
                reply = machine.reply_of(run)
                return run.to(states.ClosingStep(reply, blocked)), self._close(reply)
            case signals.StepClosed(steering=steering, follow_up=follow_up):
                return self._judge(run, machine.reply_of(run), queued=steering or follow_up)
            case signals.AbortRequested() if self._waits(run):
                # An abort in the wait before a retry takes effect at the next try.
                return run.to(states.Halting()), (self._request(run, aborted=True),)
            case _:
                return stop(run, signal)

    def _waits(self, run: Run) -> bool:
        return type(run.state) is states.BackingOff and not self.options.abort_at_once

    # ------------------------------------------------------------------ the outer loop

    def _turn(self, run: Run, *, over: bool) -> Transition:
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
        return self.options.steps == "enforce" and run.total_steps >= self.max_steps

    def _compact(self, run: Run, *, forced: bool) -> Transition:
        marker = MARKER if forced else ""
        return run.to(states.Compacting(forced)), (effects.Compact(forced, GO_ON, marker),)

    def _resume(self, run: Run, *, shrunk: bool) -> Transition:
        """Continue after a compaction, which spends a step and stops the run without progress."""
        counted = self._counted(run)
        if not shrunk and not self.options.compact_without_progress:
            return finish(counted, Outcome.CONTEXT_LIMIT)
        if self._is_spent(counted):
            return finish(counted, Outcome.MAX_STEPS, "max_steps")
        return self._call_with_queued(counted)

    def _counted(self, run: Run) -> Run:
        counts = self.options.steps != "unlimited"
        steps = min(run.total_steps + 1, self.max_steps) if counts else 0
        return Run(run.state, total_steps=steps)

    # ------------------------------------------------------------------ the inner loop

    def _call(self, run: Run) -> Transition:
        return run.to(states.CallingModel()), (self._request(run, aborted=False),)

    def _call_with_queued(self, run: Run) -> Transition:
        after, asked = self._call(run)
        return after, (effects.TakeQueued(), *asked)

    def _request(self, run: Run, *, aborted: bool) -> effects.CallModel:
        last = self.options.steps != "unlimited" and run.total_steps + 1 >= self.max_steps
        return effects.CallModel(
            note=MAX_STEPS if last else "", tools=not (last and self.options.steps == "enforce"),
            polls=not (self.options.abort_at_once or aborted), aborted=aborted,
        )  # fmt: skip

    def _take_reply(self, run: Run, reply: ReplyFacts) -> Transition:
        counted = self._counted(run)
        if reply.calls:
            return counted.to(states.RunningTools(reply)), self._run_tools
        return counted.to(states.ClosingStep(reply)), self._close(reply)

    def _close(self, reply: ReplyFacts) -> tuple[effects.CloseStep]:
        filtered = reply.finish is FinishReason.CONTENT_FILTER and self.options.filter_fails
        keep = (reply.text or reply.calls) and not filtered
        return (effects.CloseStep(keep, self.options.keep_thoughts and not filtered),)

    def _judge(self, run: Run, reply: ReplyFacts, *, queued: bool) -> Transition:
        assert isinstance(run.state, states.ClosingStep)
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
        return failed.to(states.BackingOff()), (effects.Backoff(failed.error_count),)

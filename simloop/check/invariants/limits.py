"""Invariants on counters, and on the limits in numbers and in time.

A machine declares in `bounds` which of its counters bound a run; other counters are free. A limit
in time counts from the beginning of the action that it bounds, so that no progress extends it.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Bound, Feature, Machine, Run
from simloop.kernel.names import NAMES
from simloop.kernel.states import ClosingStep, Finished, ReplyFacts
from simloop.messages import Counters, FinishReason, Outcome
from simloop.prove.rules import ended_too_early, past_a_bound
from simloop.trace.entries import Ended, Prompt, Request


@invariant(
    "A run makes no more model calls than its limits allow.",
    "BUGS.md A1, A5, A11, A12",
    sees=[Request],
    needs=[Need.LIMITS],
)
def bounded_model_calls(subject: Subject, entry: Any) -> str:
    """Each main request costs a step, an error or a compaction attempt; all are bounded."""
    limits, facts = subject.limits, subject.facts
    assert limits is not None
    most = limits.max_steps + limits.max_error_count + limits.max_compaction_attempts
    requests = len(facts.main_replies) - facts.earlier_replies
    if requests > most and entry.purpose == "main":
        return f"request {entry.number} is number {requests} of its run; the limits allow {most}"
    return ""


_ZERO = Counters(0, 0, 0)


@invariant(
    "The counters of a run match its trace: steps of the replies, compactions and errors.",
    "BUGS.md E1, E2",
    sees=[Prompt, signals.ModelReplied, signals.ContextCompacted, Counters, Ended],
    needs=[Need.MACHINE],
)
def counters_match_trace(subject: Subject) -> Watch:
    """The end of a run states the counters of the last transition."""
    course, facts, last, steps, compactions = subject.course, subject.facts, _ZERO, 0, 0
    while True:
        entry = yield
        kind = type(entry)
        if kind is Prompt:
            last, steps, compactions = _ZERO, 0, 0
        elif kind is Ended:
            if entry.counters != last:
                return f"the run ends with {_told(entry.counters)}, not with {_told(last)}"
        else:
            signal = type(entry.signal)
            if signal is signals.ModelReplied:
                steps += max(1, facts.reply.steps) if facts.reply else 0
            compactions += signal is signals.ContextCompacted
            last, errors = entry.counters, course.run.error_count
            right = Counters(errors, steps, compactions)
            if last != right:
                return f"the trace has {_told(right)}: {_told(last)}"


def _told(counters: Counters | None) -> str:
    if counters is None:
        return "no counters"
    errors, steps = counters.error_count, counters.total_steps
    return f"{errors} errors, {steps} steps, {counters.compaction_attempts} compactions"


@invariant(
    "Each run begins with all counters at zero.",
    "BUGS.md E6, E9",
    sees=[signals.Began],
    needs=[Need.MACHINE],
)
def counters_zero_at_run_start(subject: Subject, entry: Any) -> str:
    """Each prompt of a conversation has its full limits."""
    if entry.counters != _ZERO or _counts(subject.course.before) != (0, 0, 0):
        return f"a run begins with {_told(entry.counters)}"
    return ""


_counts = attrgetter("error_count", "total_steps", "compaction_attempts")


@invariant(
    "A counter that bounds a run never decreases, and increases by one or by the steps of a reply.",
    "BUGS.md E1, B17, C1",
    sees=[Counters],
    needs=[Need.MACHINE],
)
def counters_never_decrease(subject: Subject, _: Any) -> str:
    """A counter that is declared to reset may decrease."""
    course = subject.course
    before, run, signal = course.before, course.run, course.signal
    for counter, bound in course.declared.items():
        old, new = getattr(before, counter), getattr(run, counter)
        most = signal.steps if type(signal) is signals.ModelReplied else 1
        if (new < old and not bound.resets) or new - old > most:
            return f"on {NAMES[type(signal)]} {counter} goes from {old} to {new}"
    return ""


@invariant(
    "Each failure before a retry, each step and each compaction increases its counter by one.",
    "BUGS.md A11, A12, B17",
    sees=[effects.Backoff, Counters],
    needs=[Need.MACHINE],
)
def every_attempt_counted(subject: Subject) -> Watch:
    """The waits before retries show the failures; the trace counts the steps and compactions."""
    course = subject.course
    bounds: Mapping[str, Bound] = course.machine.bounds
    errors = _counts_errors(course.machine)
    names = [name for limit, name in _COUNTED.items() if limit in bounds]
    values = attrgetter(*names) if names else lambda _: ()
    of_turns = next((bound for bound in bounds.values() if bound.of_turns), None)
    while True:
        entry = yield
        before, run = course.before, course.run
        if course.noted:
            continue
        if errors:
            asked, cost = course.asked, run.error_count - before.error_count
            if asked and type(asked[-1]) is effects.Backoff:
                if cost != 1:
                    return f"a retry increases the errors by {cost}"
            elif cost > 0 and type(run.state) is not Finished:
                return f"{NAMES[type(entry.signal)]} increases the errors, and no retry follows"
        counters = entry.counters
        if of_turns is not None:
            steps, turn = run.total_steps - before.total_steps, type(entry.signal) in _TURNS
            if steps != turn and before.total_steps < of_turns.at:
                return f"{NAMES[type(entry.signal)]} increases the steps by {steps}"
        elif values(run) != values(counters):
            if "max_steps" in bounds and run.total_steps != counters.total_steps:
                steps = run.total_steps
                return f"the machine counts {steps} steps, the replies {counters.total_steps}"
            tried = counters.compaction_attempts
            return f"the machine counts {run.compaction_attempts} compactions of {tried}"


_TURNS = (signals.ModelReplied, signals.ContextCompacted)
_COUNTED = {"max_steps": "total_steps", "max_compaction_attempts": "compaction_attempts"}


@invariant(
    "A useless reply counts as an error: a reply without text and calls, without the calls "
    "that it announces, or without an end.",
    "BUGS.md A2, A11, A12, C6",
    sees=[signals.StepClosed],
    needs=[Need.MACHINE],
)
def useless_replies_count_as_errors(subject: Subject, _: Any) -> str:
    """Otherwise a model that sends empty replies keeps the loop running."""
    course = subject.course
    state = course.before.state
    if type(state) is not ClosingStep or not _is_useless(state.reply):
        return ""
    counted = course.run.error_count == course.before.error_count + 1
    if not counted and _counts_errors(course.machine):
        return f"a reply that {_why(state.reply)} is not counted as an error"
    return ""


def _counts_errors(machine: Machine) -> bool:
    return any(bound.counter == "error_count" for bound in machine.bounds.values())


_CUT = frozenset({FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.ERROR})


def _is_useless(reply: ReplyFacts) -> bool:
    if reply.finish in _CUT:
        return False
    if reply.finish is FinishReason.INTERRUPTED:
        return True
    return not reply.calls and (not reply.text or reply.finish is FinishReason.TOOL_CALLS)


def _why(reply: ReplyFacts) -> str:
    if reply.finish is FinishReason.INTERRUPTED:
        return "did not end"
    return "announces calls and has none" if reply.text else "is empty"


@invariant(
    "After a limit is reached, a run requests nothing that the limit forbids.",
    "BUGS.md E1, A5, A13",
    sees=[signals.Began, Bound],
    needs=[Need.MACHINE],
)
def limits_enforced(subject: Subject, _: Any) -> str:
    """The limit is exact: no attempt beyond it is made."""
    course = subject.course
    wrong = _wrong_bounds(subject, course.machine) if type(course.signal) is signals.Began else ""
    return wrong or next(past_a_bound(course.run, course.asked, course.machine.bounds), "")


def _wrong_bounds(subject: Subject, machine: Machine) -> str:
    """Return a bound that differs from the limit of its name, in words."""
    limits = subject.course.settings.limits
    for name, bound in machine.bounds.items():
        declared = getattr(limits, name, bound.at)
        if declared != bound.at:
            return f"the limit {name} is {declared}, and the machine keeps {bound.at}"
    return ""


@invariant(
    "A limit ends a run only when it is reached, and the run names that limit.",
    "BUGS.md E1, E8",
    sees=[Finished],
    needs=[Need.MACHINE],
)
def limits_not_enforced_early(subject: Subject, _: Any) -> str:
    """The limit is exact: no attempt below it is refused."""
    course = subject.course
    run = course.run
    if type(run.state) is not Finished:
        return ""
    bounds = {**getattr(course.machine, "thresholds", {}), **course.machine.bounds}
    return next(ended_too_early(run, bounds), "") or _unnamed(run, subject, bounds)


def _unnamed(run: Run, subject: Subject, bounds: Mapping[str, Bound]) -> str:
    """Return why the end of a run does not fit the limit that it names, or an empty text."""
    state, course, facts = run.state, subject.course, subject.facts
    assert isinstance(state, Finished)
    limit, outcome = state.limit, state.outcome
    if limit == "max_steps_per_round":
        before = course.before.state
        steps = facts.reply.steps if facts.reply else 0
        if type(before) is not ClosingStep or steps <= course.settings.limits.max_steps_per_round:
            return f"{limit} ends the run after a reply of {steps} steps"
    elif limit == "max_wall_clock":
        if outcome is not Outcome.TIMED_OUT:
            return f"{limit} ends the run as {outcome}"
    elif limit:
        if bounds and limit not in bounds:
            return f"{limit} ends the run, and is no limit of the machine"
    elif outcome in (Outcome.MAX_STEPS, Outcome.TOO_MANY_ERRORS, Outcome.TIMED_OUT):
        return f"the run ends as {outcome} without the limit"
    elif outcome is Outcome.CONTEXT_LIMIT and course.signal != signals.ContextCompacted(
        shrunk=False
    ):
        return "the run ends at its context limit, and a compaction was not tried"
    return ""


@invariant(
    "A reply that reports more steps than max_steps_per_round ends its run.",
    "BUGS.md E3",
    sees=[signals.StepClosed],
    needs=[Need.MACHINE],
)
def max_steps_per_round_enforced(subject: Subject, _: Any) -> str:
    """The steps of the last reply count, not the sum of all steps."""
    course = subject.course
    most = course.settings.limits.max_steps_per_round
    reply = subject.facts.reply
    if reply is not None and reply.steps > most and type(course.run.state) is not Finished:
        return f"the run goes on after a reply of {reply.steps} steps; a round may have {most}"
    return ""


@invariant(
    "A call is retried only after a failure that the policy declares retryable, or after a "
    "useless reply.",
    "BUGS.md C7, C13, B15",
    sees=[effects.Backoff],
    needs=[Need.MACHINE],
)
def only_retryable_failures_retried(subject: Subject, _: Any) -> str:
    """A useful reply is not retried."""
    course = subject.course
    signal = course.signal
    if type(signal) is signals.ModelFailed:
        if not signal.retryable:
            return f"a call is retried after {signal.error}, which is not retryable"
    elif type(signal) is signals.StepClosed:
        reply = getattr(course.before.state, "reply", None)
        if reply is not None and reply.text and reply.finish is FinishReason.STOP:
            return "a call is retried after a reply with text and a normal end"
    return ""


@invariant(
    "A run that ends because its model call was aborted has the outcome aborted.",
    "BUGS.md C9, E8",
    sees=[signals.ModelFailed],
    needs=[Need.MACHINE],
)
def aborted_calls_abort_runs(subject: Subject, _: Any) -> str:
    """An abort is no failure, whoever asked for it: the user, the provider or its SDK."""
    course = subject.course
    signal, state = course.signal, course.run.state
    if type(signal) is not signals.ModelFailed or signal.error is not ErrorClass.ABORTED:
        return ""
    if Feature.ABORT in course.machine.unsupported:
        return ""
    if type(state) is Finished and state.outcome in (Outcome.FAILED, Outcome.COMPLETED):
        return f"a run whose model call was aborted ends as {state.outcome}"
    return ""


@invariant(
    "A retryable failure is retried while a retry is left.",
    "BUGS.md C4, C6",
    sees=[signals.ModelFailed],
    needs=[Need.MACHINE],
)
def retryable_failures_retried(subject: Subject, _: Any) -> str:
    """Other rules hold for overflows and aborts; another limit may end the run."""
    course = subject.course
    signal, state = course.signal, course.run.state
    if type(signal) is not signals.ModelFailed or not signal.retryable:
        return ""
    if type(state) is Finished and not state.limit and state.outcome is not Outcome.ABORTED:
        return f"a run ends as {state.outcome} after {signal.error}, which is retryable"
    return ""

"""Invariants on loop machines: their counters, limits, retries and compactions."""

from collections.abc import Mapping
from typing import Any

from simloop.check.invariants.decisions import closed_by
from simloop.check.invariants.invariant import invariant
from simloop.check.invariants.subject import Course, Subject
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Bound, Feature, Machine, Run
from simloop.kernel.states import ClosingStep, Compacting, Finished, ReplyFacts
from simloop.messages import FinishReason, Outcome
from simloop.prove.rules import ended_too_early

_CUT = frozenset({FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.ERROR})
_IN_VAIN = signals.ContextCompacted(shrunk=False)


@invariant("A useless reply counts as an error: a reply without text and calls, without the calls "
           "that it announces, or without an end.",
           "BUGS.md A2, A11, A12, C6", sees=[signals.StepClosed])  # fmt: skip
def useless_replies_count_as_errors(subject: Subject, _: Any) -> str:
    """Otherwise a model that sends empty replies keeps the loop running."""
    course = subject.course
    reply = closed_by(course)
    why = _why_useless(reply) if reply and counts_errors(course.machine) else ""
    is_counted = course.run.error_count == course.before.error_count + 1
    return f"a reply that {why} is not counted as an error" if why and not is_counted else ""


def counts_errors(machine: Machine) -> bool:
    """Return whether errors bound the runs of a machine."""
    return any(bound.counter == "error_count" for bound in machine.bounds.values())


def _why_useless(reply: ReplyFacts) -> str:
    if reply.finish is FinishReason.INTERRUPTED:
        return "did not end"
    if reply.finish in _CUT or reply.calls:
        return ""
    if not reply.text:
        return "is empty"
    return "announces calls and has none" if reply.finish is FinishReason.TOOL_CALLS else ""


@invariant("A limit ends a run only when it is reached, and the run names that limit.",
           "BUGS.md E1, E8", sees=[Finished])  # fmt: skip
def limits_not_enforced_early(subject: Subject, _: Any) -> str:
    """The limit is exact: no attempt below it is refused."""
    course, run = subject.course, subject.course.run
    bounds = {**getattr(course.machine, "thresholds", {}), **course.machine.bounds}
    return next(ended_too_early(run, bounds), "") or _unnamed(run, subject, bounds)


def _unnamed(run: Run, subject: Subject, bounds: Mapping[str, Bound]) -> str:
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
    elif outcome is Outcome.CONTEXT_LIMIT and course.signal != _IN_VAIN:
        return "the run ends at its context limit, and a compaction was not tried"
    return ""


@invariant("A failed call is retried while a retry is left, if the policy declares the failure "
           "retryable, and only then; a useful reply is not retried.",
           "BUGS.md C4, C6, C7, C13, B15", sees=[effects.Backoff, signals.ModelFailed])  # fmt: skip
def retries_match_policy(subject: Subject, entry: Any) -> str:
    """Other rules hold for overflows and aborts; another limit may end the run."""
    signal, state, reply = entry.signal, subject.course.run.state, closed_by(subject.course)
    if reply is not None and reply.text and reply.finish is FinishReason.STOP:
        return "a call is retried after a reply with text and a normal end"
    if type(signal) is not signals.ModelFailed:
        return ""
    if type(subject.course.effect) is effects.Backoff:
        wrong = f"a call is retried after {signal.error}, which is not retryable"
        return "" if signal.retryable else wrong
    if not signal.retryable or type(state) is not Finished or state.limit:
        return ""
    if state.outcome is Outcome.ABORTED:
        return ""
    return f"a run ends as {state.outcome} after {signal.error}, which is retryable"


@invariant("A run that ends because its model call was aborted has the outcome aborted.",
           "BUGS.md C9, E8", sees=[signals.ModelFailed])  # fmt: skip
def aborted_calls_abort_runs(subject: Subject, entry: Any) -> str:
    """An abort is no failure, whoever asked for it: the user, the provider or its SDK."""
    machine, state = subject.course.machine, subject.course.run.state
    if entry.signal.error is not ErrorClass.ABORTED or Feature.ABORT in machine.unsupported:
        return ""
    if type(state) is Finished and state.outcome in (Outcome.FAILED, Outcome.COMPLETED):
        return f"a run whose model call was aborted ends as {state.outcome}"
    return ""


@invariant("A compaction is tried only if the context exceeds its trigger; a forced one, only "
           "after a reply that was cut off or a request that was too long.",
           "BUGS.md B2, B3, B8, C5", sees=[effects.Compact])  # fmt: skip
def compactions_have_a_reason(subject: Subject, _: Any) -> str:
    """A context below its trigger stays unchanged."""
    course = subject.course
    if getattr(course.effect, "forced", False):
        if not _has_overflowed(course):
            return "a compaction is forced, and no reply was cut off and no request too long"
    elif course.signal != signals.ContextMeasured(over=True):
        return "a compaction is tried, and the context does not exceed its trigger"
    return ""


def _has_overflowed(course: Course) -> bool:
    signal, reply = course.signal, closed_by(course)
    if type(signal) is signals.ModelFailed:
        return signal.error is ErrorClass.OVERFLOW
    is_cut = reply is not None and reply.finish is FinishReason.LENGTH
    return is_cut and type(signal) is signals.StepClosed


@invariant("A context that exceeds its trigger is compacted while an attempt is left.",
           "BUGS.md B7, B9", sees=[signals.ContextMeasured])  # fmt: skip
def full_contexts_compacted(subject: Subject, entry: Any) -> str:
    """The compaction comes before the next request, which a provider might refuse otherwise."""
    course = subject.course
    if not entry.signal.over or type(course.effect) is effects.Compact:
        return ""
    if any(getattr(course.run, bound.counter) >= bound.at for bound in course.declared):
        return ""  # a bound or a threshold is reached
    return "the context exceeds its trigger, an attempt is left, and no compaction is tried"


@invariant("A compaction that does not make the context smaller ends the run if it was forced, or "
           "if no limit counts compactions.", "BUGS.md B1, B5, B15, B18",
           sees=[signals.ContextCompacted])  # fmt: skip
def useless_compaction_ends_run(subject: Subject, _: Any) -> str:
    """Say whether a run goes on: to a refusal of the same request, or to the same compaction."""
    course = subject.course
    state = course.before.state
    if course.signal != _IN_VAIN or type(state) is not Compacting:
        return ""
    is_counted = any(bound.counter == "compaction_attempts" for bound in course.declared)
    if type(course.run.state) is Finished or (is_counted and not state.forced):
        return ""
    return f"the run goes on after a {'forced' if state.forced else 'normal'} compaction in vain"

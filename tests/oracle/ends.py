"""Invariants on the ends of runs: the outcome is that of the limit, the reply or the failure."""

from collections.abc import Mapping

from simloop.check.invariants.decisions import closed_by
from simloop.check.invariants.invariant import Need, invariant
from simloop.check.invariants.machines import counts_errors
from simloop.check.invariants.subject import Subject
from simloop.kernel import signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.states import Finished
from simloop.messages import FinishReason, Outcome, StopCause
from simloop.trace.entries import Ended, Transition
from simloop.virtual.clock.timeouts import GRACE_NS

_OF_COUNTERS = {
    "total_steps": Outcome.MAX_STEPS,
    "error_count": Outcome.TOO_MANY_ERRORS,
    "compaction_attempts": Outcome.CONTEXT_LIMIT,
}
_OF_REPLIES: Mapping[FinishReason, Outcome] = {
    FinishReason.CONTENT_FILTER: Outcome.CONTENT_FILTERED,
    FinishReason.ERROR: Outcome.MODEL_ERROR,
}
_UNCOUNTED = (ErrorClass.ABORTED, ErrorClass.OVERFLOW)


@invariant(
    "A run that ends at a limit has the outcome of what the limit counts.",
    "BUGS.md E1, E8",
    sees=[Finished],
)
def limits_have_their_outcomes(subject: Subject, _: object) -> str:
    """A caller reads from the outcome whether there were too many steps or too many errors."""
    course, state = subject.course, subject.course.run.state
    assert type(state) is Finished
    bounds = {**getattr(course.machine, "thresholds", {}), **course.machine.bounds}
    if state.limit not in bounds:
        return ""
    outcome = _OF_COUNTERS[bounds[state.limit].counter]
    return f"{state.limit} ends the run as {state.outcome}" * (state.outcome is not outcome)


@invariant(
    "A run that ends over a filtered or broken reply says so, and no other run does.",
    "BUGS.md C6, E8",
    sees=[Finished],
)
def replies_have_their_outcomes(subject: Subject, _: object) -> str:
    """A filtered reply is no error of the provider, and the other way round."""
    course, state, reply = subject.course, subject.course.run.state, closed_by(subject.course)
    assert type(state) is Finished
    finish = None if reply is None else reply.finish
    wanted = _OF_REPLIES.get(finish) if finish else None
    is_end = wanted is not None and state.outcome in _OF_REPLIES.values()
    if is_end and state.outcome is not wanted:
        return f"a reply that ends with {finish} ends the run as {state.outcome}"
    if state.outcome is Outcome.CONTENT_FILTERED and finish is not FinishReason.CONTENT_FILTER:
        return f"the run ends as {state.outcome} after {finish or type(course.signal).__name__}"
    return ""


@invariant(
    "Each failed call that ends a run is counted as an error, and the last one is at the limit.",
    "BUGS.md A11, E1",
    sees=[signals.ModelFailed],
)
def last_failures_counted(subject: Subject, entry: Transition) -> str:
    """Too long a context is dealt with by a compaction, and an abort is no failure."""
    course, signal = subject.course, subject.course.signal
    assert type(signal) is signals.ModelFailed
    state, run = course.run.state, course.run
    is_counted = counts_errors(course.machine) and signal.error not in _UNCOUNTED
    if type(state) is not Finished or not is_counted:
        return ""
    if run.error_count != course.before.error_count + 1:
        return f"the run ends after {signal.error} with {run.error_count} errors"
    most = [bound.at for bound in course.machine.bounds.values() if bound.counter == "error_count"]
    is_reached = run.error_count >= most[0] and signal.retryable
    if is_reached and state.outcome is not Outcome.TOO_MANY_ERRORS and not state.limit:
        return f"the run ends as {state.outcome}, and error {run.error_count} is at the limit"
    return ""


@invariant(
    "A run that its time limit stops ends at once, whatever it waits for.",
    "BUGS.md A14",
    sees=[Ended],
    needs=[Need.MACHINE],
)
def time_limits_end_runs_at_once(subject: Subject, entry: Ended) -> str:
    """A design may let an abort wait for a reply or its tools, and never the time limit."""
    stop, scenario = subject.facts.stop, subject.scenario
    if stop is None or stop.cause is not StopCause.WALL_CLOCK:
        return ""
    tools = {} if scenario is None else scenario.tools
    grace_ns = GRACE_NS + max((tool.outlives_cancel or 0 for tool in tools.values()), default=0)
    late_ns = entry.at_ns - stop.at_ns
    return f"the run ends {late_ns / 1e6:g} ms after its time limit" if late_ns > grace_ns else ""

"""Invariants on compactions: their causes, the removed messages, and their sizes.

The next request shows the context after a compaction. A scripted context states its sizes itself,
so only its reasons are judged.
"""

from typing import Any

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Course, Subject
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Bound, Machine
from simloop.kernel.states import ClosingStep, Compacting, Finished
from simloop.messages import (
    FinishReason,
)
from simloop.trace.entries import Prompt, Request, Transition


@invariant(
    "A compaction is tried only if the context exceeds its trigger; a forced one, only after "
    "a reply that was cut off or a request that was too long.",
    "BUGS.md B2, B3, B8, C5",
    sees=[effects.Compact],
    needs=[Need.MACHINE],
)
def compactions_have_a_reason(subject: Subject, _: Any) -> str:
    """A context below its trigger stays unchanged."""
    course = subject.course
    signal = course.signal
    if not getattr(course.asked[-1], "forced", False):
        if not (type(signal) is signals.ContextMeasured and signal.over):
            return "a compaction is tried, and the context does not exceed its trigger"
    elif not _has_overflowed(course):
        return "a compaction is forced, and no reply was cut off and no request too long"
    return ""


def _has_overflowed(course: Course) -> bool:
    signal, state = course.signal, course.before.state
    if type(signal) is signals.ModelFailed:
        return signal.error is ErrorClass.OVERFLOW
    cut = type(state) is ClosingStep and state.reply.finish is FinishReason.LENGTH
    return type(signal) is signals.StepClosed and cut


@invariant(
    "A context that exceeds its trigger is compacted while an attempt is left.",
    "BUGS.md B7, B9",
    sees=[signals.ContextMeasured],
    needs=[Need.MACHINE],
)
def full_contexts_compacted(subject: Subject, _: Any) -> str:
    """The compaction comes before the next request, which a provider might refuse otherwise."""
    course = subject.course
    signal = course.signal
    if type(signal) is not signals.ContextMeasured or not signal.over:
        return ""
    asked = course.asked[-1] if course.asked else None
    if type(asked) is not effects.Compact and not _is_spent(course):
        return "the context exceeds its trigger, an attempt is left, and no compaction is tried"
    return ""


def _bounds_of(machine: Machine) -> list[Bound]:
    """Return the bounds and the thresholds of a machine."""
    return [*machine.bounds.values(), *getattr(machine, "thresholds", {}).values()]


def _is_spent(course: Course) -> bool:
    """Return whether a bound or a threshold of the machine is reached."""
    given = _bounds_of(course.machine)
    return any(getattr(course.run, bound.counter) >= bound.at for bound in given)


@invariant(
    "A reply that was cut off forces a compaction while an attempt is left.",
    "BUGS.md A9, B1",
    sees=[signals.StepClosed],
    needs=[Need.MACHINE],
)
def cut_off_replies_force_compaction(subject: Subject, _: Any) -> str:
    """The model has no room for a whole reply."""
    return _makes_room(subject.course)


@invariant(
    "A request that is too long forces a compaction while an attempt is left.",
    "BUGS.md B1, B17",
    sees=[signals.ModelFailed],
    needs=[Need.MACHINE],
)
def overflows_force_compaction(subject: Subject, _: Any) -> str:
    """The provider says that the context is too long."""
    return _makes_room(subject.course)


def _makes_room(course: Course) -> str:
    if not _has_overflowed(course):
        return ""
    asked = course.asked[-1] if course.asked else None
    state = course.run.state
    ended = type(state) is Finished and bool(state.limit)
    if type(asked) is not effects.Compact and not ended:
        return "the context is too long, an attempt is left, and no compaction is tried"
    return ""


@invariant(
    "A forced compaction that does not make the context smaller ends the run.",
    "BUGS.md B1, B5, B15",
    sees=[signals.ContextCompacted],
    needs=[Need.MACHINE],
)
def useless_forced_compaction_ends_run(subject: Subject, _: Any) -> str:
    """The provider would refuse the same request again."""
    return _goes_on_in_vain(subject.course, forced=True)


@invariant(
    "A compaction that does not make the context smaller ends the run if no limit counts "
    "compactions.",
    "BUGS.md B1, B5, B18",
    sees=[signals.ContextCompacted],
    needs=[Need.MACHINE],
)
def useless_unlimited_compaction_ends_run(subject: Subject, _: Any) -> str:
    """The context stays over its trigger, so the same compaction would be tried in each round."""
    course = subject.course
    if any(bound.counter == "compaction_attempts" for bound in _bounds_of(course.machine)):
        return ""
    return _goes_on_in_vain(course, forced=False)


@invariant(
    "A compaction that does not make the context smaller is not repeated before the next model "
    "call.",
    "BUGS.md B1, B4, B5",
    sees=[Prompt, signals.ContextCompacted, Request],
    needs=[Need.MACHINE],
    begins=[signals.ContextCompacted],
)
def useless_compaction_not_repeated(subject: Subject) -> Watch:  # noqa: ARG001 - see `Need`
    """The context is the same, so the second compaction would gain nothing either."""
    in_vain = False
    while True:
        entry = yield
        if type(entry) is Transition:
            if in_vain:
                return "a compaction that gained nothing is repeated"
            in_vain = entry.signal == _IN_VAIN
        elif type(entry) is Prompt or entry.purpose == "main":
            in_vain = False


def _goes_on_in_vain(course: Course, *, forced: bool) -> str:
    state = course.before.state
    if course.signal != _IN_VAIN or type(state) is not Compacting:
        return ""
    if state.forced is not forced or type(course.run.state) is Finished:
        return ""
    kind = "forced" if forced else "normal"
    return f"the run goes on after a {kind} compaction that gained nothing"


_IN_VAIN = signals.ContextCompacted(shrunk=False)

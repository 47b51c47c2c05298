"""Invariants on the waits of the engine before a retry."""

from typing import Any

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import ENDS_FROM_OUTSIDE, Course, Subject
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.states import ClosingStep
from simloop.messages import FinishReason
from simloop.trace.entries import Backoff, Compaction, Hook, Request, Transition


@invariant(
    "A backoff lasts as long as its entry states, and the retry follows immediately.",
    "BUGS.md C8, C9",
    sees=[Backoff, signals.BackoffElapsed, *ENDS_FROM_OUTSIDE, Hook, Compaction, Request],
    needs=[Need.MACHINE],
    begins=[Backoff],
)
def backoff_lasts_as_recorded(subject: Subject) -> Watch:
    """Only hooks and a compaction may take time between the wait and the retry."""
    until_ns: int | None = None
    elapsed = False
    while True:
        entry = yield
        kind = type(entry)
        if kind is Backoff:
            until_ns, elapsed = entry.at_ns + entry.delay_ns, False
        elif until_ns is None:
            continue
        elif kind is Transition:
            signal = type(entry.signal)
            if signal is signals.BackoffElapsed:
                if entry.at_ns != until_ns:
                    return f"a wait ends {_ms(entry.at_ns - until_ns)} later than recorded"
                elapsed = True
            elif signal in ENDS_FROM_OUTSIDE:
                until_ns = None
        elif kind is Request:
            if not elapsed:
                return f"request {entry.number} is sent before the wait is over"
            if entry.at_ns != until_ns:
                return (
                    f"request {entry.number} is sent {_ms(entry.at_ns - until_ns)} after the wait"
                )
            until_ns = None
        else:  # a hook or a compaction may take time
            until_ns = None


@invariant(
    "Failures are numbered from one, and each backoff has the number of the failure before it.",
    "BUGS.md C3",
    sees=[Backoff],
    needs=[Need.MACHINE],
)
def failures_numbered_in_order(subject: Subject, entry: Any) -> str:
    """If a machine resets its count, the number is one again."""
    course = subject.course
    judged, last = course.judged, course.failures
    effect = course.asked[-1] if course.asked else None
    if type(effect) is effects.Backoff and effect.failures != entry.failures:
        return f"the machine waits after {effect.failures} failures, not {entry.failures}"
    if entry.failures != last + 1 and not entry.failures == last == _COUNTED:
        return f"failure {entry.failures} comes after failure {last}"
    error = _useless(course) if judged is None else judged.error_class
    if error is not None and entry.error_class is not error:
        return f"the wait is for {entry.error_class}, and the failure is {error}"
    return ""


_COUNTED = 32  # opencode without a limit on retries stops counting here


def _useless(course: Course) -> ErrorClass | None:
    """Return the error class of the useless reply that the machine retries."""
    state = course.before.state
    if type(state) is not ClosingStep:
        return None
    reply = state.reply
    if reply.finish is FinishReason.INTERRUPTED:
        return ErrorClass.INTERRUPTED
    return (
        ErrorClass.MISSING_CALLS
        if reply.finish is FinishReason.TOOL_CALLS
        else ErrorClass.EMPTY_REPLY
    )


def _ms(ns: int) -> str:
    return f"{ns / 1e6:g} ms"

"""Invariants on the retry policy in an engine: the class of a failure, and the wait after it.

The jitter that a policy drew is not recorded, so a wait may lie between the least and the greatest.
Each wait is judged by the failure right before it. `oracle.policies` states the policies again, so
that an error of one is found; the commonest classes stand here once more, as they were observed.
"""

import re
from typing import Any

from oracle.ledger import ledger_of
from oracle.policies import HEALS, NS_PER_MS, asked_ns, right_class, wait_range
from simloop.check.invariants.invariant import invariant
from simloop.check.invariants.subject import Subject
from simloop.kernel import signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.retry import ExponentialBackoff, RetryPolicy, StatusRetry
from simloop.messages import Fault
from simloop.trace.entries import Backoff, Classified
from simloop.virtual.clock.instants import EPOCH_NS


@invariant(
    "The wait before a retry is the one that the declared policy computes for this failure: "
    "formula, cap, Retry-After and range of the jitter.",
    "BUGS.md C1, C2, C3",
    sees=[Backoff],
)
def backoff_matches_policy(subject: Subject, entry: Any) -> str:
    """A useless reply is no failed call, so it has no Retry-After."""
    settings = subject.course.settings
    fault = _fault(ledger_of(subject).done.judged, subject)
    now_ns = EPOCH_NS + settings.clock_skew_ns + entry.at_ns
    least, most = wait_range(settings.retry, entry.failures, fault, now_ns)
    if not least <= entry.delay_ns <= most:
        span = _ms(least) if least == most else f"{_ms(least)} to {_ms(most)}"
        return f"the wait after failure {entry.failures} is {_ms(entry.delay_ns)}, not {span}"
    policy, asked = settings.retry, fault is not None and asked_ns(fault, now_ns) is not None
    asked = asked and (not isinstance(policy, StatusRetry) or policy.honours_retry_after)
    if entry.retry_after is not asked:
        return f"the wait is recorded as {'not ' if asked else ''}taken from Retry-After"
    return ""


def _fault(judged: Classified | None, subject: Subject) -> Fault | None:
    """Return the failure before a wait; None for a useless reply."""
    if judged is None:
        return None
    reply = subject.facts.reply
    return judged.fault or (None if reply is None else reply.fault)


def _ms(ns: int) -> str:
    return f"{ns / NS_PER_MS:g} ms"


@invariant(
    "A failed call has the error class that the declared policy assigns, and the machine "
    "receives this class.",
    "BUGS.md C4, C5, C7",
    sees=[Classified, signals.ModelFailed],
)
def failure_class_matches_policy(subject: Subject, entry: Any) -> str:
    """Equal failures have equal classes, at every place where they occur."""
    judged = ledger_of(subject).done.classified
    if type(entry) is Classified:
        fault = _fault(entry, subject)
        if fault is None:
            return "a failure is classified, and no failure occurred"
        return _misjudged(subject.course.settings.retry, fault, entry)
    signal = entry.signal
    if judged is None or (signal.error, signal.retryable) == (judged.error_class, judged.retryable):
        return ""
    return f"the failure is {judged.error_class}, and the signal states {signal.error}"


def _misjudged(policy: RetryPolicy, fault: Fault, entry: Classified) -> str:
    error, right = policy.classify(fault), right_class(policy, fault)
    if entry.error_class is not error:
        return f"the failure {fault.message[:40]!r} is {error}, not {entry.error_class}"
    if right not in (None, error):
        return f"the failure {fault.status} {fault.code} is classified as {error}, not {right}"
    if type(policy) is ExponentialBackoff:  # a subclass may classify otherwise
        known = _classes(fault)
        if known is not None and error not in known:
            return f"the failure {fault.status} {fault.code} is classified as {error}"
    heals = policy.retryable(error) if right is None else error in HEALS
    if entry.retryable is not heals and error is not ErrorClass.ABORTED:
        return f"{error} is judged as {'' if entry.retryable else 'not '}retryable"
    return ""


def _classes(fault: Fault) -> tuple[ErrorClass, ...] | None:
    """Return the classes that a failure may have, or None if nothing is known of it."""
    decided = _BY_CODE.get(fault.code)
    if decided is None and not isinstance(fault.status, int):
        decided = _BY_CODE_ALONE.get(fault.code)
    if decided is not None:
        return (decided,)
    known = _BY_STATUS.get(fault.status if isinstance(fault.status, int) else 0)
    if known is not None and _THROTTLED.search(fault.message):
        return tuple(each for each in known if each is not ErrorClass.OVERFLOW)
    return known


_BY_CODE = {
    "insufficient_quota": ErrorClass.QUOTA,
    "billing_error": ErrorClass.QUOTA,
    "context_length_exceeded": ErrorClass.OVERFLOW,
    "exceed_context_size_error": ErrorClass.OVERFLOW,
    "request_too_large": ErrorClass.OVERFLOW,
}
"""The codes that determine the class for every status."""
_BY_CODE_ALONE = {
    "aborted": ErrorClass.ABORTED,
    "connection": ErrorClass.CONNECTION,
    "timeout": ErrorClass.TIMEOUT,
    "overloaded_error": ErrorClass.OVERLOADED,
    "rate_limit_error": ErrorClass.RATE_LIMIT,
    "server_error": ErrorClass.SERVER,
}
"""The codes that determine the class of an error without a status."""
_THROTTLED = re.compile(r"rate limit|too many requests|per minute", re.IGNORECASE)
_MAYBE_TOO_LONG = (ErrorClass.BAD_REQUEST, ErrorClass.OVERFLOW, ErrorClass.RATE_LIMIT)
_BY_STATUS = {
    400: _MAYBE_TOO_LONG,
    401: (ErrorClass.AUTH,),
    402: (ErrorClass.QUOTA,),
    403: (ErrorClass.AUTH,),
    404: (ErrorClass.BAD_REQUEST,),
    408: (ErrorClass.TIMEOUT,),
    413: _MAYBE_TOO_LONG,
    418: (ErrorClass.BAD_REQUEST,),
    429: (ErrorClass.RATE_LIMIT,),
    500: (ErrorClass.SERVER,),
    502: (ErrorClass.SERVER,),
    503: (ErrorClass.OVERLOADED,),
    504: (ErrorClass.TIMEOUT,),
    520: (ErrorClass.CONNECTION,),
    529: (ErrorClass.OVERLOADED,),
}
"""The classes that a failure with this status may have; words decide only about a 400 or 413."""

"""The retry policies, stated a second time: the class of a failure, and the wait after it.

The codes, the statuses and the phrases that were observed of providers and programs are read from
the same data. What follows from them is stated here again, so that a fault of a policy is found.
"""

import json
import re
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

import simloop
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.retry import ExponentialBackoff, RetryPolicy, StatusRetry
from simloop.loops.opencode import OpencodeRetry
from simloop.messages import Fault
from simloop.virtual.clock.instants import EPOCH_NS

NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
_MOST_DRAW = 1 - 2**-53
_LONGEST = 1e15
_LONGEST_TIMER_MS = 2_147_483_647
_ALL_DOUBLED = 64
_BAD_REQUESTS, _SERVERS, _BEYOND = 400, 500, 600

HEALS = frozenset(
    {
        ErrorClass.RATE_LIMIT,
        ErrorClass.OVERLOADED,
        ErrorClass.SERVER,
        ErrorClass.CONNECTION,
        ErrorClass.TIMEOUT,
    }
)
"""The classes of failed calls that are tried again."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e\d+)?")
_THROTTLED = re.compile(r"^throttling|rate limit|too many requests|per minute", re.IGNORECASE)


def _read(place: str) -> Mapping[str, Any]:
    text = (Path(simloop.__file__).parent / place).read_text("utf-8")
    data: Mapping[str, Any] = json.loads(text)
    return data


def _by_member(stated: Mapping[str, Any]) -> Mapping[Any, ErrorClass]:
    return {one: ErrorClass(name) for name, members in stated.items() for one in members}


_OBSERVED = _read("kernel/errorclass.json")
_OF_CODES, _OF_STATUSES = _by_member(_OBSERVED["codes"]), _by_member(_OBSERVED["statuses"])
_PHRASES = [re.compile(each, re.IGNORECASE) for each in _OBSERVED["phrases of an overflow"]]
_PASSING = [
    re.compile(each, re.IGNORECASE | re.ASCII | re.MULTILINE)
    for each in _read("loops/opencode.json")["words of a failure that may pass"]
]


# ------------------------------------------------------------------ waits


def asked_ns(fault: Fault, now_ns: int) -> int | None:
    """Return the wait that the provider asks for at the Unix time `now_ns`, or None.

    Milliseconds take precedence over seconds, and seconds over a date. Zero or less is no wait.
    """
    for name, unit_ns in (("retry-after-ms", NS_PER_MS), ("retry-after", _NS_PER_S)):
        value = fault.header(name)
        try:
            number = float(value or "")
        except ValueError:
            continue
        wait = round(min(number, _LONGEST) * unit_ns) if 0 < number < inf else 0
        if wait:
            return wait
    date = parsedate_tz(fault.header("retry-after") or "")
    if date is None:
        return None
    try:
        wait = int(mktime_tz(date)) * _NS_PER_S - now_ns
    except (ValueError, OverflowError):
        return None
    return wait if wait > 0 else None


def wait_range(
    policy: RetryPolicy, failures: int, fault: Fault | None, now_ns: int
) -> tuple[int, int]:
    """Return the least and the greatest wait that the policy allows, in nanoseconds."""
    # Computed from its settings, because its own function may have the fault.
    asked = None if fault is None else asked_ns(fault, now_ns)
    if isinstance(policy, ExponentialBackoff):
        if asked is not None:
            return _exactly(asked, policy.max_retry_after_ms)
        doubled = policy.initial_delay_ms * 2 ** min(failures - 1, _ALL_DOUBLED)
        wait = min(doubled, policy.max_delay_ms) * NS_PER_MS
        return int(wait * (1 - policy.jitter)), wait
    if type(policy) is OpencodeRetry:
        if fault is not None and _is_at_once(fault):
            return 0, 0
        doubled = policy.initial_delay_ms * 2 ** min(failures - 1, _ALL_DOUBLED)
        own = doubled * NS_PER_MS if asked is None else asked
        return _exactly(own, _LONGEST_TIMER_MS)
    if type(policy) is StatusRetry:
        if asked is not None and policy.honours_retry_after:
            return _exactly(asked, 120_000)
        return _exactly(2_000 * 2 ** min(failures - 1, _ALL_DOUBLED) * NS_PER_MS, 30_000)
    both = [
        policy.delay_ns(failures, fault, now_ns=now_ns, draw=draw) for draw in (0.0, _MOST_DRAW)
    ]
    return min(both), max(both)


def _is_at_once(fault: Fault) -> bool:
    """Return whether the first header that is a number asks opencode for no wait at all."""
    for name in ("retry-after-ms", "retry-after"):
        value = fault.header(name) or ""
        if _NUMBER.fullmatch(value):
            return float(value) <= 0
    return False


def _exactly(wait_ns: int, most_ms: int) -> tuple[int, int]:
    wait = min(wait_ns, most_ms * NS_PER_MS)
    return wait, wait


# ------------------------------------------------------------------ classes


def right_class(policy: RetryPolicy, fault: Fault) -> ErrorClass | None:
    """Return the class that a policy of the bundled designs gives a failure; else None."""
    if type(policy) is OpencodeRetry:
        return _class_in_opencode(fault)
    true = _true_class(fault)
    if type(policy) is ExponentialBackoff or (type(policy) is StatusRetry and not policy.by_status):
        return true
    if type(policy) is StatusRetry:
        status = _status(fault)
        if status in (429, 500, 502, 503):
            return _class_of_status(status)
        return ErrorClass.UNKNOWN if true in HEALS else true
    return None


def _status(fault: Fault) -> int | None:
    return fault.status if isinstance(fault.status, int) else None


def _class_of_status(status: int | None) -> ErrorClass:
    if status in _OF_STATUSES:
        return _OF_STATUSES[status]
    is_bad = status is not None and _BAD_REQUESTS <= status < _SERVERS
    return ErrorClass.BAD_REQUEST if is_bad else ErrorClass.UNKNOWN


def _true_class(fault: Fault) -> ErrorClass:
    """Return the class by code, words and status: a code decides where a status cannot."""
    status, coded = _status(fault), _OF_CODES.get(fault.code)
    decides = status in (None, 200) or coded in (ErrorClass.QUOTA, ErrorClass.OVERFLOW)
    if coded is not None and (decides or (status, coded) == (413, ErrorClass.RATE_LIMIT)):
        return coded
    if status in (None, 200, 400, 413):
        if _THROTTLED.search(fault.message):
            return ErrorClass.RATE_LIMIT
        if _is_too_long(fault):
            return ErrorClass.OVERFLOW
    return _class_of_status(status)


def _is_too_long(fault: Fault) -> bool:
    told = not _THROTTLED.search(fault.message)
    return told and any(each.search(fault.message) for each in _PHRASES)


def _class_in_opencode(fault: Fault) -> ErrorClass:
    """Return the class by status first; words decide about a failure that would not be repeated."""
    status = _status(fault)
    if status is None:
        own = _true_class(fault)
    elif status == 413 or _is_too_long(fault) or _OF_CODES.get(fault.code) == "overflow":
        return ErrorClass.OVERFLOW
    else:
        own = _class_of_status(status)
    if own in HEALS or own in (ErrorClass.OVERFLOW, ErrorClass.ABORTED):
        return own
    if status is not None and (status == 409 or status >= _SERVERS):
        return ErrorClass.SERVER
    said = any(each.search(f"{fault.message}\n{fault.code}") for each in _PASSING)
    return ErrorClass.SERVER if said else own


# ------------------------------------------------------------------ a policy by itself

_OF_CLASSES = (
    *(Fault("no", status=each) for each in (401, 408, 409, 413, 429, 500, 501, 600)),
    Fault("no", code="server_error"),
    Fault("no", code="insufficient_quota"),
    Fault("try again later", status=401),
    Fault("the prompt is too long", status=429),
)
"""Failures that a search draws rarely or never."""
_OF_WAITS = (
    (1, None),
    (6, None),
    (40, None),
    *(
        (3, Fault("busy", status=429, headers=(("retry-after", wait),)))
        for wait in ("0", "-5", "900", "Thu, 01 Jan 2026 00:00:45 GMT")
    ),
)


@lru_cache(maxsize=64)
def _right_classes(policy: Any) -> tuple[tuple[Fault, ErrorClass | None], ...]:
    return tuple((fault, right_class(policy, fault)) for fault in _OF_CLASSES)


@lru_cache(maxsize=64)
def _right_waits(policy: Any) -> tuple[tuple[int, Fault | None, int], ...]:
    return tuple((n, fault, wait_range(policy, n, fault, EPOCH_NS)[1]) for n, fault in _OF_WAITS)


def misjudges(policy: Any) -> str:
    """Return what a policy of a bundled design does otherwise with one of several failures.

    The usual policy is judged by the failures of a run alone, which are of all kinds.
    """
    if type(policy) is ExponentialBackoff:
        return ""
    for fault, right in _right_classes(policy):
        error = policy.classify(fault)
        if error is not right:
            return f"{_told(fault)} is {error}, and the policy says {right}"
        if policy.retryable(error) is not (error in HEALS):
            return f"{_told(fault)} is {error}, which is judged otherwise"
    for failures, failed, wait in _right_waits(policy):
        made = policy.delay_ns(failures, failed, now_ns=EPOCH_NS, draw=0.0)
        if made != wait:
            what = "a useless reply" if failed is None else _told(failed)
            return f"{what}, number {failures}, is followed by {made} ns, and not by {wait} ns"
    return ""


def _told(fault: Fault) -> str:
    parts = (fault.status or "", fault.message, fault.code, *map(": ".join, fault.headers))
    return f"the failure {' '.join(str(each) for each in parts if each)}"

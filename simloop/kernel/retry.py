"""The policies that decide whether and after which delay a failed model call is retried."""

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Annotated, Protocol

from annotated_types import Ge, Le

from simloop.kernel.checks import Checked
from simloop.kernel.durations import UNITS_NS, Lasting, Milliseconds
from simloop.kernel.errorclass import ErrorClass, class_of_status, classify
from simloop.messages import Fault

RETRYABLE = frozenset({
    ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED, ErrorClass.SERVER, ErrorClass.CONNECTION,
    ErrorClass.TIMEOUT, ErrorClass.INTERRUPTED, ErrorClass.EMPTY_REPLY, ErrorClass.MISSING_CALLS,
})  # fmt: skip
"""The statuses 429, 500, 502 and 503; 529, lost connections, timeouts and useless replies are the
same trouble under other names. Quota and auth do not heal by waiting."""

_NS_PER_MS, _NS_PER_S = UNITS_NS["ms"], UNITS_NS["s"]
_LONGEST = 1e15
_RETRIED = frozenset({429, 500, 502, 503})


class RetryPolicy(Protocol):
    """Decides about a failed call."""

    def classify(self, fault: Fault) -> ErrorClass: ...
    def retryable(self, error: ErrorClass) -> bool: ...
    def delay_ns(self, failures: int, fault: Fault | None, *, now_ns: int, draw: float) -> int:
        """Return the nanoseconds to wait after failure number `failures`, counted from 1.

        `fault` is None for a complete reply that cannot be used. `now_ns` is Unix time, for
        a Retry-After that is a date. `draw` is in [0, 1), for jitter.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialBackoff(Checked, at="retry"):
    """2 s, 4 s, 8 s ... up to 30 s, or as long as Retry-After says."""

    initial_delay_ms: Annotated[int, Lasting(0)] = Milliseconds(2_000)
    """Wait after the first failure; twice as long after each further one."""
    max_delay_ms: Annotated[int, Lasting(0)] = Milliseconds(30_000)
    """Time that the delay does not exceed."""
    max_retry_after_ms: Annotated[int, Lasting(0)] = Milliseconds(120_000)
    """Longest wait when Retry-After asks for more."""
    jitter: Annotated[float, Ge(0), Le(1)] = 0.0
    """Share of the delay that chance may take off, drawn from the seed."""

    def classify(self, fault: Fault) -> ErrorClass:
        return classify(fault)

    def retryable(self, error: ErrorClass) -> bool:
        return error in RETRYABLE

    def delay_ns(self, failures: int, fault: Fault | None, *, now_ns: int, draw: float) -> int:
        """Return a usable Retry-After, capped, or else the exponential delay less jitter."""
        if (asked := None if fault is None else retry_after_ns(fault, now_ns)) is not None:
            return min(asked, self.max_retry_after_ms * _NS_PER_MS)
        # The shift is bounded: 2**64 ms is past any maximum, 2**(10**6) would be a slow way there.
        delay_ms = min(self.initial_delay_ms << min(failures - 1, 64), self.max_delay_ms)
        return int(delay_ms * _NS_PER_MS * (1 - self.jitter * draw))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRetry:
    """The retry policy of the reference loop as it was described: 2 s, 4 s, 8 s ... up to 30 s."""

    by_status: bool = True  # 429, 500, 502 and 503, whatever the error says, and nothing else
    honours_retry_after: bool = False

    def classify(self, fault: Fault) -> ErrorClass:
        """Return the class of `fault`, or `unknown` if only its class would cause a retry."""
        error = classify(fault)
        if not self.by_status:
            return error
        if isinstance(fault.status, int) and fault.status in _RETRIED:
            return class_of_status(fault.status)
        return ErrorClass.UNKNOWN if error in RETRYABLE else error

    def retryable(self, error: ErrorClass) -> bool:
        return error in RETRYABLE

    def delay_ns(self, failures: int, fault: Fault | None, *, now_ns: int, draw: float) -> int:
        heard = fault if self.honours_retry_after else None
        return ExponentialBackoff().delay_ns(failures, heard, now_ns=now_ns, draw=draw)


def retry_after_ns(fault: Fault, now_ns: int) -> int | None:
    """Return the wait that the provider asks for, or None; `retry-after-ms` goes first."""
    if (exact := _positive(fault.header("retry-after-ms"), _NS_PER_MS)) is not None:
        return exact
    value = fault.header("retry-after")
    return _positive(value, _NS_PER_S) or (None if value is None else until_ns(value, now_ns))


def _positive(value: str | None, unit_ns: int) -> int | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    if not isfinite(number) or number <= 0:
        return None
    # Bounded before it is multiplied: 1e308 seconds are a number, and infinitely many nanoseconds.
    return round(min(number, _LONGEST) * unit_ns) or None


def until_ns(date: str, now_ns: int) -> int | None:
    """Return the nanoseconds from `now_ns` to an HTTP date, or None if it is past or unreadable."""
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    wait_ns = int(moment.timestamp()) * _NS_PER_S - now_ns
    return wait_ns if wait_ns > 0 else None

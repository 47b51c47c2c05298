"""When to repeat a failed request, and after which wait, for agents with their own retries."""

import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from simloop import ErrorClass, ExponentialBackoff, Fault

LONGEST_S = 60
_PASSING = frozenset({408, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
_FINAL_CODES = frozenset({
    "insufficient_quota", "billing_error", "context_length_exceeded", "request_too_large",
    "exceed_context_size_error",
})  # fmt: skip
_PASSING_CODES = frozenset({
    "overloaded_error", "rate_limit_error", "rate_limit_exceeded", "server_error", "api_error",
    "timeout",
})  # fmt: skip


class AnyError(ExponentialBackoff):
    """Retries also an error without a code of its own: it arrives as a 500 or an `api_error`."""

    def classify(self, fault: Fault) -> ErrorClass:
        found = super().classify(fault)
        says_nothing = found is ErrorClass.UNKNOWN and not fault.code
        is_any = not fault.status and (says_nothing or found is ErrorClass.ABORTED)
        return ErrorClass.SERVER if is_any else found


def passes(status: int | None, code: str | None) -> bool:
    """Return whether a retry can help. A failure in a stream has a code, and no status."""
    if code in _FINAL_CODES:
        return False
    return status in _PASSING or (status is None and code in _PASSING_CODES)


def backoff_s(failures: int, headers: Mapping[str, str]) -> float:
    """Return the wait after so many failures: 0.5 s, 1 s ... 8 s, or what the provider asks for."""
    asked = retry_after_s(headers)
    if asked is not None:
        return min(asked, LONGEST_S)
    return min(0.5 * 2 ** (failures - 1), 8)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the headers ask for: milliseconds, seconds or a date."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1)):
        try:
            asked = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 < asked < float("inf"):
            return asked
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    asked = date.timestamp() - time.time()
    return asked if asked > 0 else None

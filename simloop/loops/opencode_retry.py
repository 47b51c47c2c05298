"""The retry policy of opencode's versions: which failed calls they repeat, and after how long.

Not here: the documented policy (`ExponentialBackoff`) and the count of failures (the loop). The
rule to keep: a version decides by the status, except where one of its options adds words or codes.
"""

import re
from dataclasses import dataclass
from math import ceil, isnan

from msgspec import UNSET

from simloop.kernel.errorclass import ErrorClass, class_of_status, says_overflow
from simloop.kernel.retry import RETRYABLE, until_ns
from simloop.messages import Fault

_CONFLICT, _TOO_LARGE, _SERVER = 409, 413, 500
_OVERFLOW_CODE = "context_length_exceeded"
_FAILED_HERE = {
    "connection": ErrorClass.CONNECTION,
    "timeout": ErrorClass.TIMEOUT,
    "aborted": ErrorClass.ABORTED,  # MessageAbortedError by its type, whether or not by the user
}
_NO_ANSWER_MAX_MS = 30_000
_LONGEST_MS = 2**31 - 1  # the longest wait of a JavaScript timer
_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
# The start of a text that JavaScript's parseFloat reads.
_NUMBER = re.compile(r"\s*([+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))", re.IGNORECASE)
# Words of a failure that may pass, found anywhere in a message: bug C7 finds 500 in "15000".
_MAY_PASS = re.compile(
    r"429|50[0234]|524|too many requests|rate (?:increased too quickly|limit)|rate[-_]limit"
    r"|overloaded|service[-_ ]unavailable|internal[_ ]error|internal server error"
    r"|server[-_ ]error|provider[-_ ]returned[-_ ]error|terminated|fetch failed|failed to fetch"
    r"|network[-_\s]error|upstream connect|connection (?:error|refused|lost)|socket hang up"
    r"|socket connection was closed|reset before headers|getaddrinfo|enotfound|eai_again"
    r"|econnrefused|econnreset|etimedout|^timeout$|re?try your request|resource[ _]exhausted"
    r"|\b(?:request|response|connection|network|stream|read) (?:timeout|timed out|time out)\b"
    r"|\btry again (?:later|in\b)|\b(?:currently|temporarily) at capacity\b",
    re.IGNORECASE,
)
_FRAME_MAY_PASS = re.compile(r"too_many_requests|exhausted|unavailable", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpencodeRetry:
    """Repeats 408, 409, 429 and every status from 500 on, whatever the code of the error.

    `knows_overflow` takes 413 and the words of an overflow for one, `overflow_by_code` also the
    `code` of an HTTP error. `by_words` repeats an error whose message or code says that it may
    pass, and is the only way to repeat an error frame of a stream.
    """

    initial_delay_ms: int = 2_000
    knows_overflow: bool = False
    overflow_by_code: bool = False
    by_words: bool = False

    def classify(self, fault: Fault) -> ErrorClass:
        """Return the class that decides in this version, which may differ from the true one."""
        if not isinstance(fault.status, int):
            return _FAILED_HERE.get(fault.code) or self._class_of_frame(fault)
        if self._overflows(fault):
            return ErrorClass.OVERFLOW
        known = class_of_status(fault.status)
        if known in RETRYABLE:
            return known
        if fault.status == _CONFLICT or fault.status >= _SERVER:
            return ErrorClass.SERVER
        return ErrorClass.SERVER if self._may_pass(fault) else known

    def retryable(self, error: ErrorClass) -> bool:
        """Return whether the class is one that may pass."""
        return error in RETRYABLE

    def delay_ns(self, failures: int, fault: Fault | None, *, now_ns: int, draw: float) -> int:  # noqa: ARG002
        """Return the wait that a header asks for, else 2, 4, 8 s ...

        The cap of 30 s holds for a call without an answer: an answer has headers.
        """
        delay_ms = self.initial_delay_ms << min(failures - 1, 31)
        if fault is None or fault.status is UNSET:
            return min(delay_ms, _NO_ANSWER_MAX_MS) * _NS_PER_MS
        asked_ms = _asked_ms(fault, now_ns)
        return round(min(delay_ms if asked_ms is None else asked_ms, _LONGEST_MS) * _NS_PER_MS)

    def _overflows(self, fault: Fault) -> bool:
        if not self.knows_overflow:
            return False
        by_code = self.overflow_by_code and fault.code == _OVERFLOW_CODE and not fault.code_is_type
        return fault.status == _TOO_LARGE or by_code or says_overflow(fault.message)

    def _may_pass(self, fault: Fault) -> bool:
        texts = (fault.message, fault.code)
        return self.by_words and any(_MAY_PASS.search(text) for text in texts)

    def _class_of_frame(self, fault: Fault) -> ErrorClass:
        """Return the class of an error frame, or of an exception: only the message is looked at."""
        passes = _MAY_PASS.search(fault.message) or _FRAME_MAY_PASS.search(fault.message)
        return ErrorClass.SERVER if self.by_words and passes else ErrorClass.UNKNOWN


def _asked_ms(fault: Fault, now_ns: int) -> float | None:
    """Return the wait of `retry-after-ms` or `retry-after`; a negative one is none at all."""
    exact = _number(fault.header("retry-after-ms"))
    if exact is not None:
        return max(exact, 0)
    value = fault.header("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return max(ceil(min(seconds, _LONGEST_MS) * 1_000), 0)
    wait_ns = None if value is None else until_ns(value, now_ns)
    return None if wait_ns is None else wait_ns / _NS_PER_MS


def _number(text: str | None) -> float | None:
    found = _NUMBER.match(text or "")
    number = float(found[1]) if found else float("nan")
    return None if isnan(number) else number

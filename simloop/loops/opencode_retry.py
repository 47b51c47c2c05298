"""The retry policy of the real opencode: which failed calls it repeats, and after how long.

Statuses, codes and words were read in the published program, the package opencode-linux-x64
1.18.34. The documented policy is `ExponentialBackoff`; the loop counts the failures. The words have
the faults of the program: "exceeds the limit of 5 requests" is an overflow, and 500 is found in
"15000" (bug C7).
"""

import functools
import json
import re
from dataclasses import dataclass
from math import ceil, isnan
from typing import Any

from msgspec import UNSET

from simloop.kernel.errorclass import OVERFLOW_PHRASES, ErrorClass, class_of_status
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
# Words of a failure that may pass, found anywhere in a message.
_MAY_PASS = re.compile(
    r"429|50[0234]|524|too many requests|rate (?:increased too quickly|limit)|rate[-_]limit"
    r"|overloaded|service[-_ ]unavailable|internal[_ ]error|internal server error"
    r"|server[-_ ]error|provider(?: returned |_returned_|-returned-)error|terminated|fetch failed"
    r"|failed to fetch|network[-_\s]error|upstream connect|connection (?:error|refused|lost)"
    r"|socket hang up|socket connection was closed|reset before headers|getaddrinfo|enotfound"
    r"|eai_again|econnrefused|econnreset|etimedout|^timeout$|resource[ _]exhausted"
    r"|try your request again|retry your request"
    r"|\b(?:request|response|connection|network|stream|read) (?:timeout|timed out|time out)\b"
    r"|\btry again (?:later|in\b)|\b(?:currently|temporarily) at capacity\b",
    re.IGNORECASE | re.ASCII,
)
_FRAME_MAY_PASS = re.compile(r"too_many_requests|exhausted|unavailable", re.IGNORECASE)
# Codes of an error frame that is JSON text by which the program gives up.
_NEVER_PASS = frozenset({"insufficient_quota", "usage_not_included", "invalid_prompt"})
_OVERFLOW = (
    *OVERFLOW_PHRASES,
    r"^4(?:00|13)\s*(?:status code)?\s*\(no body\)",
    r"input token count.*exceeds the maximum",
    r"maximum prompt length is \d+",
    r"maximum context length is \d+ tokens",
    r"exceeds the limit of \d+",
    r"context[_ ]length[_ ]exceeded",
    r"request entity too large",
    r"request_too_large",
    r"model_context_window_exceeded",
    r"too many tokens",
    r"token limit exceeded",
    r"tokens in request more than max tokens allowed",
    r"exceeds (?:the )?(?:model'?s )?maximum context length of [\d,]+ tokens?",
    r"exceeds (?:the )?(?:model'?s )?maximum context length\s*\([\d,]+\)",
    r"exceeds (?:the )?maximum allowed input length of [\d,]+ tokens?",
    r"input \(\d+ tokens\) is longer than the model'?s context length \(\d+ tokens\)",
    r"input length.*exceeds.*context length",
    r"context length is only \d+ tokens",
    r"prompt too long; exceeded (?:max )?context length",
    r"prompt has [\d,]+ tokens?, but the configured context size is [\d,]+ tokens?",
)
# Words that tell a rate limit from an overflow.
_THROTTLES = (r"^(?:throttling error|service unavailable):", r"rate limit", r"too many requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpencodeRetry:
    """Repeats 408, 409, 429 and every status from 500 on, and errors whose words say they may pass.

    An overflow is a 413, an HTTP error with the code of an overflow, or one with words of it.
    """

    initial_delay_ms: int = 2_000

    def classify(self, fault: Fault) -> ErrorClass:
        """Return the class that decides in the program, which may differ from the true one."""
        if not isinstance(fault.status, int):
            here = None if fault.code_is_type else _FAILED_HERE.get(fault.code)
            return here or _class_of_frame(fault)
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
        by_code = fault.code == _OVERFLOW_CODE and not fault.code_is_type
        return fault.status == _TOO_LARGE or by_code or _says_overflow(fault.message)

    def _may_pass(self, fault: Fault) -> bool:
        # The body, where the code stands, is searched as JSON text.
        return any(map(_MAY_PASS.search, (fault.message, _quoted(fault.code))))


def _says_overflow(message: str) -> bool:
    if _any_of(*_THROTTLES).search(message):
        return False
    return _any_of(*_OVERFLOW).search(message) is not None


@functools.cache  # compiled when a message is first searched, and not at each start
def _any_of(*phrases: str) -> re.Pattern[str]:
    # In a JavaScript pattern without the flag u, \d, \s and the case of letters are those of ASCII
    # (but for a few kinds of space), so "\N{KELVIN SIGN}" is no k.
    return re.compile("|".join(phrases), re.IGNORECASE | re.ASCII)


def _class_of_frame(fault: Fault) -> ErrorClass:
    body = _error_body(fault.message)
    if _code_of(body) == _OVERFLOW_CODE:
        return ErrorClass.OVERFLOW
    return ErrorClass.SERVER if _frame_may_pass(fault, body) else ErrorClass.UNKNOWN


def _frame_may_pass(fault: Fault, body: dict[str, Any] | None) -> bool:
    """Return whether the program repeats an error frame; it is searched as JSON text."""
    if body is not None:
        return _code_of(body) not in _NEVER_PASS or bool(_MAY_PASS.search(_quoted(body)))
    frame = _quoted({"message": fault.message, "code": fault.code})
    return any(words.search(frame) for words in (_MAY_PASS, _FRAME_MAY_PASS))


def _error_body(message: str) -> dict[str, Any] | None:
    try:
        body = json.loads(message)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) and body.get("type") == "error" else None


def _code_of(body: dict[str, Any] | None) -> str:
    error = (body or {}).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else ""


def _quoted(value: str | dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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

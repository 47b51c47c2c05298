"""The retry policy of the real opencode, as it was observed of 1.18.34."""

from typing import Any

import pytest
from incases import in_cases
from msgspec import UNSET

from simloop.kernel.errorclass import ErrorClass
from simloop.loops.opencode import OpencodeRetry
from simloop.messages import Fault

MS = 1_000_000
POLICY = OpencodeRetry()
CODE = "context_length_exceeded"
OVERFLOWS = [
    "The PROMPT IS TOO LONG: 213462 tokens > 200000 maximum",
    "Your input exceeds the context window of this model",
    "Please reduce the length of the messages or completion.",
    "This model's maximum context length is 128000 tokens. You asked for 150000.",
    "Your request exceeded model token limit: 262144",
]
MAY_PASS = [
    *("429", "error 500", "15000 tokens", "Too Many Requests", "rate_limit", "Overloaded"),
    *("Service Unavailable", "internal_error", "Provider returned error", "network\terror"),
    *("socket hang up", "getaddrinfo ENOTFOUND", "ECONNRESET", "timeout", "Response time out"),
    *("Please try again later", "resource exhausted", "temporarily at capacity"),
]
NEVER_PASSES = [
    *("501 Not Implemented", "529", "too many request", "ratelimit", "overload", "terminate"),
    *("connection reset", "EPIPE", "a timeout", "timeout ", "bread timed out", "read timeouts"),
    *("try again", "try again into", "at capacity", "quota exceeded", "insufficient_quota", "no"),
]


def goes(message: str = "no", status: Any = UNSET, code: str = "") -> str:
    """What becomes of a failed call: `compact`, `retry` or `fail`."""
    error = POLICY.classify(Fault(message, status=status, code=code))
    done = "retry" if POLICY.retryable(error) else "fail"
    return "compact" if error is ErrorClass.OVERFLOW else done


@pytest.mark.parametrize("status", [408, 409, 429, 500, 501, 502, 503, 504, 505, 529])
def test_409_429_and_every_status_from_500_on_are_repeated(status: int) -> None:
    assert goes(status=status) == goes(status=status, code="insufficient_quota") == "retry"


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_other_statuses_fail(status: int) -> None:
    assert goes(status=status) == "fail"


@in_cases(OVERFLOWS)
def test_the_words_of_an_overflow_beat_the_status_and_the_code(message: str) -> None:
    assert {goes(message, status, "invalid_prompt") for status in (400, 429, 500)} == {"compact"}


def test_a_413_and_the_code_of_an_overflow_are_one() -> None:
    assert goes(status=413) == goes(status=400, code=CODE) == "compact"


@in_cases(MAY_PASS)
def test_words_that_say_that_a_failure_may_pass_have_it_repeated(message: str) -> None:
    assert goes(message) == goes(message, status=401) == "retry"


@in_cases(NEVER_PASSES)
def test_other_words_do_not(message: str) -> None:
    assert goes(message) == goes(message, status=401) == "fail"


def test_the_code_is_searched_too_and_a_lost_connection_is_repeated() -> None:
    codes = ["server_error", "rate_limit_exceeded", "connection", "insufficient_quota"]
    assert [goes(code=code) for code in codes] == ["retry", "retry", "retry", "fail"]


def test_a_class_that_may_pass_keeps_its_name_whatever_the_words() -> None:
    limited = Fault("Too Many Requests", status=429)
    assert POLICY.classify(limited) is ErrorClass.RATE_LIMIT


def test_the_abort_error_of_an_sdk_is_taken_for_an_abort() -> None:
    aborted = Fault("The operation was aborted.", code="aborted")
    assert POLICY.classify(aborted) is ErrorClass.ABORTED


def delay(failures: int, **headers: str) -> int:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return POLICY.delay_ns(failures, Fault("busy", status=429, headers=named), now_ns=0, draw=0.5)


def test_a_delay_has_no_cap_but_the_longest_timer() -> None:
    assert [delay(n) // MS for n in (1, 5, 10, 100)] == [2_000, 32_000, 1_024_000, 2**31 - 1]
    assert delay(1, retry_after="1e30") == (2**31 - 1) * MS
    assert delay(1, retry_after="900") == 900_000 * MS
    assert POLICY.delay_ns(2, None, now_ns=0, draw=0.0) == 4_000 * MS


def test_a_retry_after_of_zero_or_less_retries_at_once() -> None:
    assert [delay(3, retry_after=value) for value in ("0", "-5", "0.0", "-0.5", "+0")] == [0] * 5
    assert [delay(3, retry_after_ms=value) for value in ("0", "-3")] == [0, 0]
    assert delay(3, retry_after="0", retry_after_ms="500") == 500 * MS
    assert [delay(3, retry_after=value) // MS for value in ("", "soon", "nan")] == [8_000] * 3

"""The retry policy of the real opencode, beside a small model of the rules that were observed."""

from itertools import product
from typing import Any

from incases import in_cases
from msgspec import UNSET

from simloop.kernel.errorclass import ErrorClass
from simloop.loops.opencode_retry import OpencodeRetry
from simloop.messages import Fault

MS = 1_000_000
POLICY = OpencodeRetry()
CODE = "context_length_exceeded"
STATUSES: list[Any] = [
    *(UNSET, 400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 501, 503, 505, 529),
]
MESSAGES = ["no", "Overloaded", "15000 tokens", "prompt is too long", "try again later"]
CODES = ["", "connection", "timeout", "insufficient_quota", "server_error", CODE]
PASSING_MESSAGES = ["Overloaded", "15000 tokens", "try again later"]
FAULTS = [
    Fault(message, status=status, code=code, code_is_type=is_type)
    for message, status, code, is_type in product(MESSAGES, STATUSES, CODES, (False, True))
]


def goes(fault: Fault) -> str:
    """What the program does, by the list of rules: `compact`, `retry` or `fail`."""
    passing = fault.message in PASSING_MESSAGES or fault.code == "server_error"
    if fault.status is UNSET:
        lost = fault.code in ("connection", "timeout") and not fault.code_is_type
        return "retry" if lost or passing else "fail"
    by_code = fault.code == CODE and not fault.code_is_type
    if fault.status == 413 or fault.message == "prompt is too long" or by_code:
        return "compact"
    if fault.status in (408, 409, 429) or fault.status >= 500:
        return "retry"
    return "retry" if passing else "fail"


@in_cases(FAULTS)
def test_the_program_does_with_any_failure_as_the_list_of_rules_says(fault: Fault) -> None:
    error = POLICY.classify(fault)
    done = "retry" if POLICY.retryable(error) else "fail"
    assert ("compact" if error is ErrorClass.OVERFLOW else done) == goes(fault)


def delay(failures: int, *headers: tuple[str, str], status: int | None = 429) -> int:
    fault = Fault("busy", status=UNSET if status is None else status, headers=headers)
    return OpencodeRetry().delay_ns(failures, fault, now_ns=0, draw=0.5)


def test_an_answer_has_no_cap_on_its_delay_but_the_longest_timer() -> None:
    assert [delay(n) // MS for n in (1, 5, 10, 100)] == [2_000, 32_000, 1_024_000, 2**31 - 1]
    assert delay(1, ("retry-after", "1e30")) == (2**31 - 1) * MS
    assert delay(1, ("retry-after-ms", "Infinity")) == (2**31 - 1) * MS


def test_a_lost_connection_waits_at_most_30_s_and_no_failure_as_long() -> None:
    assert [delay(n, status=None) // MS for n in (1, 4, 5, 99)] == [2_000, 16_000, 30_000, 30_000]
    assert OpencodeRetry().delay_ns(9, None, now_ns=0, draw=0.0) == 30_000 * MS


def test_a_date_counts_only_if_it_is_still_to_come() -> None:
    assert delay(1, ("retry-after", "Thu, 01 Jan 1970 00:00:07 GMT")) == 7_000 * MS
    assert delay(1, ("retry-after", "Wed, 31 Dec 1969 23:59:00 GMT")) == 2_000 * MS


def test_the_abort_error_of_an_sdk_is_taken_for_an_abort() -> None:
    aborted = Fault("The operation was aborted.", code="aborted")
    assert POLICY.classify(aborted) is ErrorClass.ABORTED

"""The class of a failure comes from its status or its whole code word, never from a sentence."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from incases import in_cases
from msgspec import UNSET

from simloop.kernel.errorclass import ErrorClass, classify
from simloop.messages import Fault

SEEDED = settings(derandomize=True)
CODES = ["connection", "timeout", "insufficient_quota", "context_length_exceeded", "server_error"]
STATUSES = [
    (400, ErrorClass.BAD_REQUEST),
    (401, ErrorClass.AUTH),
    (402, ErrorClass.QUOTA),
    (403, ErrorClass.AUTH),
    (404, ErrorClass.BAD_REQUEST),
    (408, ErrorClass.TIMEOUT),
    (422, ErrorClass.BAD_REQUEST),
    (429, ErrorClass.RATE_LIMIT),
    (499, ErrorClass.BAD_REQUEST),
    (500, ErrorClass.SERVER),
    (501, ErrorClass.UNKNOWN),
    (502, ErrorClass.SERVER),
    (503, ErrorClass.OVERLOADED),
    (504, ErrorClass.TIMEOUT),
    (529, ErrorClass.OVERLOADED),
    (399, ErrorClass.UNKNOWN),
    (200, ErrorClass.UNKNOWN),
    (0, ErrorClass.UNKNOWN),
    (-1, ErrorClass.UNKNOWN),
]


@in_cases(STATUSES)
def test_a_status_alone_decides(status: int, expected: ErrorClass) -> None:
    assert classify(Fault("no", status=status)) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("connection", ErrorClass.CONNECTION),
        ("timeout", ErrorClass.TIMEOUT),
        ("insufficient_quota", ErrorClass.QUOTA),
        ("billing_error", ErrorClass.QUOTA),
        ("context_length_exceeded", ErrorClass.OVERFLOW),
        ("overloaded_error", ErrorClass.OVERLOADED),
        ("rate_limit_error", ErrorClass.RATE_LIMIT),
        ("rate_limit_exceeded", ErrorClass.RATE_LIMIT),
        ("server_error", ErrorClass.SERVER),
        ("api_error", ErrorClass.SERVER),
    ],
)
def test_a_code_decides_where_there_is_no_status(code: str, expected: ErrorClass) -> None:
    assert classify(Fault("no", code=code)) is expected


@pytest.mark.parametrize("code", ["", "server error", "a timeout", "TIMEOUT", "timeout ", "500"])
def test_a_code_that_is_not_a_whole_known_word_says_nothing(code: str) -> None:
    assert classify(Fault("no", code=code)) is ErrorClass.UNKNOWN


@pytest.mark.parametrize("status", [400, 401, 413, 429, 500, 503])
def test_want_of_money_is_quota_whatever_the_status(status: int) -> None:
    assert classify(Fault("no", status=status, code="insufficient_quota")) is ErrorClass.QUOTA


@pytest.mark.parametrize("status", [400, 413, 422, 429, 500])
def test_want_of_room_is_overflow_whatever_the_status(status: int) -> None:
    fault = Fault("no", status=status, code="context_length_exceeded")
    assert classify(fault) is ErrorClass.OVERFLOW


@pytest.mark.parametrize(("status", "expected"), [(401, ErrorClass.AUTH), (400, "bad-request")])
def test_a_refusal_whose_body_says_server_error_stays_a_refusal(status: int, expected: str) -> None:
    assert classify(Fault("no", status=status, code="server_error")) == expected


@pytest.mark.parametrize("message", ["limit is 15000 tokens", "error 500", "429", "timeout"])
def test_the_words_of_the_message_never_decide(message: str) -> None:
    assert classify(Fault(message, status=400)) is ErrorClass.BAD_REQUEST


@SEEDED
@given(
    message=st.text(),
    status=st.just(UNSET) | st.integers() | st.integers(100, 599),
    code=st.text() | st.sampled_from(CODES),
)
def test_no_fault_is_without_a_class(message: str, status: int, code: str) -> None:
    assert classify(Fault(message, status=status, code=code)) in ErrorClass

"""When a failed call is tried again, and after exactly how long."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.retry import ExponentialBackoff, RetryPolicy, retry_after_ns
from simloop.messages import Fault

SEEDED = settings(derandomize=True)
MS, S = 1_000_000, 1_000_000_000
NOW_NS = 1_445_412_475 * S  # Wed, 21 Oct 2015 07:27:55 GMT
POLICY = ExponentialBackoff()
CAP_NS = 120 * S

RETRIED = {
    ErrorClass.RATE_LIMIT,
    ErrorClass.OVERLOADED,
    ErrorClass.SERVER,
    ErrorClass.CONNECTION,
    ErrorClass.TIMEOUT,
    ErrorClass.INTERRUPTED,
    ErrorClass.EMPTY_REPLY,
    ErrorClass.MISSING_CALLS,
}


def asks(seconds: str | None = None, *, ms: str | None = None) -> Fault:
    """Build a 429 with these Retry-After headers."""
    pairs = (("retry-after", seconds), ("retry-after-ms", ms))
    headers = tuple((name, value) for name, value in pairs if value is not None)
    return Fault("slow down", status=429, headers=headers)


def delay(
    failures: int, fault: Fault | None = None, policy: RetryPolicy = POLICY, draw: float = 0.0
) -> int:
    return policy.delay_ns(failures, fault, now_ns=NOW_NS, draw=draw)


@pytest.mark.parametrize("error", ErrorClass)
def test_a_class_is_retried_only_if_trying_again_can_help(error: ErrorClass) -> None:
    assert POLICY.retryable(error) is (error in RETRIED)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 2), (2, 4), (3, 8), (4, 16), (5, 30), (6, 30), (10**19, 30)]
)
def test_the_default_delays_are_2_4_8_16_30_30_seconds(failures: int, seconds: int) -> None:
    assert delay(failures) == seconds * S


@SEEDED
@given(
    failures=st.integers(1, 200),
    initial_delay_ms=st.integers(0, 10**9),
    max_delay_ms=st.integers(0, 10**9),
)
def test_backoff_never_shrinks_and_never_passes_its_cap(
    failures: int, initial_delay_ms: int, max_delay_ms: int
) -> None:
    policy = ExponentialBackoff(initial_delay_ms=initial_delay_ms, max_delay_ms=max_delay_ms)
    first, second = (delay(number, policy=policy) for number in (failures, failures + 1))
    assert 0 <= first <= second <= max_delay_ms * MS


@SEEDED
@given(
    failures=st.integers(1, 200),
    jitter=st.floats(0, 1),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_jitter_takes_at_most_its_share_off_the_delay(
    failures: int, jitter: float, draw: float
) -> None:
    full = delay(failures)
    jittered = delay(failures, policy=ExponentialBackoff(jitter=jitter), draw=draw)
    assert int(full * (1 - jitter)) <= jittered <= full


@pytest.mark.parametrize(
    ("draw", "delay_ms"), [(0.0, 2_000), (0.5, 1_750), (0.75, 1_625)], ids=["0", "half", "3/4"]
)
def test_a_jitter_of_a_quarter_takes_that_share_of_the_draw(draw: float, delay_ms: int) -> None:
    assert delay(1, policy=ExponentialBackoff(jitter=0.25), draw=draw) == delay_ms * MS


@pytest.mark.parametrize(
    ("value", "wait_ns"),
    [
        pytest.param("5", 5 * S, id="whole"),
        pytest.param("1", S, id="under-the-first-backoff"),
        pytest.param("1.5", 1_500 * MS, id="decimals"),
        pytest.param("0.001", MS, id="thousandth"),
        pytest.param("  5  ", 5 * S, id="spaces"),
        pytest.param("\u0663", 3 * S, id="unicode-digit-as-the-sdks-read-it"),
        pytest.param("119.999", 119_999 * MS, id="just-under-the-cap"),
    ],
)
def test_retry_after_in_seconds_is_waited_to_the_nanosecond(value: str, wait_ns: int) -> None:
    assert delay(1, asks(value)) == wait_ns


@pytest.mark.parametrize(
    ("value", "wait_ns"), [("250", 250 * MS), ("1500", 1_500 * MS), ("0.5", MS // 2)]
)
def test_retry_after_in_milliseconds_is_waited_to_the_nanosecond(value: str, wait_ns: int) -> None:
    assert delay(1, asks(ms=value)) == wait_ns


def test_milliseconds_go_before_seconds() -> None:
    assert delay(1, asks("60", ms="250")) == 250 * MS


@pytest.mark.parametrize("garbage", ["", "soon", "0", "-1", "nan", "inf", "1e400"])
def test_unusable_milliseconds_leave_the_word_to_seconds(garbage: str) -> None:
    assert delay(1, asks("5", ms=garbage)) == 5 * S


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("Wed, 21 Oct 2015 07:28:00 GMT", id="imf-fixdate"),
        pytest.param("Wednesday, 21-Oct-15 07:28:00 GMT", id="rfc-850"),
        pytest.param("Wed Oct 21 07:28:00 2015", id="asctime"),
        pytest.param("Wed, 21 Oct 2015 07:28:00", id="no-time-zone-is-utc"),
        pytest.param("Wed, 21 Oct 2015 07:28:00 -0000", id="unknown-time-zone-is-utc"),
        pytest.param("Wed, 21 Oct 2015 09:28:00 +0200", id="east"),
        pytest.param("Wed, 21 Oct 2015 03:28:00 -0400", id="west"),
    ],
)
def test_retry_after_as_a_date_waits_until_then(value: str) -> None:
    assert delay(1, asks(value)) == 5 * S


def test_a_date_is_waited_for_from_the_nanosecond_that_it_is_now() -> None:
    date = asks("Wed, 21 Oct 2015 07:28:00 GMT")
    assert retry_after_ns(date, NOW_NS + 1) == 5 * S - 1


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param(" ", id="space"),
        pytest.param("0", id="zero"),
        pytest.param("0.0", id="zero-decimal"),
        pytest.param("-0", id="minus-zero"),
        pytest.param("-5", id="negative"),
        pytest.param("nan", id="nan"),
        pytest.param("inf", id="inf"),
        pytest.param("-inf", id="minus-inf"),
        pytest.param("1e400", id="past-the-floats"),
        pytest.param("1e-12", id="under-a-nanosecond"),
        pytest.param("5s", id="unit"),
        pytest.param("5, 6", id="list"),
        pytest.param("0x10", id="hex"),
        pytest.param("soon", id="word"),
        pytest.param("2015-10-21T07:28:00Z", id="iso-date"),
        pytest.param("Wed, 21 Oct 2015 07:27:54 GMT", id="past-date"),
        pytest.param("Thu, 01 Jan 1970 00:00:00 GMT", id="epoch"),
        pytest.param("Wed, 99 Oct 2015 07:28:00 GMT", id="no-such-day"),
        pytest.param("Wed, 21 Oct 99999 07:28:00 GMT", id="no-such-year"),
        pytest.param("Wed, 21 Oct 2015 07:28:00 +9999", id="no-such-zone"),
    ],
)
def test_an_unusable_retry_after_backs_off_instead(value: str) -> None:
    assert delay(2, asks(value)) == 4 * S


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(asks("120"), id="at-the-cap"),
        pytest.param(asks("121"), id="second-over"),
        pytest.param(asks("2147483"), id="24.8-days"),
        pytest.param(asks("1e300"), id="huge-seconds"),
        pytest.param(asks("1e308"), id="seconds-whose-nanoseconds-are-no-float"),
        pytest.param(asks(ms="120001"), id="millisecond-over"),
        pytest.param(asks(ms="1e308"), id="milliseconds-whose-nanoseconds-are-no-float"),
        pytest.param(asks("Fri, 31 Dec 9999 23:59:59 GMT"), id="last-date"),
    ],
)
def test_a_longer_retry_after_waits_the_cap(fault: Fault) -> None:
    assert delay(1, fault) == CAP_NS


def test_the_cap_on_retry_after_is_a_setting_of_its_own_and_jitter_leaves_it_alone() -> None:
    policy = ExponentialBackoff(max_retry_after_ms=45_000, jitter=1.0)
    assert delay(1, asks("60"), policy, draw=0.9) == 45 * S


NUMBERS = st.integers(0, 99) | st.integers(0, 10**30)
DATES = st.builds("{} Oct {} {}:{}:{} +{}".format, *[NUMBERS] * 6)
WORDS = st.text() | st.floats().map(str) | st.integers().map(str) | DATES


@SEEDED
@given(value=WORDS)
@example("1e308")
@pytest.mark.parametrize("header", ["retry-after", "retry-after-ms"])
def test_no_text_of_a_retry_after_raises(header: str, value: str) -> None:
    fault = Fault("slow down", status=429, headers=((header, value),))
    assert 0 <= delay(1, fault) <= CAP_NS


def read(document: dict[str, object]) -> ExponentialBackoff:
    """Read a policy as a file gives it, by the rules of JSON."""
    return TypeAdapter(ExponentialBackoff).validate_json(json.dumps(document))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("initial_delay", "-1ms"),
        ("max_delay", -1),
        ("max_retry_after", "500us"),
        ("jitter", -0.1),
        ("jitter", 1.1),
        ("jitter", "0.5"),
        ("initial_delay", "2000"),
        ("initial_delay", 2000.5),
        ("initial_delay_ms", 2_000),
        ("initial", 2_000),
    ],
)
def test_a_file_cannot_set_a_backoff_out_of_range(key: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        read({key: value})
    assert [error["loc"] for error in refused.value.errors()] == [(key,)]

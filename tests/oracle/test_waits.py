import pytest
from faultyruns import DONE, scenario, violated

from oracle.policies import asked_ns, wait_range
from simloop import ExponentialBackoff
from simloop.kernel.retry import retry_after_ns
from simloop.messages import Fault
from simloop.virtual.clock.instants import EPOCH_NS

NS_PER_S = 1_000_000_000


def failure(**headers: str) -> Fault:
    given = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Fault("busy", status=429, headers=given)


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (failure(), None),
        (failure(retry_after="7"), 7),
        (failure(retry_after=" 0.5 "), 0.5),
        (failure(retry_after="1e2"), 100),
        (failure(retry_after_ms="50", retry_after="7"), 0.05),
        (failure(retry_after_ms="x", retry_after="7"), 7),
        (failure(retry_after_ms="-1"), None),
        (failure(retry_after="0"), None),
        (failure(retry_after="inf"), None),
        (failure(retry_after="soon"), None),
        (failure(retry_after="Thu, 01 Jan 2026 00:00:45 GMT"), 45),
        (failure(retry_after="Wed, 31 Dec 2025 23:59:00 GMT"), None),
        (failure(retry_after="Thu, 01 Jan 99999 00:00:00 GMT"), None),
    ],
)
def test_the_wait_that_a_provider_asks_for_is_read_as_the_policy_reads_it(
    fault: Fault, seconds: float | None
) -> None:
    expected = None if seconds is None else int(seconds * NS_PER_S)
    assert asked_ns(fault, EPOCH_NS) == expected == retry_after_ns(fault, EPOCH_NS)


def test_a_policy_allows_the_waits_from_full_jitter_to_none() -> None:
    policy = ExponentialBackoff(initial_delay_ms=1_000, max_delay_ms=3_000, jitter=0.5)
    assert wait_range(policy, 1, None, 0) == (NS_PER_S // 2, NS_PER_S)
    assert wait_range(policy, 9, None, 0) == (3 * NS_PER_S // 2, 3 * NS_PER_S)
    assert wait_range(policy, 9, failure(retry_after="7"), 0) == (7 * NS_PER_S, 7 * NS_PER_S)


def test_a_summary_that_an_abort_has_stopped_is_not_judged_in_the_next_run() -> None:
    played = scenario(
        {"finish": "length"}, DONE, context={"over": [True]}, abort={"after": "text-delta"},
        history=[{"user": ""}], then=["Go."], summaries=[{"say": "In short."}],
    )  # fmt: skip
    assert not violated(played)

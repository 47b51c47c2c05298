"""Waits between the tries of a run: as long as policy, provider and seed say."""

from builders import DONE, JITTERY, S
from builders import play_loosely as play
from hypothesis import given
from hypothesis import strategies as st

from simloop import Http, Limits, Reply, Result, Scenario
from simloop.messages import Request
from simloop.runs.run import Simulation
from simloop.trace import entries


def backoffs(result: Result) -> list[int]:
    return [e.delay_ns for e in result.trace.entries if isinstance(e, entries.Backoff)]


def test_backoff_doubles() -> None:
    failures = [Reply(http=Http(status=503))] * 6
    result = play(*failures, DONE, limits=Limits(max_error_count=7))
    assert [ns // S for ns in backoffs(result)] == [2, 4, 8, 16, 30, 30]


def test_a_run_waits_as_long_as_the_backoff_says() -> None:
    failures = [Reply(http=Http(status=503))] * 2
    assert play(*failures, DONE).elapsed_ns == 6 * S


def test_retry_after_is_kept_to_the_nanosecond() -> None:
    result = play(Reply(http=Http.model_validate({"status": 429, "retry_after": "1.5s"})), DONE)
    assert (backoffs(result), result.elapsed_ns) == ([3 * S // 2], 3 * S // 2)


def test_a_wait_that_the_provider_asked_for_is_recorded_as_such() -> None:
    result = play(
        Reply(http=Http.model_validate({"status": 429, "retry_after": "1s"})),
        Reply(http=Http(status=503)),
        DONE,
    )
    asked = [e.retry_after for e in result.trace.entries if isinstance(e, entries.Backoff)]
    assert asked == [True, False]


def test_retry_after_as_a_date_is_read_by_the_virtual_clock() -> None:
    headers = {"Retry-After": "Thu, 01 Jan 2026 00:00:07 GMT"}
    assert backoffs(play(Reply(http=Http(status=429, headers=headers)), DONE)) == [7 * S]


def test_a_useless_reply_after_a_rate_limit_does_not_wait_as_the_rate_limit_asked() -> None:
    result = play(
        Reply(http=Http.model_validate({"status": 429, "retry_after": "100s"})),
        Reply(finish="stop"),
        DONE,
    )
    assert backoffs(result) == [100 * S, 4 * S]


def jittered(seed: int) -> list[int]:
    failures = [Reply(http=Http(status=503))] * 2
    return backoffs(play(*failures, DONE, retry=JITTERY, seed=seed))


@given(st.integers(0, 2**63 - 1))
def test_jitter_is_the_same_for_the_same_seed(seed: int) -> None:
    assert jittered(seed) == jittered(seed)


def test_jitter_differs_by_seed() -> None:
    assert len({tuple(jittered(seed)) for seed in range(20)}) == 20


def test_jitter_differs_from_wait_to_wait() -> None:
    first, second = jittered(0)
    assert 2 * first != second


@given(st.integers(0, 1_000))
def test_jitter_takes_off_no_more_than_its_share(seed: int) -> None:
    first, second = jittered(seed)
    assert S <= first <= 2 * S
    assert 2 * S <= second <= 4 * S


def test_other_users_of_the_seed_do_not_change_the_jitter() -> None:
    def model(_: Request) -> Reply:
        return next(script)

    script = iter([Reply(http=Http(status=503))] * 2 + [DONE])
    simulation = Simulation(Scenario(prompt="Go.", retry=JITTERY), model=model)
    simulation.seeds.stream("tool-latency").random()
    assert backoffs(simulation.run()) == jittered(0)

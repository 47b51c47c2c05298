"""The retry policy of opencode's versions, beside a small model of the rules that were observed."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from simloop.kernel.errorclass import ErrorClass
from simloop.loops.opencode import OpencodeLoop
from simloop.loops.opencode_options import VERSIONS
from simloop.loops.opencode_retry import OpencodeRetry
from simloop.messages import Fault

MS = 1_000_000
POLICIES = {
    name: OpencodeLoop(options=options).policies.retry for name, options in VERSIONS.items()
}
CODE = "context_length_exceeded"
STATUSES = [UNSET, 400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 501, 503, 505, 529]
MESSAGES = ["no", "Overloaded", "15000 tokens", "prompt is too long", "try again later"]
CODES = ["", "connection", "timeout", "insufficient_quota", "server_error", CODE]
PASSING_MESSAGES = ["Overloaded", "15000 tokens", "try again later"]
FAULTS = st.builds(
    Fault,
    st.sampled_from(MESSAGES),
    status=st.sampled_from(STATUSES),
    code=st.sampled_from(CODES),
    code_is_type=st.booleans(),
)


def goes(version: str, fault: Fault) -> str:
    """What the version does, by the list of rules: `compact`, `retry` or `fail`."""
    new = version == "1.18.33"
    passing = new and fault.message in PASSING_MESSAGES
    if fault.status is UNSET:
        return "retry" if fault.code in ("connection", "timeout") or passing else "fail"
    by_code = new and fault.code == CODE and not fault.code_is_type
    if version != "1.1.11" and (
        fault.status == 413 or fault.message == "prompt is too long" or by_code
    ):
        return "compact"
    if fault.status in (408, 409, 429) or fault.status >= 500:
        return "retry"
    return "retry" if passing or (new and fault.code in ("server_error", "timeout")) else "fail"


@settings(derandomize=True)
@given(st.sampled_from(sorted(POLICIES)), FAULTS)
def test_a_version_does_with_any_failure_as_the_list_of_rules_says(
    version: str, fault: Fault
) -> None:
    policy = POLICIES[version]
    error = policy.classify(fault)
    done = "retry" if policy.retryable(error) else "fail"
    assert ("compact" if error is ErrorClass.OVERFLOW else done) == goes(version, fault)


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


def test_all_versions_take_the_abort_error_of_an_sdk_for_an_abort() -> None:
    aborted = Fault("The operation was aborted.", code="aborted")
    assert {policy.classify(aborted) for policy in POLICIES.values()} == {ErrorClass.ABORTED}

"""What was observed of the published versions of opencode: requests, events, time and outcome.

The name of a test says the version; `no_version`, `all_versions` and `up_to_1_2_27` say several.
"""

from typing import Any

import pytest
from counted import counters_of
from test_opencode_runs import CALL, DONE, failing, go

from simloop import Http, Outcome, Reply, Result, Scenario
from simloop.loops.opencode_options import VERSIONS
from simloop.runs.conversation import event_view
from simloop.scenario.replies import StreamFault
from simloop.scenario.schema import Context
from simloop.scenario.triggers import Trigger
from simloop.trace.exports.event import Event
from simloop.trace.exports.opencode_events import SessionErrorEvent, StatusEvent

ALL = pytest.mark.parametrize("version", VERSIONS)
UP_TO_1_2_27 = pytest.mark.parametrize("version", ["1.1.11", "1.2.27"])
SINCE_1_2_27 = pytest.mark.parametrize("version", ["1.2.27", "1.18.33"])


def play(version: str, *model: Reply, **more: Any) -> Result:
    return go(*model, loop=f"opencode@{version}", **more)


def events(version: str, result: Result) -> list[str]:
    """The statuses by their types, and the errors by their names."""
    view = event_view(Scenario(prompt="Go."), f"opencode@{version}", "program")
    return [word_of(event) for line in result.trace.entries for event in view.feed(line)]


def word_of(event: Event) -> str:
    if isinstance(event, SessionErrorEvent):
        return event.error.name
    assert isinstance(event, StatusEvent)
    return str(type(event.status).__struct_config__.tag)


def ended(result: Result) -> tuple[Outcome, int, list[float]]:
    """The outcome, the number of requests, and the waits in seconds."""
    return result.outcome, len(result.requests), list(result.backoffs_s)


# Which calls are repeated, and after how long


@ALL
@pytest.mark.parametrize(
    "headers",
    [{"retry-after": "0"}, {"retry-after": "-1"}, {"retry-after-ms": "0"}],
    ids=["0-s", "-1-s", "0-ms"],
)
def test_all_versions_retry_at_once_where_retry_after_is_zero_or_less(
    version: str, headers: dict[str, str]
) -> None:
    result = play(version, Reply(http=Http(status=429, headers=headers)), DONE)
    assert ended(result) == (Outcome.COMPLETED, 2, [0])
    assert result.elapsed_ns == 0


@ALL
@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "garbage"}, 2),
        ({"retry-after": "1.5 or so"}, 1.5),
        ({"retry-after": "0.0001"}, 0.001),
        ({"retry-after-ms": "12.5"}, 0.0125),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3),
        ({"retry-after": "900"}, 900),
    ],
    ids=str,
)
def test_all_versions_read_retry_after_as_a_number_at_the_start_of_the_text(
    version: str, headers: dict[str, str], wait: float
) -> None:
    result = play(version, Reply(http=Http(status=503, headers=headers)), DONE)
    assert ended(result) == (Outcome.COMPLETED, 2, [wait])


@ALL
@pytest.mark.parametrize("status", [408, 409, 429, 500, 501, 502, 503, 504, 505, 529])
def test_all_versions_retry_409_and_every_status_from_500_on(version: str, status: int) -> None:
    result = play(version, failing(status), DONE)
    assert ended(result) == (Outcome.COMPLETED, 2, [2])


@ALL
@pytest.mark.parametrize("status", [429, 500])
def test_all_versions_retry_insufficient_quota_like_any_other_code(
    version: str, status: int
) -> None:
    quota = Reply(http=Http(status=status, code="insufficient_quota"))
    assert ended(play(version, quota, DONE)) == (Outcome.COMPLETED, 2, [2])


@ALL
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_all_versions_fail_on_the_other_statuses(version: str, status: int) -> None:
    result = play(version, failing(status))
    assert ended(result) == (Outcome.FAILED, 1, [])
    assert "APIError" in events(version, result)


@ALL
def test_all_versions_wait_32_s_after_the_fifth_answer_and_30_s_without_one(version: str) -> None:
    assert play(version, failing(500, 5), DONE).backoffs_s == [2, 4, 8, 16, 32]
    lost = Reply(lost="before-headers", times=5)
    assert play(version, lost, DONE).backoffs_s == [2, 4, 8, 16, 30]


@pytest.mark.parametrize(
    "text", ["15000 tokens", "overloaded", "Please try again later.", "ECONNRESET", "timeout"]
)
def test_1_18_33_retries_a_401_whose_words_say_that_it_may_pass(text: str) -> None:
    odd = Reply(http=Http(status=401, message=text))
    assert ended(play("1.18.33", odd, DONE)) == (Outcome.COMPLETED, 2, [2])
    assert ended(play("1.2.27", odd)) == (Outcome.FAILED, 1, [])


def test_1_18_33_retries_a_401_whose_body_says_server_error() -> None:
    body = {"error": {"type": "server_error", "message": "no key"}}
    odd = Reply(http=Http(status=401, body=body))
    assert ended(play("1.18.33", odd, DONE)) == (Outcome.COMPLETED, 2, [2])


# Overflows


TOO_BIG = Reply(http=Http(status=413, message="no words of it"))
MADE_ROOM = Context(over=[False], shrunk=[True])


@SINCE_1_2_27
def test_since_1_2_27_a_413_without_overflow_words_is_compacted(version: str) -> None:
    result = play(version, TOO_BIG, DONE, context=MADE_ROOM)
    assert ended(result) == (Outcome.COMPLETED, 2, [])
    assert counters_of(result).compaction_attempts == 1


def test_1_1_11_fails_on_a_413() -> None:
    result = play("1.1.11", TOO_BIG)
    assert ended(result) == (Outcome.FAILED, 1, [])
    assert events("1.1.11", result) == ["busy", "APIError", "idle"]


CODE = "context_length_exceeded"
AS_TYPE = Reply(http=Http(status=400, body={"error": {"type": CODE, "message": "no"}}))
AS_CODE = Reply(http=Http(status=400, body={"error": {"code": CODE, "message": "no"}}))
AS_BOTH = Reply(http=Http(status=400, body={"error": {"code": CODE, "type": "x", "message": "no"}}))
AS_FRAME = Reply(error=StreamFault(message="no", code=CODE))


@pytest.mark.parametrize("reply", [AS_CODE, AS_BOTH], ids=["code", "code-and-type"])
def test_1_18_33_compacts_after_an_http_error_that_is_an_overflow_by_its_code(
    reply: Reply,
) -> None:
    result = play("1.18.33", reply, DONE, context=MADE_ROOM)
    assert ended(result) == (Outcome.COMPLETED, 2, [])
    assert counters_of(result).compaction_attempts == 1


@pytest.mark.parametrize(
    ("version", "reply", "error"),
    [
        ("1.18.33", AS_TYPE, "APIError"),
        ("1.18.33", AS_FRAME, "UnknownError"),
        ("1.2.27", AS_TYPE, "APIError"),
        ("1.2.27", AS_CODE, "APIError"),
        ("1.2.27", AS_FRAME, "UnknownError"),
        ("1.1.11", AS_TYPE, "APIError"),
        ("1.1.11", AS_CODE, "APIError"),
    ],
)
def test_every_other_overflow_that_is_known_only_by_a_code_fails_in_its_version(
    version: str, reply: Reply, error: str
) -> None:
    result = play(version, reply)
    assert ended(result) == (Outcome.FAILED, 1, [])
    assert error in events(version, result)


# Error frames


OVERLOADED = Reply(say="Half a", error=StreamFault(message="Overloaded", code="overloaded_error"))


@UP_TO_1_2_27
def test_up_to_1_2_27_an_error_frame_is_never_retried_and_is_an_unknown_error(
    version: str,
) -> None:
    result = play(version, OVERLOADED)
    assert ended(result) == (Outcome.FAILED, 1, [])
    assert "UnknownError" in events(version, result)


def test_1_18_33_retries_an_error_frame_whose_message_says_that_it_may_pass() -> None:
    assert ended(play("1.18.33", OVERLOADED, DONE)) == (Outcome.COMPLETED, 2, [2])
    hopeless = Reply(say="Half a", error=StreamFault(message="no", code="overloaded_error"))
    assert ended(play("1.18.33", hopeless)) == (Outcome.FAILED, 1, [])


# Events of a run that fails


@pytest.mark.parametrize(
    ("version", "end"),
    [
        ("1.1.11", ["APIError", "idle"]),
        ("1.2.27", ["APIError", "idle", "idle"]),
        ("1.18.33", ["APIError", "idle", "idle"]),
    ],
)
def test_since_1_2_27_a_failed_run_emits_error_idle_idle(version: str, end: list[str]) -> None:
    assert events(version, play(version, failing(401))) == ["busy", *end]


@ALL
def test_no_version_emits_idle_twice_after_a_run_without_an_error(version: str) -> None:
    assert events(version, play(version, DONE)) == ["busy", "busy", "idle"]


def test_1_18_33_emits_idle_twice_after_an_abort() -> None:
    result = play("1.18.33", CALL, abort=Trigger(at="0.5s"))
    assert events("1.18.33", result) == ["busy", "MessageAbortedError", "idle", "idle"]

"""What was observed of the published opencode 1.18.34: requests, events, time and outcome."""

from typing import Any

import pytest
from builders import counters_of
from test_opencode_runs import CALL, DONE, failing, go

from simloop import Http, Outcome, Reply, Result, Scenario
from simloop.runs.conversation import event_view
from simloop.scenario.replies import StreamFault
from simloop.scenario.schema import Context
from simloop.scenario.triggers import Trigger
from simloop.trace.exports.events import Event, SessionErrorEvent, StatusEvent

VERSION = "opencode@1.18.34"


def play(*model: Reply, **more: Any) -> Result:
    return go(*model, loop=VERSION, **more)


def events(result: Result) -> list[str]:
    """The statuses by their types, and the errors by their names."""
    view = event_view(Scenario(prompt="Go."), VERSION, "session")
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


@pytest.mark.parametrize(
    "headers",
    [{"retry-after": "0"}, {"retry-after": "-1"}, {"retry-after-ms": "0"}],
    ids=["0-s", "-1-s", "0-ms"],
)
def test_1_18_34_retry_at_once_where_retry_after_is_zero_or_less(headers: dict[str, str]) -> None:
    result = play(Reply(http=Http(status=429, headers=headers)), DONE)
    assert ended(result) == (Outcome.COMPLETED, 2, [0])
    assert result.elapsed_ns == 0


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
def test_1_18_34_read_retry_after_as_a_number_at_the_start_of_the_text(
    headers: dict[str, str], wait: float
) -> None:
    result = play(Reply(http=Http(status=503, headers=headers)), DONE)
    assert ended(result) == (Outcome.COMPLETED, 2, [wait])


@pytest.mark.parametrize("status", [408, 409, 429, 500, 501, 502, 503, 504, 505, 529])
def test_1_18_34_retry_409_and_every_status_from_500_on(status: int) -> None:
    result = play(failing(status), DONE)
    assert ended(result) == (Outcome.COMPLETED, 2, [2])


@pytest.mark.parametrize("status", [429, 500])
def test_1_18_34_retry_insufficient_quota_like_any_other_code(status: int) -> None:
    quota = Reply(http=Http(status=status, code="insufficient_quota"))
    assert ended(play(quota, DONE)) == (Outcome.COMPLETED, 2, [2])


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_1_18_34_fail_on_the_other_statuses(status: int) -> None:
    result = play(failing(status))
    assert ended(result) == (Outcome.FAILED, 1, [])
    assert "APIError" in events(result)


def test_1_18_34_wait_32_s_after_the_fifth_answer_and_30_s_without_one() -> None:
    assert play(failing(500, 5), DONE).backoffs_s == [2, 4, 8, 16, 32]
    lost = Reply(lost="before-headers", times=5)
    assert play(lost, DONE).backoffs_s == [2, 4, 8, 16, 30]


@pytest.mark.parametrize(
    "text", ["15000 tokens", "overloaded", "Please try again later.", "ECONNRESET", "timeout"]
)
def test_1_18_34_retries_a_401_whose_words_say_that_it_may_pass(text: str) -> None:
    odd = Reply(http=Http(status=401, message=text))
    assert ended(play(odd, DONE)) == (Outcome.COMPLETED, 2, [2])


def test_1_18_34_retries_a_401_whose_body_says_server_error() -> None:
    body = {"error": {"type": "server_error", "message": "no key"}}
    odd = Reply(http=Http(status=401, body=body))
    assert ended(play(odd, DONE)) == (Outcome.COMPLETED, 2, [2])


# Overflows


TOO_BIG = Reply(http=Http(status=413, message="no words of it"))
MADE_ROOM = Context(over=[False], shrunk=[True])


def test_1_18_34_a_413_without_overflow_words_is_compacted() -> None:
    result = play(TOO_BIG, DONE, context=MADE_ROOM)
    assert ended(result) == (Outcome.COMPLETED, 2, [])
    assert counters_of(result).compaction_attempts == 1


CODE = "context_length_exceeded"
AS_TYPE = Reply(http=Http(status=400, body={"error": {"type": CODE, "message": "no"}}))
AS_CODE = Reply(http=Http(status=400, body={"error": {"code": CODE, "message": "no"}}))
AS_BOTH = Reply(http=Http(status=400, body={"error": {"code": CODE, "type": "x", "message": "no"}}))
AS_FRAME = Reply(error=StreamFault(message="no", code=CODE))


@pytest.mark.parametrize("reply", [AS_CODE, AS_BOTH], ids=["code", "code-and-type"])
def test_1_18_34_compacts_after_an_http_error_that_is_an_overflow_by_its_code(
    reply: Reply,
) -> None:
    result = play(reply, DONE, context=MADE_ROOM)
    assert ended(result) == (Outcome.COMPLETED, 2, [])
    assert counters_of(result).compaction_attempts == 1


@pytest.mark.parametrize(
    ("reply", "error"), [(AS_TYPE, "APIError"), (AS_FRAME, "UnknownError")], ids=["type", "frame"]
)
def test_1_18_34_every_other_overflow_that_is_known_only_by_a_code_fails(
    reply: Reply, error: str
) -> None:
    result = play(reply)
    assert ended(result) == (Outcome.FAILED, 1, [])
    assert error in events(result)


# Error frames


OVERLOADED = Reply(say="Half a", error=StreamFault(message="Overloaded", code="overloaded_error"))


def test_1_18_34_retries_an_error_frame_whose_message_says_that_it_may_pass() -> None:
    assert ended(play(OVERLOADED, DONE)) == (Outcome.COMPLETED, 2, [2])
    hopeless = Reply(say="Half a", error=StreamFault(message="no"))
    assert ended(play(hopeless)) == (Outcome.FAILED, 1, [])


@pytest.mark.parametrize(
    ("code", "again"),
    [
        ("overloaded_error", True),
        ("server_error", True),
        ("internal_error", True),
        ("rate_limit_error", True),
        ("rate_limit_exceeded", True),
        ("too_many_requests", True),
        ("service_unavailable", True),
        ("timeout", False),
        ("insufficient_quota", False),
    ],
)
def test_1_18_34_judges_an_error_frame_by_its_code_and_type_too(code: str, again: bool) -> None:  # noqa: FBT001
    frame = Reply(say="Half a", error=StreamFault(message="no", code=code))
    expected = (Outcome.COMPLETED, 2, [2]) if again else (Outcome.FAILED, 1, [])
    assert ended(play(frame, *[DONE] * again)) == expected


# Events of a run that fails


def test_1_18_34_a_failed_run_emits_its_error() -> None:
    assert events(play(failing(401))) == ["APIError"]
    assert events(play(CALL, abort=Trigger(at="0.5s"))) == ["MessageAbortedError"]
    assert events(play(Reply(say="Half", finish="content_filter"))) == ["ContentFilterError"]


def test_1_18_34_an_abort_in_the_wait_emits_no_error() -> None:
    result = play(failing(500), abort=Trigger(at="0.5s"))
    assert events(result) == ["retry"]

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


def test_1_18_34_retries_a_401_whose_body_says_server_error() -> None:
    body = {"error": {"type": "server_error", "message": "no key"}}
    odd = Reply(http=Http(status=401, body=body))
    assert ended(play(odd, DONE)) == (Outcome.COMPLETED, 2, [2])


CODE = "context_length_exceeded"
MADE_ROOM = Context(over=[False], shrunk=[True])


@pytest.mark.parametrize(
    "http",
    [
        Http(status=413, message="no words of it"),
        Http(status=400, body={"error": {"code": CODE, "message": "no"}}),
    ],
    ids=["413", "code"],
)
def test_1_18_34_compacts_after_an_overflow_without_words_of_one(http: Http) -> None:
    result = play(Reply(http=http), DONE, context=MADE_ROOM)
    assert ended(result) == (Outcome.COMPLETED, 2, [])
    assert counters_of(result).compaction_attempts == 1


def test_1_18_34_retries_an_error_frame_whose_words_say_that_it_may_pass() -> None:
    frame = StreamFault(message="Overloaded", code="overloaded_error")
    assert ended(play(Reply(say="Half a", error=frame), DONE)) == (Outcome.COMPLETED, 2, [2])
    hopeless = Reply(say="Half a", error=StreamFault(message="no"))
    assert ended(play(hopeless)) == (Outcome.FAILED, 1, [])


# Events of a run that fails


def test_1_18_34_a_failed_run_emits_its_error() -> None:
    assert events(play(failing(401))) == ["APIError"]
    assert events(play(CALL, abort=Trigger(at="0.5s"))) == ["MessageAbortedError"]
    assert events(play(Reply(say="Half", finish="content_filter"))) == ["ContentFilterError"]


def test_1_18_34_an_abort_in_the_wait_emits_no_error() -> None:
    result = play(failing(500), abort=Trigger(at="0.5s"))
    assert events(result) == ["retry"]

"""What was observed of the published opencode 1.18.34: requests, time and outcome."""

from typing import Any

import pytest
from builders import counters_of
from test_opencode_runs import DONE, go

from simloop import Http, Outcome, Reply, Result
from simloop.scenario.replies import StreamFault
from simloop.scenario.schema import Context

VERSION = "opencode@1.18.34"


def play(*model: Reply, **more: Any) -> Result:
    return go(*model, loop=VERSION, **more)


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

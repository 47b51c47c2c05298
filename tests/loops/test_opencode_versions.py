"""What was observed of the published versions of opencode: requests, events, time and outcome.

The name of a test says the version; `no_version`, `all_versions` and `up_to_1_2_27` say several.
"""

from typing import Any

import pytest
from counted import counters_of
from test_opencode import CALL, DONE, failing, go

from simloop import Http, Outcome, Reply, Result, Scenario, ScriptedTool
from simloop.loops.opencode import GO_ON
from simloop.loops.opencode_options import VERSIONS
from simloop.messages import AssistantMessage, Message, ToolMessage, UserMessage
from simloop.runs.conversation import event_view
from simloop.scenario.replies import StreamFault
from simloop.scenario.schema import Context, Trigger
from simloop.trace.exports.event import Event
from simloop.trace.exports.opencode_events import SessionErrorEvent, StatusEvent

ALL = pytest.mark.parametrize("version", VERSIONS)
UP_TO_1_2_27 = pytest.mark.parametrize("version", ["1.1.11", "1.2.27"])
SINCE_1_2_27 = pytest.mark.parametrize("version", ["1.2.27", "1.18.33"])


def play(version: str, *model: Reply, **more: Any) -> Result:
    return go(*model, loop=f"opencode@{version}", **more)


def sent(result: Result) -> list[list[str]]:
    """Each main request as one line for a message."""
    mains = [request for request in result.requests if request.purpose == "main"]
    return [[line_of(message) for message in request.messages] for request in mains]


def line_of(message: Message) -> str:
    match message:
        case AssistantMessage(text=text, calls=calls):
            return " ".join(["assistant", *filter(None, [text]), *(call.name for call in calls)])
        case ToolMessage(text=text):
            return f"tool {text}"
        case UserMessage(text=text):
            return f"user {text}"
        case _:
            return type(message).__name__


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


# Replies that are in no later request


@ALL
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_no_version_sends_an_empty_reply_in_a_later_request(version: str, finish: str) -> None:
    result = play(version, Reply(finish=finish), DONE, then=["Again."])
    assert sent(result) == [["user Go."], ["user Go.", "user Again."]]


def test_1_18_33_sends_no_filtered_reply_with_its_calls_and_results_in_a_later_request() -> None:
    filtered = Reply(say="The secret", call={"t": {}}, finish="content_filter")
    result = play("1.18.33", filtered, DONE, then=["Again."])
    assert result.outcomes == (Outcome.CONTENT_FILTERED, Outcome.COMPLETED)
    assert len(result.calls) == 1, "the call did run"
    assert sent(result) == [["user Go."], ["user Go.", "user Again."]]


@UP_TO_1_2_27
def test_up_to_1_2_27_a_filtered_reply_is_sent_again_as_any_other(version: str) -> None:
    result = play(version, Reply(say="Half", finish="content_filter"), DONE, then=["Again."])
    assert sent(result)[1] == ["user Go.", "assistant Half", "user Again."]


# Finish words and tool names


@ALL
@pytest.mark.parametrize("word", ["STOP", "max_tokens", "error"])
def test_all_versions_ask_again_after_a_finish_word_that_their_provider_does_not_have(
    version: str, word: str
) -> None:
    result = play(version, Reply(say="Half", finish=word), DONE)
    assert ended(result) == (Outcome.COMPLETED, 2, [])
    assert sent(result)[1] == ["user Go.", "assistant Half"]


@ALL
@pytest.mark.parametrize("word", ["stop", "length"])
def test_all_versions_end_after_a_finish_word_that_their_provider_has(
    version: str, word: str
) -> None:
    assert ended(play(version, Reply(say="Half", finish=word))) == (Outcome.COMPLETED, 1, [])


LOST_BY_PROVIDER = Reply(say="Half", finish="network_error")


def test_1_18_33_retries_network_error_inside_the_same_message() -> None:
    result = play("1.18.33", LOST_BY_PROVIDER, CALL, DONE)
    assert ended(result) == (Outcome.COMPLETED, 3, [2])
    assert sent(result) == [
        ["user Go."],
        ["user Go."],
        ["user Go.", "assistant Half", "assistant t", "tool ok"],
    ]


@UP_TO_1_2_27
def test_up_to_1_2_27_network_error_is_an_unknown_finish(version: str) -> None:
    result = play(version, LOST_BY_PROVIDER, DONE)
    assert ended(result) == (Outcome.COMPLETED, 2, [])
    assert sent(result)[1] == ["user Go.", "assistant Half"]


@ALL
def test_all_versions_find_a_tool_by_its_name_in_lower_case(version: str) -> None:
    result = play(version, Reply(call={"T": {}}), DONE)
    assert sent(result)[1] == ["user Go.", "assistant t", "tool ok"]
    assert [call.name for call in result.calls] == ["t"]


@ALL
def test_all_versions_prefer_a_tool_of_the_very_name(version: str) -> None:
    tools = {"t": ScriptedTool(returns="lower"), "T": ScriptedTool(returns="upper")}
    result = play(version, Reply(call={"T": {}}), DONE, tools=tools)
    assert sent(result)[1] == ["user Go.", "assistant T", "tool upper"]


def test_the_documents_loop_knows_every_providers_words_and_no_other_names() -> None:
    assert go(Reply(say="Half", finish="STOP")).outcome is Outcome.COMPLETED
    assert go(Reply(call={"T": {}}), DONE).calls == []


# Streams that break off


BROKEN = Reply(say="Half a", lost="mid-output")


@pytest.mark.parametrize(
    ("version", "left"),
    [("1.1.11", "assistant Half a"), ("1.2.27", "assistant"), ("1.18.33", "assistant")],
)
def test_up_to_1_1_11_a_broken_stream_leaves_its_text_and_since_1_2_27_an_empty_message(
    version: str, left: str
) -> None:
    result = play(version, BROKEN, CALL, DONE)
    assert ended(result) == (Outcome.COMPLETED, 3, [2])
    assert sent(result) == [
        ["user Go."],
        ["user Go."],
        ["user Go.", left, "assistant t", "tool ok"],
    ]


@ALL
def test_no_version_sends_a_broken_stream_without_output_in_a_later_request(version: str) -> None:
    result = play(version, Reply(lost="after-headers"), CALL, DONE)
    assert sent(result)[-1] == ["user Go.", "assistant t", "tool ok"]


@ALL
def test_no_version_keeps_a_broken_stream_of_a_run_that_fails(version: str) -> None:
    result = play(version, BROKEN, failing(401), DONE, then=["Again."])
    assert sent(result)[-1] == ["user Go.", "user Again."]


BROKEN_CALL = Reply(call={"t": {}}, lost="mid-output")


def test_1_18_33_asks_once_more_after_a_broken_stream_with_a_call_and_a_stop() -> None:
    result = play("1.18.33", BROKEN_CALL, Reply(say="Done."), Reply(say="Really."))
    assert (result.outcome, len(result.calls)) == (Outcome.COMPLETED, 1)
    assert sent(result) == [
        ["user Go."],
        ["user Go."],
        ["user Go.", "assistant t", "tool ok", "assistant Done."],
    ]


@UP_TO_1_2_27
def test_up_to_1_2_27_a_broken_stream_with_a_call_and_a_stop_is_the_end(version: str) -> None:
    result = play(version, BROKEN_CALL, DONE, DONE, then=["Again."])
    assert sent(result)[-1] == [
        "user Go.",
        "assistant t",
        "tool ok",
        "assistant Done.",
        "user Again.",
    ]


# What an overflow leaves


TOO_LONG = Reply(http=Http(status=400, message="prompt is too long"))
SUMMARY = [Reply(say="A summary that is longer than the prompt.")]
MARKER_AND_SUMMARY = ["user What did we do so far?", f"assistant {SUMMARY[0].say}"]


@SINCE_1_2_27
def test_since_1_2_27_an_overflow_summarises_even_a_single_message(version: str) -> None:
    result = play(version, TOO_LONG, DONE, summaries=SUMMARY)
    assert ended(result) == (Outcome.COMPLETED, 3, [])
    assert sent(result) == [["user Go."], [*MARKER_AND_SUMMARY, f"user {GO_ON}"]]


@SINCE_1_2_27
def test_since_1_2_27_an_overflow_replays_the_newest_prompt_after_the_summary(
    version: str,
) -> None:
    result = play(version, DONE, CALL, TOO_LONG, DONE, then=["Again."], summaries=SUMMARY)
    assert sent(result)[-1] == [*MARKER_AND_SUMMARY, "user Again."]
    (summary,) = (request for request in result.requests if request.purpose == "summary")
    assert [line_of(message) for message in summary.messages[:-1]] == [
        "user Go.",
        "assistant Done.",
    ]


@SINCE_1_2_27
def test_since_1_2_27_a_second_overflow_does_not_replay_the_marker(version: str) -> None:
    result = play(version, TOO_LONG, TOO_LONG, DONE, summaries=[*SUMMARY, Reply(say="Shorter.")])
    assert sent(result)[-1] == [MARKER_AND_SUMMARY[0], "assistant Shorter.", f"user {GO_ON}"]


@SINCE_1_2_27
def test_a_summary_that_fails_after_an_overflow_gives_way_to_dropping_the_oldest(
    version: str,
) -> None:
    """The real versions stop here; the docstring of the loop lists it."""
    result = play(version, DONE, TOO_LONG, DONE, then=["Again."], summaries=[failing(500)])
    assert sent(result)[-1] == ["user Again.", f"user {GO_ON}"]

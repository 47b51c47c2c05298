"""What was observed of the published opencode 1.18.34: requests, events, time and outcome."""

from typing import Any

import pytest
from builders import counters_of
from test_opencode_runs import CALL, DONE, failing, go

from simloop import Http, Outcome, Reply, Result, ScriptedTool
from simloop.loops.opencode import GO_ON
from simloop.messages import AssistantMessage, Message, ToolMessage, UserMessage
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


# Requests


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


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_1_18_34_sends_no_empty_reply_in_a_later_request(finish: str) -> None:
    result = play(Reply(finish=finish), DONE, then=["Again."])
    assert sent(result) == [["user Go."], ["user Go.", "user Again."]]


def test_1_18_34_sends_a_reply_with_reasoning_alone_back_as_an_empty_message() -> None:
    result = play(Reply(think="Hm.", finish="stop"), DONE, then=["Again."])
    assert sent(result) == [["user Go."], ["user Go.", "assistant", "user Again."]]


def test_1_18_34_sends_no_filtered_reasoning_back() -> None:
    result = play(Reply(think="Hm.", finish="content_filter"), DONE, then=["Again."])
    assert sent(result)[1] == ["user Go.", "user Again."]


def test_the_documents_loop_sends_no_reply_with_reasoning_alone_back() -> None:
    result = go(Reply(think="Hm.", finish="stop"), DONE, then=["Again."])
    assert sent(result)[1] == ["user Go.", "user Again."]


def test_1_18_34_sends_no_filtered_reply_with_its_calls_and_results_in_a_later_request() -> None:
    filtered = Reply(say="The secret", call={"t": {}}, finish="content_filter")
    result = play(filtered, DONE, then=["Again."])
    assert result.outcomes == (Outcome.CONTENT_FILTERED, Outcome.COMPLETED)
    assert len(result.calls) == 1, "the call did run"
    assert sent(result) == [["user Go."], ["user Go.", "user Again."]]


@pytest.mark.parametrize("word", ["STOP", "max_tokens", "error"])
def test_1_18_34_ask_again_after_a_finish_word_that_their_provider_does_not_have(word: str) -> None:
    result = play(Reply(say="Half", finish=word), DONE)
    assert ended(result) == (Outcome.COMPLETED, 2, [])
    assert sent(result)[1] == ["user Go.", "assistant Half"]


@pytest.mark.parametrize("word", ["stop", "length"])
def test_1_18_34_end_after_a_finish_word_that_their_provider_has(word: str) -> None:
    assert ended(play(Reply(say="Half", finish=word))) == (Outcome.COMPLETED, 1, [])


LOST_BY_PROVIDER = Reply(say="Half", finish="network_error")


def test_1_18_34_retries_network_error_inside_the_same_message() -> None:
    result = play(LOST_BY_PROVIDER, CALL, DONE)
    assert ended(result) == (Outcome.COMPLETED, 3, [2])
    assert sent(result) == [
        ["user Go."],
        ["user Go."],
        ["user Go.", "assistant Half", "assistant t", "tool ok"],
    ]


def test_1_18_34_find_a_tool_by_its_name_in_lower_case() -> None:
    result = play(Reply(call={"T": {}}), DONE)
    assert sent(result)[1] == ["user Go.", "assistant t", "tool ok"]
    assert [call.name for call in result.calls] == ["t"]


def test_1_18_34_prefer_a_tool_of_the_very_name() -> None:
    tools = {"t": ScriptedTool(returns="lower"), "T": ScriptedTool(returns="upper")}
    result = play(Reply(call={"T": {}}), DONE, tools=tools)
    assert sent(result)[1] == ["user Go.", "assistant T", "tool upper"]


def test_the_documents_loop_knows_every_providers_words_and_no_other_names() -> None:
    assert go(Reply(say="Half", finish="STOP")).outcome is Outcome.COMPLETED
    assert go(Reply(call={"T": {}}), DONE).calls == []


BROKEN = Reply(say="Half a", lost="mid-output")


def test_1_18_34_a_broken_stream_leaves_an_empty_message() -> None:
    result = play(BROKEN, CALL, DONE)
    assert ended(result) == (Outcome.COMPLETED, 3, [2])
    assert sent(result) == [
        ["user Go."],
        ["user Go."],
        ["user Go.", "assistant", "assistant t", "tool ok"],
    ]


def test_1_18_34_sends_no_broken_stream_without_output_in_a_later_request() -> None:
    result = play(Reply(lost="after-headers"), CALL, DONE)
    assert sent(result)[-1] == ["user Go.", "assistant t", "tool ok"]


def test_1_18_34_keeps_no_broken_stream_of_a_run_that_fails() -> None:
    result = play(BROKEN, failing(401), DONE, then=["Again."])
    assert sent(result)[-1] == ["user Go.", "user Again."]


BROKEN_CALL = Reply(call={"t": {}}, lost="mid-output")


def test_1_18_34_asks_once_more_after_a_broken_stream_with_a_call_and_a_stop() -> None:
    result = play(BROKEN_CALL, Reply(say="Done."), Reply(say="Really."))
    assert (result.outcome, len(result.calls)) == (Outcome.COMPLETED, 1)
    assert sent(result) == [
        ["user Go."],
        ["user Go."],
        ["user Go.", "assistant t", "tool ok", "assistant Done."],
    ]


TOO_LONG = Reply(http=Http(status=400, message="prompt is too long"))


SUMMARY = [Reply(say="A summary that is longer than the prompt.")]


MARKER_AND_SUMMARY = ["user What did we do so far?", f"assistant {SUMMARY[0].say}"]


def test_1_18_34_an_overflow_summarises_even_a_single_message() -> None:
    result = play(TOO_LONG, DONE, summaries=SUMMARY)
    assert ended(result) == (Outcome.COMPLETED, 3, [])
    assert sent(result) == [["user Go."], [*MARKER_AND_SUMMARY, f"user {GO_ON}"]]


def test_1_18_34_an_overflow_replays_the_newest_prompt_after_the_summary() -> None:
    result = play(DONE, CALL, TOO_LONG, DONE, then=["Again."], summaries=SUMMARY)
    assert sent(result)[-1] == [*MARKER_AND_SUMMARY, "user Again."]
    (summary,) = (request for request in result.requests if request.purpose == "summary")
    assert [line_of(message) for message in summary.messages[:-1]] == [
        "user Go.",
        "assistant Done.",
    ]


def test_1_18_34_a_second_overflow_does_not_replay_the_marker() -> None:
    result = play(TOO_LONG, TOO_LONG, DONE, summaries=[*SUMMARY, Reply(say="Shorter.")])
    assert sent(result)[-1] == [MARKER_AND_SUMMARY[0], "assistant Shorter.", f"user {GO_ON}"]


def test_a_summary_that_fails_after_an_overflow_gives_way_to_dropping_the_oldest() -> None:
    """The real program stops here; the docstring of the loop lists it."""
    result = play(DONE, TOO_LONG, DONE, then=["Again."], summaries=[failing(500)])
    assert sent(result)[-1] == ["user Again.", f"user {GO_ON}"]

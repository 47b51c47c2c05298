from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from simloop.kernel.durations import format_duration
from simloop.kernel.retry import retry_after_ns
from simloop.messages import (
    AssistantMessage,
    Fault,
    Finish,
    FinishReason,
    HeadersSent,
    Message,
    Part,
    Request,
    StreamError,
    SummaryMessage,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    ToolMessage,
    Unreachable,
    Usage,
    UserMessage,
)
from simloop.scenario.replies import Http, Reply, When

MS = 1_000_000


def reply_of(**fields: Any) -> Reply:
    return Reply.model_validate(fields)


def parts_of(first_call: int = 1, **fields: Any) -> list[Part | Exception | None]:
    return [part for _, part in reply_of(**fields).play(first_call)]


def calls_of(first_call: int = 1, **fields: Any) -> list[ToolCall]:
    parts = parts_of(first_call, **fields)
    return [part.call for part in parts if isinstance(part, ToolCallPart)]


def refusal_of(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        reply_of(**fields)
    return str(caught.value.errors()[0]["msg"])


@given(st.text())
def test_the_words_of_a_text_make_the_text_again(text: str) -> None:
    parts = parts_of(say=text, finish="stop")
    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == text


@pytest.mark.parametrize(
    ("given_arguments", "sent"),
    [
        ({}, "{}"),
        (None, "{}"),
        ({"b": 1, "a": "ü"}, '{"a":"ü","b":1}'),
        ('{"path": "READ', '{"path": "READ'),
        ("", ""),
        ([1], "[1]"),
        ([], "[]"),
        (0, "0"),
        (False, "false"),
    ],
    ids=repr,
)
def test_arguments_are_sent_as_canonical_json_and_text_as_it_stands(
    given_arguments: Any, sent: str
) -> None:
    assert [call.arguments for call in calls_of(call={"tool": given_arguments})] == [sent]


@pytest.mark.parametrize(
    ("fields", "finish"),
    [
        ({"say": "x"}, Finish(FinishReason.STOP, "stop")),
        ({"call": {"a": {}}}, Finish(FinishReason.TOOL_CALLS, "tool-calls")),
        ({"call": {"a": {}}, "finish": "stop"}, Finish(FinishReason.STOP, "stop")),
        ({"finish": "length"}, Finish(FinishReason.LENGTH, "length")),
        ({"finish": "weird_reason"}, Finish(FinishReason.OTHER, "weird_reason")),
        ({"finish": ""}, Finish(FinishReason.OTHER, "")),
        (
            {"say": "x", "usage": {"input": 3, "output": 1}, "steps": 4},
            Finish(FinishReason.STOP, "stop", Usage(3, 1), 4),
        ),
    ],
    ids=["text", "calls", "calls-and-stop", "length", "unknown", "empty-word", "usage-and-steps"],
)
def test_a_reply_finishes_as_it_says_or_as_its_parts_suggest(
    fields: dict[str, Any], finish: Finish
) -> None:
    assert parts_of(**fields)[-1] == finish


@pytest.mark.parametrize(
    ("fields", "ending"),
    [
        ({"http": {"status": 429}}, [StreamError(Fault("429 Too Many Requests", status=429))]),
        ({"http": {"status": 418, "code": "x"}}, [StreamError(Fault("418 Error", 418, "x"))]),
        ({"lost": "before-connect"}, [Unreachable(), StreamError(Fault("connection refused", code="connection"))]),  # noqa: E501
        ({"lost": "before-headers"}, [StreamError(Fault("connection lost before headers", code="connection"))]),  # noqa: E501
        ({"lost": "after-headers"}, [HeadersSent(), StreamError(Fault("connection lost after headers", code="connection"))]),  # noqa: E501
        ({"say": "x", "lost": "mid-output"}, [TextDelta("x"), StreamError(Fault("connection lost mid output", code="connection"))]),  # noqa: E501
        ({"error": {"message": "m", "code": "c"}}, [StreamError(Fault("m", code="c"))]),
        ({"say": "x", "error": {"message": "m"}}, [TextDelta("x"), StreamError(Fault("m"))]),
        ({"stall": "before-connect"}, [Unreachable(), None]),
        ({"stall": "after-headers"}, [HeadersSent(), None]),
        ({"say": "x", "stall": "mid-output"}, [TextDelta("x"), None]),
        ({"say": "x", "unfinished": True}, [TextDelta("x")]),
        ({"unfinished": True}, []),
    ],
    ids=[
        *("status", "strange-status", "refused", "lost-before", "lost-after", "lost-mid"),
        *("error-first", "error-mid", "unreachable", "stall", "stall-mid", "unfinished"),
        "nothing-at-all",
    ],
)  # fmt: skip
def test_a_reply_that_fails_ends_in_its_own_way(
    fields: dict[str, Any], ending: list[Part | None]
) -> None:
    assert parts_of(**fields) == ending


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (None, None),
        ("", ""),
        ("<h1>Bad</h1>", "<h1>Bad</h1>"),
        ({"error": {"message": "é", "a": 1}}, '{"error":{"message":"é","a":1}}'),
        ({"error": "a\ud800"}, '{"error":"a\ud800"}'),
    ],
    ids=["none", "empty", "page", "json", "surrogate"],
)
def test_a_body_is_sent_as_the_script_has_it(body: Any, sent: str | None) -> None:
    ((_, part),) = Reply(http=Http(status=400, body=body)).play(1)
    assert isinstance(part, StreamError)
    assert part.body == sent


@given(st.integers(1, 120 * 10**9))
def test_retry_after_asks_for_exactly_the_time_that_is_written(nanoseconds: int) -> None:
    reply = reply_of(http={"status": 429, "retry_after": format_duration(nanoseconds)})
    assert reply.http is not None
    assert retry_after_ns(reply.http.fault(), 0) == nanoseconds


def test_each_part_waits_for_its_turn_and_text_for_its_tokens() -> None:
    pace = {"first_part": "10ms", "per_part": "3ms", "per_token": "1ms"}
    timed = reply_of(say=["eightlet", "four"], call={"a": {}}, pace=pace).play(1)
    assert [delay for delay, _ in timed] == [12 * MS, 4 * MS, 3 * MS, 3 * MS]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "a reply says, calls or fails; for an empty one write finish: stop"),
        ({"say": "x", "finish": "stop", "lost": "mid-output"}, "in one way, not in several"),
        ({"http": {"status": 500}, "unfinished": True}, "not in several: http, unfinished"),
        ({"say": "x", "http": {"status": 500}}, "split it in two entries"),
        ({"say": "x", "lost": "before-headers"}, "before-headers has no output before it"),
        ({"say": "x", "stall": "before-connect"}, "before-connect has no output before it"),
        ({"stall": "mid-output"}, "mid-output needs some output before it"),
        ({"call": {"a": {}}, "ids": ["x", "y"]}, "2 ids for 1 call"),
        ({"http": {"status": 500}, "steps": 3}, "only a reply that finishes reports steps"),
        ({"say": "x", "unfinished": True, "usage": {"input": 1}}, "finishes reports usage"),
        ({"say": "x", "finish": "interrupted"}, "write unfinished: true"),
    ],
    ids=[
        *("nothing", "finish-and-lost", "http-and-unfinished", "text-and-http", "output-too-early"),
        *("output-unreachable", "no-output", "ids", "steps-of-a-failure"),
        *("usage-without-finish", "interrupted"),
    ],
)
def test_a_reply_that_contradicts_itself_is_refused(fields: dict[str, Any], says: str) -> None:
    assert says in refusal_of(**fields)


def request_ending_with(newest: Message) -> Request:
    return Request(1, "main", "", (UserMessage("first"), newest), ())


@pytest.mark.parametrize(
    ("when", "newest", "fits"),
    [
        ({"role": "tool"}, ToolMessage("call-1", "x"), True),
        ({"role": "user"}, ToolMessage("call-1", "x"), False),
        ({"role": "user"}, UserMessage("x"), True),
        ({"role": "assistant"}, AssistantMessage("x"), True),
        ({"role": "summary"}, SummaryMessage("x"), True),
        ({"contains": "ell"}, UserMessage("hello"), True),
        ({"contains": "first"}, UserMessage("hello"), False),
        ({"role": "tool", "contains": "ell"}, UserMessage("hello"), False),
        ({}, UserMessage("hello"), True),
        ({"tools": []}, UserMessage("hello"), True),
        ({"tools": ["look"]}, UserMessage("hello"), False),
    ],
    ids=[
        *("tool", "not-user", "user", "assistant", "summary", "contains", "older-text"),
        *("both", "nothing-asked", "no-tools", "a-tool"),
    ],
)
def test_a_rule_fits_if_all_of_it_holds_of_the_newest_message(
    when: dict[str, Any], newest: Message, *, fits: bool
) -> None:
    assert When.model_validate(when).matches(request_ending_with(newest)) is fits


@pytest.mark.parametrize(
    ("fields", "times"),
    [
        ({"say": "x"}, 1),
        ({"say": "x", "times": 3}, 3),
        ({"say": "x", "times": "always"}, None),
        ({"say": "x", "when": {}}, None),
        ({"say": "x", "when": {}, "times": 2}, 2),
    ],
    ids=["once", "three", "always", "rule", "bounded-rule"],
)
def test_a_reply_is_used_once_and_a_rule_always_unless_it_says_so(
    fields: dict[str, Any], times: int | None
) -> None:
    entry = reply_of(**fields).entry("model.4")
    assert (entry.times, entry.position) == (times, "model.4")


@pytest.mark.parametrize(("ids", "order"), [(["a", "b"], [0, 1, 0, 1]), (["a", "a"], [0, 0, 1, 1])])
def test_pieces_in_turn_are_told_apart_by_the_ids_of_their_calls(
    ids: list[str], order: list[int]
) -> None:
    calls = [{"read": {"n": 1}}, {"find": {"n": 2}}]
    parts = parts_of(call=calls, ids=ids, fragments=2, interleave=True)
    pieces = [part.name for part in parts if isinstance(part, ToolCallDelta)]
    assert pieces == [("read", "find")[each] for each in order]

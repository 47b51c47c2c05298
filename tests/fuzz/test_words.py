"""The world of a scenario in one line."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop import Program, Reply, Route, Scenario
from simloop.cli.fuzz import Sums, report_lines
from simloop.fuzz.executor import RangeResult, SearchFinding, SearchSettings
from simloop.fuzz.search import Group
from simloop.fuzz.words import world_in_words

LAST = Reply(say="Done.", times="always")


def words(*replies: Any, **keys: Any) -> str:
    return world_in_words(Scenario(prompt="Go.", model=[*replies, LAST], **keys))


def replied(**keys: Any) -> str:
    return words(Reply(**keys))


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"http": {"status": 503}}, "the provider answers 503"),
        ({"http": {"status": 503, "retry_after": "4s"}},
         "the provider answers 503 with Retry-After 4s"),
        ({"http": {"status": 429, "headers": {"retry-after-ms": "700"}}, "times": 3},
         "the provider answers 429 with retry-after-ms 700 3 times"),
        ({"http": {"status": 400, "message": "prompt is too long"}},
         "the provider answers 400 (prompt is too long)"),
        ({"http": {"status": 500}, "times": "always"}, "the provider answers 500 each time"),
        ({"lost": "before-headers"}, "the connection is lost before an answer"),
        ({"say": "Some", "lost": "mid-output"},
         "the model says a text and the connection is lost amid the reply"),
        ({"stall": "after-headers"}, "nothing more comes after the headers"),
        ({"call": {"find": {"id": 1}}}, 'the model calls find({"id":1})'),
        ({"call": [{"a": {}}, {"b": {}}]}, "the model calls a({}), b({})"),
        ({"call": [{name: {}} for name in "abcdef"]},
         "the model calls a({}), b({}), c({}), d({}) and 2 more"),
        ({"say": "many words " * 200, "call": {"a": {}}},
         "the model says 2,200 characters and calls a({})"),
        ({"say": "many words " * 200}, "the model says 2,200 characters"),
        ({"when": {"tools": []}, "http": {"status": 500}, "times": "always"},
         "to requests without tools the provider answers 500 each time"),
        ({"call": {"find": "[1]"}},
         "the model calls find with the arguments '[1]', which are no JSON object"),
        ({"half_call": {"find": '{"i'}, "finish": "length"},
         "the model calls find with half of its arguments and the reply ends with `length`"),
        ({"say": " "}, "the model says only blanks"),
        ({"say": '{"total": null}'}, 'the model says {"total": null}'),
        ({"think": "Hm.", "finish": "stop"},
         "the model only thinks and the reply ends with `stop`"),
        ({"say": "Late.", "pace": {"first_part": "20s"}}, "the model says a text after 20s"),
        ({"say": "Slow.", "pace": {"per_part": "15s"}}, "the model says a text, 15s a part"),
        ({"say": "a", "unfinished": True},
         "the model says a text and the stream ends without a finish reason"),
        ({"raises": "broken"}, "the client's code raises an exception"),
    ],
)  # fmt: skip
def test_a_reply_in_words(keys: dict[str, Any], line: str) -> None:
    assert replied(**keys) == line


def test_replies_come_in_their_order_and_the_last_answer_is_not_told() -> None:
    line = words(Reply(http={"status": 500}), Reply(call={"find": {}}), Reply(say="Found."))
    assert (
        line
        == "the provider answers 500, then the model calls find({}), then the model says a text"
    )
    assert words() == ""


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"tools": {"look": {"takes": "20s"}}}, "look takes 20s"),
        ({"tools": {"look": {"raises": "x", "takes": "30s"}, "act": {"cancels": True}}},
         "look takes 30s and fails; act is cancelled by itself"),
        ({"tools": {"look": {"hangs": True, "timeout": "1s"}}}, "look never returns"),
        ({"tools": {"look": {"returns_chars": 60_000}}}, "look returns 60,000 characters"),
        ({"tools": {"look": {"returns": "seen"}}}, ""),
        ({"services": {"https://a.example": [Route(get="/x", status=503)]}},
         "https://a.example answers 503"),
        ({"services": {"https://a.example": [Route(get="/x", takes="20s")]}},
         "https://a.example takes 20s"),
        ({"programs": {"git": Program(exit=1), "make": [Program(), Program(signal="SIGKILL")]}},
         "git exits with 1; make dies by SIGKILL"),
        ({"programs": {"sh": "files"}, "files": {}}, ""),
        ({"abort": {"after": "tool-started", "nth": 2}, "then": ["And then?"]},
         "the user stops the run after the entry tool-started 2; the user asks again: And then?"),
        ({"abort": {"at": "5s"}}, "the user stops the run after 5s"),
        ({"input": ["n", {"say": "y", "after": "2h"}, {"say": "y", "times": "always"}]},
         "the user types 'n'; the user types 'y' after 7200s"),
        ({"input": []}, "the user types nothing"),
        ({"queue": [{"say": "Wait.", "after": "request"}]},
         "the user sends a message after the entry request"),
    ],
)  # fmt: skip
def test_the_other_parties_in_words(keys: dict[str, Any], line: str) -> None:
    assert words(**keys) == line


def test_the_words_of_a_party_of_its_own_name_it() -> None:
    models = {"small": {"when": {"model": "small"}, "replies": [Reply(http={"status": 500}), LAST]}}
    assert words(models=models) == "for small: the provider answers 500"


HOSTILE = "\x1b[2J\nfile: gone\u202e[b]" * 50


def test_a_line_has_a_bounded_length() -> None:
    many = [Reply(call={f"tool-{n}": {"text": HOSTILE}}) for n in range(30)]
    assert len(words(*many)) == 403
    assert len(replied(http={"status": 400, "message": "x" * 10_000})) < 100
    assert len(replied(call={"find": {"text": "x" * 10_000}})) < 100


@given(st.text(min_size=1, max_size=30))
def test_no_text_is_an_error(text: str) -> None:
    line = words(Reply(say=text), Reply(call={"t": {"a": text}}), Reply(call={"t": text}),
                 Reply(http={"status": 400, "message": text}), then=[text])  # fmt: skip
    assert len(line) <= 403


def test_hostile_text_is_escaped_in_the_report_and_keeps_to_its_line() -> None:
    world = words(Reply(call={"t\x1b[2J": {}}), then=[HOSTILE])
    assert "\x1b" in world
    finding = SearchFinding(
        "rule", HOSTILE, "It holds.", 3, reproduced=True, scenario="", shown=HOSTILE, world=world
    )
    sums = Sums(SearchSettings("react"))
    sums.add(RangeResult(1, 3, counts=((Group.of("rule", HOSTILE), 2),), findings=(finding,),
                         calls={HOSTILE: 2, f"{HOSTILE}2": 0}))  # fmt: skip
    lines = [*report_lines(sums, {})]
    assert all(line.isprintable() for line in lines), lines
    assert sum(line.startswith("  world:    the model calls t") for line in lines) == 1
    assert not any(line.startswith("file: gone") for line in lines)

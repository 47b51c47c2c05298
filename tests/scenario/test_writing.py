from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incases import in_cases

from simloop.errors import ScenarioError
from simloop.scenario import writing
from simloop.scenario.catalog import bundled_names, find_bundled
from simloop.scenario.conversation import PastMessage
from simloop.scenario.expect import Expect
from simloop.scenario.loader import load_scenario, parse_scenario
from simloop.scenario.replies import Http, Reply
from simloop.scenario.schema import Scenario, ScriptedHook, ScriptedTool
from simloop.scenario.writing import scenario_text

SPECIAL = (
    "", " ", "~", "null", "Null", "yes", "No", "on", "y", "true", "TRUE", ".inf", "-.INF", ".nan",
    "1", "9" * 30, "1e3", "1e999", "0x1f", "0o17", "1_000", "12:00", "2001-01-01",
    "0.1.2", "=", "<<", "-", "- a",
    "---", "...", "--- a", "? a", "?a", ":", "a:", "a: b", "a:b", "#a", "a #b", "a#b", "*a", "&a",
    "!a", "%a", "@a", "`a", "|", ">", "'", '"', "it's", 'say "hi"', '\\"', "{a}", "[a]", "a, b",
    "a\nb", "a\n", "a\n\n", "\na", " a\nb", "a \nb", "a\n b", "a\n\nb", "a\tb", "\t", "a\rb",
    "a\r\nb", "a\x85b", "a\u2028b", "\ufeff", "\x00", "\x1b[2J", "\x7f", "\ufffe", "\xa0", "é",
    "😀", "a  b", " a", "a ", "word " * 40 + "end", "long" * 300, "'" + '"' * 3, "what? no", "a?",
)  # fmt: skip
"""Texts that YAML reads as something else, or not at all, if they are written as they stand."""

texts = st.sampled_from(SPECIAL) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = texts.filter(bool)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=3)
replies = st.builds(
    Reply,
    say=texts | st.lists(texts, max_size=3),
    call=st.dictionaries(names, values, max_size=2),
    half_call=st.dictionaries(texts, texts, max_size=1),
    finish=st.just("stop"),
) | st.builds(
    Reply,
    http=st.builds(
        Http,
        status=st.integers(300, 599),
        message=texts,
        body=texts | objects,
        headers=st.dictionaries(texts, texts, max_size=2),
    ),
)
scenarios = st.builds(
    Scenario,
    title=texts,
    system_prompt=texts,
    prompt=texts,
    then=st.lists(texts, max_size=3),
    history=st.lists(st.builds(PastMessage, user=texts), max_size=2),
    model=st.lists(replies, max_size=3),
    tools=st.dictionaries(names, st.builds(ScriptedTool, returns=values), max_size=2),
    hooks=st.lists(
        st.builds(ScriptedHook, at=st.just("before_tool_call"), name=texts, arguments=objects),
        max_size=2,
    ),
    expect=st.builds(Expect, text=texts, tools_run=st.lists(texts, max_size=3)),
)


def written(scenario: Scenario) -> Scenario:
    return parse_scenario(scenario_text(scenario))


@pytest.mark.slow
@in_cases(bundled_names())
def test_each_bundled_scenario_is_read_as_it_was_written(name: str) -> None:
    scenario = load_scenario(find_bundled(name))
    assert written(scenario) == scenario


@given(scenarios)
def test_any_scenario_is_read_as_it_was_written(scenario: Scenario) -> None:
    assert written(scenario) == scenario


@in_cases(SPECIAL)
def test_a_text_is_read_as_it_was_written_wherever_it_stands(text: str) -> None:
    """At the top, as a key, in a list, in a mapping of one key, and in brackets."""
    scenario = Scenario(
        prompt=text,
        then=[text],
        model=[Reply(say=[text, "a"], call={"a": {text: text, "b": [text]}}), Reply(raises=text)],
        hooks=[ScriptedHook(at="before_tool_call", arguments={text: {text: [[text]]}})],
    )
    assert written(scenario) == scenario


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("some words " * 3_000, '{repeat: "some words ", chars: 33000}'),
        ("x" * 1_000, "{repeat: x, chars: 1000}"),
        ("ab" * 999 + "a", "{repeat: ab, chars: 1999}"),
        ("a" * 1_200 + "b", "aaab"),
        ("ab" * 499, "abab"),
    ],
)
def test_a_long_text_of_one_part_is_written_as_that_part(text: str, shown: str) -> None:
    scenario = Scenario(prompt="Go.", then=[{"say": text}], model=[Reply(say=[text])])
    assert written(scenario) == scenario
    assert scenario_text(scenario).count(shown[:30]) >= 2


@pytest.mark.parametrize("say", ["{repeat: a}", "{repeat: '', chars: 9}", "{repeat: a, chars: 0}",
                                 "{repeat: a, chars: 3, more: 1}"])  # fmt: skip
def test_a_long_text_has_a_part_and_a_length(say: str) -> None:
    with pytest.raises(ScenarioError, match=r"2:15: model.0.say: must be a text"):
        parse_scenario(f"prompt: Go.\nmodel: [{{say: {say}}}]\n")


@pytest.mark.parametrize("key", [f.alias or name for name, f in Scenario.model_fields.items()])
def test_each_key_of_a_scenario_has_a_place(key: str) -> None:
    assert key in writing._KEYS


def test_the_options_of_a_provider_and_of_an_mcp_server_are_written() -> None:
    given = {"wire": {"framing": "crlf"}, "mcp": {"lost_calls": [2]}}
    scenario = Scenario.model_validate({"prompt": "Go.", **given})

    assert parse_scenario(scenario_text(scenario)) == scenario


def test_a_scenario_is_written_as_a_person_writes_it() -> None:
    text = """\
# yaml-language-server: $schema=../schema.json
# Why it is here.
title: A rate limit is waited out
bugs: [C1]
limits: {max_steps: 20, max_wall_clock: 90s}
prompt: What does README.md say?
tools:
  read: {parameters: {path: string}, returns: "# Hello", takes: 120ms}
hooks:
  - {at: before_llm_call, name: audit}
model:
  - http: {status: 429, retry_after: 5s}
  - {say: [It says, " Hello."], pace: {per_part: 1.5s}}
  - say: |-
      One line.

        And another.
  - http:
      status: 400
      message: >-
        A text that is longer than a line is folded, and a person can read all of it without moving
        the window.
      body: '{"error": {"message": "no"}}'
expect:
  outcome: completed
  text: "yes"
expect_on:
  pi: {outcome: failed, limit: ""}
"""
    again = scenario_text(parse_scenario(text), "Why it is here.", "../schema.json")
    assert again == text


@pytest.mark.parametrize(
    ("value", "words"),
    [(2**64, "64 bits"), ("\ud800", "half of a surrogate"), ({"\udfff": 1}, "half of a surrogate")],
)
def test_what_no_file_can_hold_is_refused(value: Any, words: str) -> None:
    hook = ScriptedHook(at="before_tool_call", arguments={"a": value})
    with pytest.raises(ScenarioError, match=words):
        scenario_text(Scenario(prompt="Go.", hooks=[hook]))

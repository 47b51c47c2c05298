import difflib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from incases import in_cases

from simloop.errors import ScenarioError
from simloop.scenario.loader import load_scenario, parse_scenario
from simloop.scenario.schema import Scenario

KEYS = st.sampled_from(
    [
        *Scenario.model_fields,
        *("say", "call", "http", "status", "times", "when", "role", "lost", "retry_after", "at"),
        *("parameters", "returns", "json_schema", "max_steps", "counters", "outcome", "window"),
    ]
)
SCALARS = st.sampled_from(
    [*("null", "true", "0", "-1", "3", "1.5", ".nan", "5s", "always", "x", '"5s\\n"', '"\\0"')]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(KEYS, inner, max_size=3).map(
            lambda items: f"{{{', '.join(f'{key}: {value}' for key, value in items.items())}}}"
        ),
    ),
    max_leaves=8,
)
FILES = st.dictionaries(KEYS, VALUES, max_size=4).map(
    lambda items: "".join(f"{key}: {value}\n" for key, value in items.items())
)


def refusal_of(text: str) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "a.yaml")
    return caught.value


def read(text: str) -> Scenario | ScenarioError:
    try:
        return parse_scenario(text, "a.yaml")
    except ScenarioError as error:
        return error


@given(FILES)
@example('prompt: x\nabort: {at: "5s\\n"}\n')
@example("prompt: x\ntools: {t: {returns: .nan}}\n")
def test_any_file_of_known_words_gives_a_scenario_or_a_line_with_a_place_for_each_mistake(
    text: str,
) -> None:
    outcome = read(text)
    if isinstance(outcome, ScenarioError):
        mistakes = (outcome, *outcome.others)
        lines = str(outcome).splitlines()
        assert len(lines) == len(mistakes)
        for line, mistake in zip(lines, mistakes, strict=True):
            assert line.startswith(f"a.yaml:{mistake.line}:{mistake.column}: ")


@given(st.text())
def test_any_text_gives_a_scenario_or_a_scenario_error(text: str) -> None:
    assert isinstance(read(text), Scenario | ScenarioError)


def test_a_scenario_knows_the_file_that_it_was_read_from(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("prompt: Hi\n")
    assert load_scenario(path).path == str(path)
    assert load_scenario(str(path)) == parse_scenario("prompt: Hi\n", "b.yaml")


@pytest.mark.parametrize("name", ["none.yaml", ""], ids=["missing", "folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")


def test_words_of_the_file_stand_for_members_of_the_enums() -> None:
    scenario = parse_scenario("prompt: x\nexpect: {outcome: timed-out}\n")
    assert scenario.expect.outcome == "timed-out"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("prompt: x\nlimits:\n  max_stepz: 3\n", (3, 3)),
        ("prompt: x\nmodel:\n  - say: a\n  - sya: b\n", (4, 5)),
        ("prompt: x\nmodel:\n  - say: a\n    times: 0\n", (4, 12)),
        ("prompt: x\r\nmodel:\r\n  - http: {status: 99}\r\n", (3, 20)),
        ("\ufeffseed: -1\nprompt: x\n", (1, 7)),
    ],
    ids=["key", "key-in-list", "value", "crlf", "byte-order-mark"],
)
def test_the_place_is_that_of_the_key_if_it_is_wrong_else_of_the_value(
    text: str, place: tuple[int, int]
) -> None:
    error = refusal_of(text)
    assert (error.line, error.column) == place


def test_all_mistakes_of_a_file_are_reported_in_the_order_of_their_places() -> None:
    error = refusal_of("seed: -1\nprompt: x\nlimits: {max_steps: 0, max_stepz: 1}\n")
    assert [line.split(": ")[:2] for line in str(error).splitlines()] == [
        ["a.yaml:1:7", "seed"],
        ["a.yaml:3:21", "limits.max_steps"],
        ["a.yaml:3:24", "limits.max_stepz"],
    ]


def test_a_misspelt_key_and_the_key_that_is_missing_for_it_are_one_mistake() -> None:
    error = refusal_of("title: a\npromt: x\n")
    assert error.others == ()
    assert (error.line, error.column, error.key) == (2, 1, "promt")
    assert "did you mean `prompt`?" in error.hint


def one_letter_off(key: str) -> str:
    return "x" + key[1:]  # not the last one, which alone tells `loops` from `loop`


@in_cases(sorted(Scenario.model_fields))
def test_every_key_is_recognised_with_one_wrong_letter(key: str) -> None:
    wrong = one_letter_off(key)
    nearest = difflib.get_close_matches(wrong, list(Scenario.model_fields), n=1)
    assert refusal_of(f"prompt: x\n{wrong}: 1\n").hint == f"did you mean `{nearest[0]}`?"
    assert nearest[0] == key


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("hooks:\n  - {at: before_llm_call, zzz: 1}", "known here: at, name, tool, nth, takes"),
        ("abort: {at: 1s, zzz: 1}", "known here: at"),
        ("retry: {zzz: 1}", "initial_delay, max_delay, max_retry_after, jitter"),
        ("expect: {counters: {zzz: 1}}", "error_count, total_steps, compaction_attempts"),
        ("tools: {clock: {zzz: 1}}", "description, parameters, json_schema, returns"),
        ("model: [{say: x, usage: {zzz: 1}}]", "known here: input, output"),
        ("model: [{say: x, when: {zzz: 1}}]", "known here: role, contains"),
        ("summaries: [{say: x, pace: {zzz: 1}}]", "known here: first_part, per_part, per_token"),
    ],
    ids=["hook", "abort", "retry", "counters", "tool", "usage", "when", "pace"],
)
def test_a_key_like_no_other_gets_the_list_of_those_that_can_stand_there(
    text: str, known: str
) -> None:
    assert known in refusal_of(f"prompt: x\n{text}\n").hint


@pytest.mark.parametrize(
    ("fields", "claim"),
    [
        ("compaction: {window: '100'}", "compaction.window"),
        ("compaction: {keep_turns: true}", "compaction.keep_turns"),
        ("hook_isolation: {timeout: 3_000}", "hook_isolation.timeout"),
        ("tool_execution: {timeout: '5'}", "tool_execution.timeout"),
        ("limits: {max_steps: '5'}", "limits.max_steps"),
        ("retry: {initial_delay: 1.0}", "retry.initial_delay"),
        ("seed: '7'", "seed"),
    ],
    ids=lambda part: str(part).partition(":")[0],
)
def test_no_value_is_guessed_from_another_type(fields: str, claim: str) -> None:
    assert refusal_of(f"prompt: x\n{fields}\n").key == claim


def test_limits_of_a_file_and_limits_of_python_are_equal() -> None:
    loaded: Any = parse_scenario("prompt: x\nlimits: {max_steps: 7, max_wall_clock: null}\n")
    assert loaded.limits.max_steps == 7
    assert loaded == Scenario(prompt="x", limits=loaded.limits)


def test_the_name_of_a_bundled_scenario_is_no_file_and_the_error_says_how_to_copy_one() -> None:
    with pytest.raises(ScenarioError, match=r"cannot be read: .*`simloop cat NAME > FILE` copies"):
        load_scenario("retry/rate-limit")
    with pytest.raises(ScenarioError, match=r"directory you are in, and the permissions\)$"):
        load_scenario("missing.simloop.yaml")


@pytest.mark.parametrize("also", ["", "promt: Hi\n"], ids=["names alone", "with another mistake"])
def test_all_unknown_loops_of_a_file_are_reported_at_once(also: str) -> None:
    text = "prompt: Hi\nloop: nope\nexpect_on: {nop: {}, pi@9: {}}\nmodel: [{say: Hi.}]\n"
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text + also, "a.yaml")
    mistakes = [caught.value, *caught.value.others]
    keys = ["loop", "expect_on.nop", "expect_on.pi@9", *(["promt"] if also else [])]
    assert [one.key for one in mistakes] == keys
    assert [(one.path, one.line) for one in mistakes] == [
        ("a.yaml", line) for line in (2, 3, 3, 5)[: len(keys)]
    ]

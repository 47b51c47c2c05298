"""A run is kept as a scenario, as a test and as a command, and each repeats it."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from simloop import SimloopRun
from simloop.check.trial import Until, run_to_the_end, verify
from simloop.cli import main
from simloop.cursor.position import Position
from simloop.errors import ScenarioError
from simloop.runs.options import RunOptions
from simloop.scenario.loader import parse_scenario
from simloop.trace.codec import write_trace
from simloop_tui.files import command_of, name_for, pytest_of, save, text_of
from simloop_tui.runs import changes_at, compared, edit_of_reply, opened, opened_against
from simloop_tui.session import Session

TWO_PROMPTS = "title: Two\nprompt: Hi\nthen: [Again]\nmodel: [{say: One.}, {say: Two.}]\n"


def forked(words: str, place: int = 20) -> Session:
    position = Position(opened("quickstart").recording, place)
    (change,) = [each for each in changes_at(position) if words in each.name]
    return compared(position, change, "quickstart").right


@pytest.fixture(params=["aborts here", "rate limit (429)", "a lost connection", "60 s later"])
def fork(request: pytest.FixtureRequest) -> Session:
    return forked(request.param)


def test_a_kept_scenario_passes_and_repeats_the_run(fork: Session, tmp_path: Path) -> None:
    path = tmp_path / "kept.simloop.yaml"
    assert save(path, text_of(fork))
    verdict = verify(path, Until.END)
    assert (verdict.errors, verdict.failures) == ([], ())
    assert verdict.trace is not None
    assert verdict.trace.entries == fork.recording.entries


def test_a_kept_scenario_says_where_it_comes_from_and_how_it_ends() -> None:
    text = text_of(forked("aborts here"))
    assert "# A fork of quickstart at entry 20: the user aborts here." in text
    assert "outcome: aborted" in text
    assert "unused: 3" in text


def test_a_run_that_ends_in_an_error_is_kept_with_it(tmp_path: Path) -> None:
    position = Position(opened("quickstart").recording, 40)
    change = edit_of_reply(position, "  - call: {list_files: {}}\n")
    session = compared(position, change, "quickstart").right
    assert "expect:\n  error: ScriptExhausted\n" in text_of(session)


def test_the_expectations_of_a_file_are_kept() -> None:
    assert "backoffs" in text_of(opened("start/quickstart"))


def test_the_outcome_of_each_prompt_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "two.simloop.yaml"
    path.write_text(TWO_PROMPTS, "utf-8")
    assert "outcomes: [completed, completed]" in text_of(opened(str(path)))


def test_the_loop_and_the_seed_of_the_call_are_kept() -> None:
    session = opened("finish-reasons/stop", {"loop": "react", "seed": 7})
    text = text_of(session)
    assert "loop: react" in text
    assert "seed: 7" in text


def test_a_file_is_replaced_only_if_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "kept.simloop.yaml"
    assert save(path, "one")
    assert not save(path, "two")
    assert path.read_text("utf-8") == "one"
    assert save(path, "two", replace=True)
    assert path.read_text("utf-8") == "two"
    assert (tmp_path / "simloop.schema.json").exists()


def test_a_test_runs_the_scenario(fork: Session, simloop_run: SimloopRun) -> None:
    namespace: dict[str, Any] = {}
    exec(pytest_of(fork), namespace)
    (test,) = [value for name, value in namespace.items() if name.startswith("test_")]
    assert isinstance(namespace["SCENARIO"], str)
    test(simloop_run)


def test_backslashes_and_quotes_are_kept_in_a_test() -> None:
    hostile = (
        'prompt: "a\\\\b \\"\\"\\" c"\ntitle: "\\e[1m [@click=x] \\u202e"\nmodel: [{say: "x"}]\n'
    )
    scenario = parse_scenario(hostile)
    session = Session(type(opened("quickstart").recording).of_trace(run_to_the_end(scenario)))
    namespace: dict[str, Any] = {}
    exec(pytest_of(session), namespace)
    again = parse_scenario(namespace["SCENARIO"])
    assert (again.prompt, again.title) == (scenario.prompt, scenario.title)
    assert "test_1m_click_x" in namespace


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "simloop run finish-reasons/stop"),
        ({"seed": 7}, "simloop run finish-reasons/stop --seed 7"),
        (
            {"loop": "opencode", "loop_options": {"steps": "enforce"}},
            "simloop run finish-reasons/stop --loop opencode --option steps=enforce",
        ),
    ],
)
def test_the_command_repeats_the_run(given: RunOptions, expected: str, tmp_path: Path) -> None:
    session = opened("finish-reasons/stop", given)
    assert command_of(session) == expected
    trace = tmp_path / "again.jsonl"
    CliRunner().invoke(main, [*expected.split()[1:], "--trace", str(trace)])
    assert opened(str(trace)).recording.entries == session.recording.entries


def test_the_command_of_a_trace_replays_it(tmp_path: Path) -> None:
    path = tmp_path / "a b.jsonl"
    write_trace(run_to_the_end(parse_scenario(TWO_PROMPTS)), path)
    assert command_of(opened(str(path))) == f"simloop replay '{path}'"


def test_a_run_without_a_file_is_to_be_saved_first(fork: Session) -> None:
    with pytest.raises(ScenarioError, match="save it first: O"):
        command_of(fork)
    other = opened_against("finish-reasons/stop", "pi", {}).right
    with pytest.raises(ScenarioError, match="save it first: O"):
        command_of(other)
    assert "loop: pi" in text_of(other)


def test_a_name_is_made_of_the_title() -> None:
    assert name_for(opened("quickstart")).startswith("a-run-gets-through-a-rate-limit-two")

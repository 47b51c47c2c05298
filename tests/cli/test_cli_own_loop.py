"""A loop of the user's own on the command line: options, judging, exploring, replaying."""

import shlex
from pathlib import Path

import pytest
from commandline import Cli

LOOP = """
from simloop.loops.pi import PiLoop
from simloop.loops.react import ReactLoop


class Mine(ReactLoop):
    name = "mine"

    def __init__(self, limits, *, patience=0):
        if patience > 5:
            raise ValueError("too patient")
        super().__init__(limits)


class Heir(ReactLoop):
    pass  # it inherits the name of react


class Watched(PiLoop):
    name = "watched"
    endless = "a person watches it"
"""
SCENARIO = """
prompt: Go.
model: [{say: Done.}]
expect: {text: Nothing.}
expect_on: {react: {text: Done.}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with a loop and a scenario; the name of the loop."""
    module = f"loop_of_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(LOOP, "utf-8")
    (tmp_path / "a.simloop.yaml").write_text(SCENARIO, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return f"{module}:Mine"


@pytest.mark.parametrize("verb", ["run", "check", "record"])
def test_every_verb_that_runs_scenarios_judges_a_loop_as_a_design(
    cli: Cli, verb: str, project: str
) -> None:
    assert cli(verb, "a.simloop.yaml", "--loop", project).exit_code == 1
    judged = cli(verb, "a.simloop.yaml", "--loop", project, "--judge-as", "react")
    assert judged.exit_code == 0, judged.output


@pytest.mark.parametrize("verb", ["run", "check", "record"])
def test_every_verb_that_runs_scenarios_takes_options_of_the_loop(
    cli: Cli, verb: str, project: str
) -> None:
    given = (verb, "a.simloop.yaml", "--loop", project, "--judge-as", "react", "--option")
    assert cli(*given, "patience=3").exit_code == 0
    refused = cli(*given, "patience=6")
    assert (refused.exit_code, "too patient" in refused.output) == (2, True)
    unknown = cli(*given, "patients=6")
    assert (unknown.exit_code, "patients" in unknown.output) == (2, True)


def test_compare_gives_options_to_the_users_own_loop_alone(cli: Cli, project: str) -> None:
    loops = ("compare", "a.simloop.yaml", "--loop", "react", "--loop", project)
    given = (*loops, "--judge-as", "react", "--option")
    assert cli(*given, "patience=3").exit_code == 0
    refused = cli(*given, "patience=6")
    assert (refused.exit_code, "too patient" in " ".join(refused.output.split())) == (2, True)


def test_compare_reproduces_a_row_with_the_judge_and_the_options_of_its_loop(
    cli: Cli, project: str
) -> None:
    text = SCENARIO.replace("Done.}}", "Else.}}")
    Path("b.simloop.yaml").write_text(text, "utf-8")
    loops = ("b.simloop.yaml", "--loop", project, "--judge-as", "react", "--option", "patience=3")
    line = next(
        line for line in cli("compare", *loops).output.splitlines() if "reproduce: " in line
    )
    again = cli(*shlex.split(line.partition("simloop ")[2]))
    assert (again.exit_code, "expected 'Else.', got 'Done.'" in again.output) == (1, True)


@pytest.mark.parametrize("flag", [("--judge-as", "react"), ("--option", "a=3")], ids=" ".join)
def test_compare_refuses_settings_of_one_loop_for_several(
    cli: Cli, flag: tuple[str, str], project: str
) -> None:
    other = project.replace("Mine", "Heir")
    refused = cli("compare", "a.simloop.yaml", "--loop", project, "--loop", other, *flag)
    assert (refused.exit_code, f"{flag[0]} is for one loop" in refused.output) == (2, True)
    assert cli("compare", "a.simloop.yaml", *flag).exit_code == 2


def test_a_recorded_run_is_replayed_with_its_options_if_its_loop_is_named(
    cli: Cli, project: str
) -> None:
    given = ("--loop", project, "--judge-as", "react", "--option", "patience=3")
    assert cli("record", "a.simloop.yaml", *given).exit_code == 0
    assert cli("replay", "a.trace.jsonl").exit_code == 2
    replayed = cli("replay", "a.trace.jsonl", "--loop", project)
    assert replayed.exit_code == 0, replayed.output
    assert "differs" not in replayed.output


def test_exploring_takes_options_of_a_loop_of_ones_own(cli: Cli, project: str) -> None:
    given = ("explore", "--loop", project, "--max-steps", "2")
    assert cli(*given, "--option", "patience=3").exit_code == 0
    assert "too patient" in cli(*given, "--option", "patience=6").output

import itertools
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from commandline import Cli
from shrinking import LARGE

from simloop.cli.terminal import StatusLine
from simloop.scenario.loader import load_scenario
from simloop.scenario.writing import SCHEMA_FILE, scenario_text

LOOP = "shrinking:runs_twice"
RIGHT = "prompt: Go.\nmodel: [say: Done.]\n"
WRONG = "prompt: Go.\nmodel: [{http: {status: 500}}, {say: Done.}]\nexpect: {backoffs: [7s]}\n"


@pytest.fixture(autouse=True)
def _(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large.simloop.yaml").write_text(scenario_text(LARGE))
    (tmp_path / "right.simloop.yaml").write_text(RIGHT)
    (tmp_path / "wrong.simloop.yaml").write_text(WRONG)
    monkeypatch.chdir(tmp_path)


def test_it_prints_the_scenario_the_invariant_and_how_to_see_it_again(cli: Cli) -> None:
    result = cli("shrink", "large.simloop.yaml", "--loop", LOOP, "--seconds", "600")
    assert result.exit_code == 1
    sentence = "The tool of a call runs at most once."
    *scenario, judged, how, size, written, reproduce, test = result.stdout.splitlines()
    assert "\n".join(scenario) + "\n" == scenario_text(load_scenario("large.shrunk.simloop.yaml"))
    assert f"loop: {LOOP}" in scenario
    assert judged == f"tool-runs-at-most-once: {sentence}"
    assert how.startswith("  the tool of call ")
    assert size.startswith("reduced from 6 replies in ")
    assert " to 2 replies in " in size
    assert written == "written to large.shrunk.simloop.yaml"
    assert reproduce == "reproduce: simloop check large.shrunk.simloop.yaml"
    assert test == "as a test: python -m pytest large.shrunk.simloop.yaml"
    assert Path(SCHEMA_FILE).exists()


def test_the_file_says_what_it_shows_and_fails_by_itself(cli: Cli) -> None:
    cli("shrink", "wrong.simloop.yaml", "--out", "small.yaml")
    assert Path("small.yaml").read_text("utf-8").splitlines()[1:5] == [
        "# Shrunk from wrong.simloop.yaml.",
        "# expectation: A run ends as its scenario expects.",
        "#   expect.backoffs: expected ['7s'], got ['2s']",
        "# reproduce: simloop check small.yaml",
    ]
    assert cli("check", "small.yaml").exit_code == 1


def test_a_scenario_that_does_not_fail_is_left_alone(cli: Cli) -> None:
    result = cli("shrink", "right.simloop.yaml")
    assert result.exit_code == 0
    assert result.stdout == "right.simloop.yaml does not fail, so there is nothing to shrink\n"
    assert not list(Path().glob("*.shrunk*"))


def test_a_trace_is_shrunk_as_it_was_recorded(cli: Cli) -> None:
    cli("run", "wrong.simloop.yaml", "--loop", "opencode", "--seed", "4", "--trace", "a.jsonl")
    result = cli("shrink", "a.jsonl")
    assert result.exit_code == 1, result.output
    assert load_scenario("a.shrunk.simloop.yaml").loop == "opencode"
    assert "expected ['7s'], got ['1s']" in result.stdout


def test_a_second_result_gets_a_name_of_its_own_and_no_file_is_written_over(cli: Cli) -> None:
    cli("shrink", "wrong.simloop.yaml")
    again = cli("shrink", "wrong.simloop.yaml")
    assert "written to wrong.shrunk-2.simloop.yaml" in again.stdout
    refused = cli("shrink", "wrong.simloop.yaml", "--out", "right.simloop.yaml")
    assert refused.exit_code == 2
    assert "right.simloop.yaml: this file exists already" in refused.stderr
    assert Path("right.simloop.yaml").read_text("utf-8") == RIGHT


def test_what_cannot_be_read_is_wrong_usage(cli: Cli) -> None:
    assert cli("shrink", "nowhere.simloop.yaml").exit_code == 2
    assert cli("shrink", "nowhere.jsonl").exit_code == 2
    assert cli("shrink", "wrong.simloop.yaml", "--seconds", "0").exit_code == 2


def test_it_says_if_its_time_was_too_short(cli: Cli) -> None:
    result = cli("shrink", "large.simloop.yaml", "--loop", LOOP, "--seconds", "0.000001")
    assert result.exit_code == 1
    assert "the scenario may not be minimal: the time limit was reached" in result.stderr


def test_ctrl_c_keeps_the_smallest_so_far(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    count = itertools.count()

    def interrupt(*_: Any) -> None:
        if next(count) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(StatusLine, "say", interrupt)
    result = cli("shrink", "large.simloop.yaml", "--loop", LOOP)
    assert result.exit_code == 130
    assert "the scenario may not be minimal: the reduction was interrupted" in result.stderr
    smaller = load_scenario("large.shrunk.simloop.yaml")
    assert len(scenario_text(smaller)) < len(scenario_text(LARGE))
    assert cli("shrink", "large.shrunk.simloop.yaml", "--loop", LOOP).exit_code == 1

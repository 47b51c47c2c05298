import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simloop.cli import main
from simloop.fuzz.play import failure_in
from simloop.scenario.loader import load_scenario

ENDLESS = """
import asyncio

from simloop import Limits, UserMessage, World

class Agent:
    limits = Limits(max_steps=2, max_error_count=1, max_compaction_attempts=0)

    async def __call__(self, prompt: str, world: World) -> str:
        while True:
            try:
                return (await world.model.reply([UserMessage(prompt)])).message.text
            except Exception:
                await asyncio.sleep(600)
"""


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_agent_that_retries.py").write_text(ENDLESS)
    monkeypatch.syspath_prepend(tmp_path)
    return "own_agent_that_retries:Agent"


def fuzz(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["fuzz", *arguments])


def timeless(text: str) -> str:
    return re.sub(r"[\d.]+ s of processor time", "", text)


def test_a_loop_that_keeps_the_rules_ends_with_0() -> None:
    result = fuzz("--runs", "20", "--loop", "react")
    assert result.exit_code == 0, result.output
    assert "20 runs of react" in result.stdout
    assert "no failures" in result.stdout


@pytest.mark.slow
def test_a_failure_is_written_as_a_scenario_that_fails(agent: str, tmp_path: Path) -> None:
    result = fuzz("--runs", "200", "--loop", agent, "--out", str(tmp_path / "found"))
    assert result.exit_code == 1, result.output
    rule = re.findall(r"FAILED (\S+) in run", result.stdout)[0]
    file = tmp_path / "found" / f"{rule}.simloop.yaml"
    text = file.read_text()
    assert "# found by: simloop fuzz --loop own_agent_that_retries:Agent --seed 0 --runs" in text
    assert "# pytest: def test_it(simloop_run): simloop_run('" in text
    failure = failure_in(load_scenario(file), {"loop": agent})
    assert failure is not None
    assert failure.name == rule


@pytest.mark.slow
def test_equal_seeds_give_equal_reports_but_for_the_times(agent: str) -> None:
    reports = [fuzz("--runs", "150", "--seed", "7", "--loop", agent).stdout for _ in range(2)]
    assert timeless(reports[0]) == timeless(reports[1])
    assert timeless(fuzz("--runs", "150", "--seed", "8", "--loop", agent).stdout) != reports[0]


@pytest.mark.slow
def test_the_report_can_be_json(agent: str) -> None:
    result = fuzz("--runs", "100", "--loop", agent, "--format", "json")
    report = json.loads(result.stdout)
    assert (report["runs"], report["loop"]) == (100, agent)
    assert report["failures"][0]["reproduced"]
    assert report["failures"][0]["sentence"]


def test_an_unknown_loop_is_a_wrong_use() -> None:
    assert fuzz("--loop", "referense").exit_code == 2


@pytest.mark.slow
def test_another_loop_that_does_not_do_the_same_is_a_failure(tmp_path: Path) -> None:
    loops = ("--loop", "differing:Plain", "--against", "differing:Lazy")
    result = fuzz("--runs", "100", *loops, "--out", str(tmp_path / "found"))
    assert result.exit_code == 1
    (file,) = (tmp_path / "found").glob("same-course.simloop.yaml")
    text = file.read_text()
    assert f"# found by: simloop fuzz {' '.join(loops)} --seed 0 --runs" in text
    assert f"# reproduce: simloop shrink {file} --against differing:Lazy" in text
    assert len(load_scenario(file).model) <= 2


@pytest.mark.slow
def test_findings_that_shrink_to_one_scenario_have_one_file(tmp_path: Path) -> None:
    loops = ("--loop", "differing:Plain", "--against", "differing:Polite")
    result = fuzz("--runs", "100", *loops, "--out", str(tmp_path / "found"))
    written = re.findall(r"written to (.*)", result.stdout)
    assert len(set(written)) == len(list((tmp_path / "found").glob("*.simloop.yaml")))


def test_the_report_has_the_goals_and_names_those_that_were_never_reached() -> None:
    result = fuzz("--runs", "60", "--loop", "react", "--arm", "uniform")
    assert re.search(r"[1-9]\d* of \d+ goals reached, counted in \d+ of the runs", result.stdout)
    assert "not reached: " in result.stdout
    assert "hook-fails" not in result.stdout, "react has no hooks"


def test_the_scenarios_to_begin_with_can_be_named(tmp_path: Path) -> None:
    assert fuzz("--from", str(tmp_path / "no.simloop.yaml")).exit_code == 2
    result = fuzz("--runs", "60", "--loop", "react", "--from", "start/quickstart")
    assert "60 runs of react" in result.stdout


@pytest.mark.slow
def test_a_failure_is_shrunk_before_it_is_written(agent: str, tmp_path: Path) -> None:
    fuzz("--runs", "100", "--loop", agent, "--out", str(tmp_path))
    found = [load_scenario(file) for file in tmp_path.glob("*.simloop.yaml")]
    assert found
    assert all(len(scenario.model) <= 4 for scenario in found)
    assert all(scenario.loop == agent for scenario in found)

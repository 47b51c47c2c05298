import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commandline import Cli
from filesizes import file_size_limit

from simloop.check.trial import failure_of
from simloop.runs.plan import Plan
from simloop.scenario.loader import load_scenario

ENDLESS = """
import asyncio

from simloop import Limits, UserMessage, World

class Agent:
    limits = Limits(max_steps=2, max_error_count=1, max_compaction_attempts=0)
    deviations = dict.fromkeys(
        ("completed-after-a-complete-reply", "completed-without-open-calls",
         "no-retry-of-permanent-failure"),
        "any reply is the answer, and each call is repeated",
    )

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


def test_a_loop_that_keeps_the_rules_ends_with_0(cli: Cli) -> None:
    result = cli("fuzz", "--runs", "20", "--loop", "react")
    assert result.exit_code == 0, result.output
    assert "20 runs of react" in result.stdout
    assert "no failures" in result.stdout


@pytest.mark.slow
def test_a_failure_is_written_as_a_scenario_that_fails(
    cli: Cli, agent: str, tmp_path: Path
) -> None:
    result = cli("fuzz", "--runs", "60", "--loop", agent, "--out", str(tmp_path / "found"))
    assert result.exit_code == 1, result.output
    rule = re.findall(r"FAILED (\S+) in run", result.stdout)[0]
    file = tmp_path / "found" / f"{rule}.simloop.yaml"
    text = file.read_text()
    assert "# found by: simloop fuzz --loop own_agent_that_retries:Agent --seed 0 --runs" in text
    assert "# pytest: def test_it(simloop_run): simloop_run('" in text
    scenario = load_scenario(file)
    assert (len(scenario.model) <= 4, scenario.loop) == (True, agent), "it is shrunk"
    failure = failure_of(Plan(scenario, {"loop": agent}))
    assert failure is not None
    assert failure.name == rule


@pytest.mark.slow
def test_equal_seeds_give_equal_reports_but_for_the_times(cli: Cli, agent: str) -> None:
    reports = [cli("fuzz", "--runs", "20", "--seed", "7", "--loop", agent).stdout for _ in range(2)]
    assert untimed(reports[0]) == untimed(reports[1])


@pytest.mark.slow
def test_the_report_can_be_json(cli: Cli, agent: str) -> None:
    result = cli("fuzz", "--runs", "60", "--loop", agent, "--format", "json")
    report = json.loads(result.stdout)
    assert (report["runs"], report["loop"]) == (60, agent)
    assert report["failures"][0]["reproduced"] is True
    assert report["failures"][0]["sentence"]


@pytest.mark.slow
def test_a_failure_that_needs_earlier_runs_is_not_marked_as_reproduced(
    cli: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "found"
    shown = cli("fuzz", "--runs", "9", "--loop", "searching:remembers", "--out", str(folder))
    assert "alone, in a new process, it does not fail: the loop keeps state" in shown.stdout
    text = (folder / "adjacent-results.simloop.yaml").read_text()
    assert "# alone, in a new process, it does not fail" in text
    assert "pytest" not in text


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_a_wrong_use_and_keeps_the_old_file(
    cli: Cli, agent: str, tmp_path: Path
) -> None:
    arguments = ("--runs", "60", "--loop", agent, "--out", str(tmp_path))
    cli("fuzz", *arguments)
    journal = (tmp_path / "search.jsonl").read_bytes()
    (old,) = tmp_path.glob("agent-respects*.yaml")
    text = old.read_text()
    with file_size_limit(len(journal) + 10):
        shown = cli("fuzz", *arguments, "--seed", "1")
    assert shown.exit_code == 2, shown.output
    assert (
        "search.jsonl: cannot be used as the file of a search: [Errno 27] File too large"
        in shown.stderr
    )
    assert old.read_text() == text
    assert (tmp_path / "search.jsonl").read_bytes().startswith(journal)


def test_an_unknown_loop_is_a_wrong_use(cli: Cli) -> None:
    assert cli("fuzz", "--loop", "referense").exit_code == 2


def test_the_report_has_the_goals_and_names_those_that_were_never_reached(cli: Cli) -> None:
    result = cli("fuzz", "--runs", "60", "--loop", "react")
    assert re.search(r"[1-9]\d* of \d+ goals reached, counted in \d+ of the runs", result.stdout)
    assert "not reached: " in result.stdout
    assert "hook-fails" not in result.stdout, "react has no hooks"


def test_the_scenarios_to_begin_with_can_be_named(cli: Cli, tmp_path: Path) -> None:
    assert cli("fuzz", "--from", str(tmp_path / "no.simloop.yaml")).exit_code == 2
    result = cli("fuzz", "--runs", "30", "--from", "start/quickstart")
    assert "30 runs of reference" in result.stdout
    refused = cli("fuzz", "--runs", "30", "--from", "start/quickstart", "--loop", "react")
    assert refused.exit_code == 2
    assert "react never shortens its history" in refused.stderr


LOOP = ("--loop", "searching:repeats", "--seed", "3")
SEARCH = (*LOOP, "--runs", "1000000", "--jobs", "2")
SUPPORT = Path(__file__).parent.parent / "support"


def untimed(text: str) -> str:
    return re.sub(r"[\d.]+ s of processor time.*", "", text)


@pytest.mark.slow
def test_processes_find_what_one_process_finds_and_write_the_same_files(
    cli: Cli, tmp_path: Path
) -> None:
    one = cli("fuzz", *LOOP, "--runs", "30", "--out", tmp_path / "1")
    two = cli("fuzz", *LOOP, "--runs", "30", "--out", tmp_path / "1x", "--jobs", "2")
    assert "30 runs of searching:repeats" in one.stdout
    assert untimed(two.stdout).replace("1x", "1") == untimed(one.stdout)
    files = [file.name for file in sorted((tmp_path / "1").glob("*.yaml"))]
    assert files == [file.name for file in sorted((tmp_path / "1x").glob("*.yaml"))] != []
    for name in files:
        assert (tmp_path / "1" / name).read_text() == (tmp_path / "1x" / name).read_text()


@pytest.mark.slow
def test_a_repeated_command_resumes_the_search_and_counts_its_runs(
    cli: Cli, tmp_path: Path
) -> None:
    cli("fuzz", *LOOP, "--runs", "30", "--out", tmp_path)
    (first, *_) = sorted(tmp_path.glob("*.simloop.yaml"))
    resumed = cli("fuzz", *LOOP, "--runs", "60", "--out", tmp_path, "--format", "json")
    assert "search.jsonl has 30 runs of this search already" in resumed.stderr
    report = json.loads(resumed.stdout)
    assert report["runs"] == 60
    at_once = json.loads(cli("fuzz", *LOOP, "--runs", "60", "--format", "json").stdout)
    timed = {"cpu_s", "failures"}
    assert {k: v for k, v in report.items() if k not in timed} == {
        k: v for k, v in at_once.items() if k not in timed
    }
    names = [(each["name"], each["run"], each["count"]) for each in report["failures"]]
    assert names == [(each["name"], each["run"], each["count"]) for each in at_once["failures"]]
    again = cli("fuzz", *LOOP, "--runs", "60", "--out", tmp_path)
    assert again.stdout.count("FAILED") == 0, "it was printed when it was found"
    assert str(first) in again.stdout


@contextmanager
def searching(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A search in two processes that has written a failure."""
    command = [sys.executable, "-m", "simloop", "fuzz", *SEARCH, "--out", str(folder)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=SUPPORT
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("FAILED")
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_search_that_is_terminated_has_reported_and_written_its_failures(tmp_path: Path) -> None:
    with searching(tmp_path) as process:
        while not list(tmp_path.glob("*.simloop.yaml")):  # it is written when it is printed
            time.sleep(0.05)
        process.terminate()
        printed, noted = process.communicate()
    assert process.returncode == 143
    assert "interrupted: the report covers the runs so far" in noted
    (runs,) = re.findall(r"([\d,]+) runs of searching:repeats", printed)
    stored = [json.loads(line) for line in (tmp_path / "search.jsonl").read_text().splitlines()]
    assert int(runs.replace(",", "")) == sum(
        line["runs"] for line in stored if line["line"] == "range"
    )
    assert all(Path(file).exists() for file in re.findall(r"written to (.*)", printed))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="the children of a process are read there")
def test_a_search_that_is_killed_leaves_no_workers(tmp_path: Path) -> None:
    with searching(tmp_path) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) >= 2
        process.send_signal(signal.SIGKILL)
        process.wait()
        while any(Path(f"/proc/{child}").exists() for child in children):
            time.sleep(0.1)


@pytest.mark.slow
def test_a_search_runs_on_a_dask_cluster(cli: Cli, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with distributed.LocalCluster(processes=True, **options) as cluster:
        shown = cli("fuzz", *LOOP, "--runs", "30", "--dask", cluster.scheduler_address)
    assert untimed(shown.stdout) == untimed(cli("fuzz", *LOOP, "--runs", "30").stdout)


@pytest.mark.slow
def test_an_address_without_a_scheduler_is_refused(cli: Cli) -> None:
    pytest.importorskip("distributed")
    shown = cli("fuzz", *LOOP, "--runs", "1", "--dask", "tcp://127.0.0.1:1")
    assert shown.exit_code == 2
    assert "no Dask scheduler answers" in shown.stderr

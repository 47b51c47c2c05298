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

from simloop.fuzz import executor
from simloop.scenario.loader import load_scenario

LOOP = ("--loop", "searching:repeats", "--seed", "3")
ENDLESS = (*LOOP, "--runs", "1000000", "--jobs", "2")
SUPPORT = Path(__file__).parent.parent / "support"


def untimed(text: str) -> str:
    return re.sub(r"[\d.]+ s of processor time.*", "", text)


@pytest.mark.slow
def test_processes_find_what_one_process_finds_and_write_the_same_files(
    cli: Cli, tmp_path: Path
) -> None:
    one = cli("fuzz", *LOOP, "--runs", "90", "--out", tmp_path / "1")
    two = cli("fuzz", *LOOP, "--runs", "90", "--out", tmp_path / "1x", "--jobs", "2")
    assert "90 runs of searching:repeats" in one.stdout
    assert untimed(two.stdout).replace("1x", "1") == untimed(one.stdout)
    files = [file.name for file in sorted((tmp_path / "1").glob("*.yaml"))]
    assert files == [file.name for file in sorted((tmp_path / "1x").glob("*.yaml"))] != []
    for name in files:
        assert (tmp_path / "1" / name).read_text() == (tmp_path / "1x" / name).read_text()


@pytest.mark.slow
def test_a_repeated_command_resumes_the_search_and_counts_its_runs(
    cli: Cli, tmp_path: Path
) -> None:
    cli("fuzz", *LOOP, "--runs", "60", "--out", tmp_path)
    (first, *_) = sorted(tmp_path.glob("*.simloop.yaml"))
    resumed = cli("fuzz", *LOOP, "--runs", "90", "--out", tmp_path, "--format", "json")
    assert "search.jsonl has 60 runs of this search already" in resumed.stderr
    report = json.loads(resumed.stdout)
    assert report["runs"] == 90
    at_once = json.loads(cli("fuzz", *LOOP, "--runs", "90", "--format", "json").stdout)
    timed = {"cpu_s", "failures"}
    assert {k: v for k, v in report.items() if k not in timed} == {
        k: v for k, v in at_once.items() if k not in timed
    }
    names = [(each["name"], each["run"], each["count"]) for each in report["failures"]]
    assert names == [(each["name"], each["run"], each["count"]) for each in at_once["failures"]]
    again = cli("fuzz", *LOOP, "--runs", "90", "--out", tmp_path)
    assert again.stdout.count("FAILED") == 0, "it was printed when it was found"
    assert str(first) in again.stdout


@pytest.mark.slow
def test_a_run_that_ends_its_process_is_a_failure_of_the_loop(cli: Cli, tmp_path: Path) -> None:
    shown = cli(
        "fuzz", "--loop", "searching:dies", "--runs", "60", "--jobs", "2", "--out", tmp_path
    )
    assert shown.exit_code == 1, shown.output
    assert "internal error" not in shown.output
    assert "60 runs of searching:dies" in shown.stdout
    (run,) = re.findall(r"FAILED ends-its-process in run (\d+): .* SIGKILL", shown.stdout)
    text = (tmp_path / "ends-its-process.simloop.yaml").read_text()
    assert f"--loop searching:dies --seed 0 --runs {run}" in text
    scenario = load_scenario(tmp_path / "ends-its-process.simloop.yaml")
    assert any("Look" in str(reply.say) for reply in scenario.model)


@pytest.mark.slow
def test_a_run_that_spins_is_named_and_ended_with_the_search(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor, "LONG_S", 0.5)
    monkeypatch.setattr(executor, "TICK_S", 0.1)
    shown = cli("fuzz", "--loop", "searching:looks", "--seconds", "0.5")
    assert shown.exit_code == 1, shown.output
    (run,) = re.findall(r"FAILED finishes in run (\d+): run \1 of seed 0 had not", shown.stdout)
    last = int(run)
    assert f"{last} runs of searching:looks" in shown.stdout


@contextmanager
def searching(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A search in two processes that has written a failure."""
    command = [sys.executable, "-m", "simloop", "fuzz", *ENDLESS, "--out", str(folder)]
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
        shown = cli("fuzz", *LOOP, "--runs", "60", "--dask", cluster.scheduler_address)
    assert untimed(shown.stdout) == untimed(cli("fuzz", *LOOP, "--runs", "60").stdout)


@pytest.mark.slow
def test_an_address_without_a_scheduler_is_refused(cli: Cli) -> None:
    pytest.importorskip("distributed")
    shown = cli("fuzz", *LOOP, "--runs", "1", "--dask", "tcp://127.0.0.1:1")
    assert shown.exit_code == 2
    assert "no Dask scheduler answers" in shown.stderr

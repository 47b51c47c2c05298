import json
import logging
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
from simloop.scenario.loader import load_declared, load_scenario

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


def test_files_that_runs_leave_in_the_working_folder_are_named(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_agent_that_notes.py").write_text(
        "async def agent(prompt, world):\n    open('notes.txt', 'a').close()\n    return 'Done.'\n"
    )
    search = "fuzz", "--runs", "2", "--loop", "own_agent_that_notes:agent"
    named = "the working folder has changed: notes.txt; each run finds what the others have left"
    assert named in cli(*search).stderr
    assert "the working folder" not in cli(*search, "--out", ".").stderr


def test_the_output_of_the_search_itself_is_no_file_of_its_runs(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("async def agent(prompt, world):\n    raise KeyError(1)\n")
    command = [sys.executable, "-m", "simloop", "fuzz", "--runs", "2", "--loop", "wrong:agent"]
    with (tmp_path / "report.txt").open("w") as report:
        done = subprocess.run(
            command, stdout=report, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
        )
    assert "FAILED no-mistake-in-the-code" in (tmp_path / "report.txt").read_text()
    assert "the working folder" not in done.stderr


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
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("searching.COUNTER", tmp_path / "counter")
    folder, loop = tmp_path / "found", "searching:counts_in_a_file"
    shown = cli("fuzz", "--runs", "40", "--loop", loop, "--out", str(folder))
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
    (old,) = tmp_path.glob("agent-respects*.yaml")
    text = old.read_text()
    with file_size_limit(10):
        shown = cli("fuzz", *arguments, "--seed", "1")
    assert shown.exit_code == 2, shown.output
    assert "File too large" in shown.stderr
    assert old.read_text() == text


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
    own = tmp_path / "own.simloop.yaml"
    own.write_text("{prompt: Hi, loop: react, model: [{say: Hello.}]}")
    assert "3 runs of react" in cli("fuzz", "--runs", "3", "--from", str(own)).stdout


LOOP = ("--loop", "searching:repeats", "--seed", "3")
SEARCH = (*LOOP, "--runs", "1000000", "--jobs", "2")
SUPPORT = Path(__file__).parent.parent / "support"


def untimed(text: str) -> str:
    return re.sub(r"[\d.]+ s of processor time.*", "", text)


@pytest.mark.slow
def test_processes_find_what_one_process_finds_and_write_the_same_files(
    cli: Cli, tmp_path: Path
) -> None:
    one = cli("fuzz", *LOOP, "--runs", "15", "--out", tmp_path / "1")
    two = cli("fuzz", *LOOP, "--runs", "15", "--out", tmp_path / "1x", "--jobs", "2")
    assert "15 runs of searching:repeats" in one.stdout
    assert untimed(two.stdout).replace("1x", "1") == untimed(one.stdout)
    files = [file.name for file in sorted((tmp_path / "1").glob("*.yaml"))]
    assert files == [file.name for file in sorted((tmp_path / "1x").glob("*.yaml"))] != []
    for name in files:
        assert (tmp_path / "1" / name).read_text() == (tmp_path / "1x" / name).read_text()


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
    assert int(runs.replace(",", "")) > 0
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


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--budget", "5"), "'--budget'"),
        (("--budget", "0s"), "'--budget': must be longer than 0"),
        (("--budget", "soon"), "'--budget'"),
        (("--provider", "lax"), "'--provider'"),
        (("--runs", "0"), "'--runs'"),
    ],
)
def test_a_budget_has_a_unit_and_a_length(cli: Cli, arguments: tuple[str, str], why: str) -> None:
    shown = cli("fuzz", *arguments)
    assert shown.exit_code == 2
    assert why in shown.stderr


def test_a_budget_is_a_time_of_the_processor_in_any_unit(cli: Cli) -> None:
    shown = cli("fuzz", "--loop", "react", "--budget", "20ms", "--format", "json")
    report = json.loads(shown.stdout)
    assert report["runs"] >= 1
    assert report["cpu_s"] >= 0.02


AGENTS = '''
import json
import asyncio
import logging
import logging
import sys

import msgspec
from simloop import ToolMessage, UserMessage, World
from simloop.loops.reference import ReferenceLoop
from simloop.messages import ToolSpec
from simloop.world.model_port import ModelCallFailed
from windowed import Windowed

print("printed by the module")
logging.basicConfig(level=logging.DEBUG, format="logged: %(message)s", stream=sys.stdout)
SPECS = [ToolSpec(name, "", msgspec.Raw(b'{"properties": {"of": {"type": "string"}}}'))
         for name in ("look", "act")]

async def noisy(prompt: str, world: World) -> str:
    """Print, log, and fail whenever it is to call a tool."""
    print("printed on stdout")
    print("printed on stderr", file=sys.stderr)
    logging.warning("something")
    reply = await world.model.reply([UserMessage(prompt)], tools=SPECS)
    assert not reply.message.calls, "not yet"
    return reply.message.text

async def twice_wrong(prompt: str, world: World) -> str:
    """Send a result without a call, and fail."""
    await world.model.reply([UserMessage(prompt), ToolMessage("no-such-call", "x")])
    return {}["answer"]

class Patient(ReferenceLoop):
    """Make one step more than it may."""

    def _exceeded(self, run):
        return None if run.total_steps == self.limits.max_steps else super()._exceeded(run)

async def asks_nobody(prompt: str, world: World) -> str:
    return "Done."

async def hastens(prompt: str, world: World) -> str:
    """Ask again after a second, whatever has failed, and give up after three failures."""
    for _ in range(3):
        try:
            return (await world.model.reply([UserMessage(prompt)])).message.text
        except ModelCallFailed:
            await asyncio.sleep(1)
    raise RuntimeError("given up")

class Counts(Windowed):
    """Fail if the arguments of a call are null."""

    async def act(self, reply, world: World) -> None:
        assert "null" not in [call.arguments for call in reply.calls]
        await super().act(reply, world)
'''


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "agents_of_a_user.py").write_text(AGENTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(logging.root, "handlers", [])
    return "agents_of_a_user"


def test_a_report_says_the_world_what_the_agent_did_and_how_to_run_it(
    cli: Cli, agents: str
) -> None:
    shown = cli("fuzz", "--loop", f"{agents}:noisy", "--runs", "3", "--out", "found")
    assert shown.exit_code == 1
    assert "printed" not in shown.stdout
    assert "logged" not in shown.output
    lines = shown.stdout.splitlines()
    at = lines.index(
        "no-mistake-in-the-code: A run of an agent does not fail by a mistake in its code, "
        "such as a KeyError."
    )
    assert lines[at + 1].startswith("  world:    the model calls look(")
    assert lines[at + 2 : at + 6] == [
        "  result:   AssertionError: not yet after a reply that calls look",
        "  found in 1 world, first in run 1",
        "  file:     found/no-mistake-in-the-code.simloop.yaml",
        "  run it:   simloop run found/no-mistake-in-the-code.simloop.yaml",
    ]
    assert "calls: look 1" in lines
    assert "never called: act" in lines
    again = cli("run", "found/no-mistake-in-the-code.simloop.yaml")
    assert lines[at + 1].removeprefix("  world:    ") in again.stdout
    assert "AssertionError: not yet" in again.stdout


def test_two_findings_of_one_run_are_both_reported_and_have_a_file_each(
    cli: Cli, agents: str
) -> None:
    shown = cli("fuzz", "--loop", f"{agents}:twice_wrong", "--runs", "9", "--out", "found")
    found = re.findall(r"FAILED (\S+) in run (\d+)", shown.stdout)
    first = {name for name, run in found if run == "1"}
    assert {"adjacent-results", "no-mistake-in-the-code"} <= first
    for name, _ in found:
        file = Path("found") / f"{name}.simloop.yaml"
        assert f"  run it:   simloop run {file}" in shown.stdout
        assert f"# {name}: " in file.read_text()


@pytest.mark.slow
def test_a_provider_that_breaks_its_contract_is_searched_with_provider_any(
    cli: Cli, agents: str
) -> None:
    search = ("fuzz", "--loop", f"{agents}:Counts", "--runs", "300", "--seed", "3")
    strict = cli(*search, "--provider", "strict")
    assert "no failures" in strict.stdout
    lax = cli(*search, "--provider", "any", "--out", "found")
    assert "result:   AssertionError" in lax.stdout
    text = Path("found/no-mistake-in-the-code.simloop.yaml").read_text()
    assert f"--loop {agents}:Counts --seed 3 --provider any --runs" in text


END = (
    "and the design ends as max-steps (max_steps) by "
    "EndRun(message='', text_first=False, keep=True)"
)


def test_a_machine_that_decides_otherwise_than_its_design_has_no_file(
    cli: Cli, agents: str
) -> None:
    shown = cli("fuzz", "--loop", f"{agents}:Patient", "--runs", "1", "--out", "found")
    assert shown.exit_code == 1
    assert "FAILED differs-from-design in run 1: after began" in shown.stdout
    at = (lines := shown.stdout.splitlines()).index(
        "differs-from-design: A machine that declares a design decides as that design does."
    )
    assert lines[at + 2].endswith(END)
    assert lines[at + 3 : at + 5] == ["  found in 1 world, first in run 1", ""]
    assert "no file can hold the scenario of differs-from-design in run 1" in shown.stderr
    assert [*Path("found").glob("*.simloop.yaml")] == []


def test_a_report_says_that_no_run_has_asked_a_model(cli: Cli, agents: str) -> None:
    said = "no run has asked a model: `simloop run` with a scenario of one prompt shows why"
    assert said in cli("fuzz", "--loop", f"{agents}:asks_nobody", "--runs", "3").stdout
    assert said not in cli("fuzz", "--loop", f"{agents}:hastens", "--runs", "3").stdout
    assert said not in cli("fuzz", "--loop", "react", "--runs", "3").stdout


DECLARED = """limits: {max_error_count: 2, max_steps: 100}
retry: {initial_delay: 30s, max_delay: 30s}
mutating: [pay]
deviations: {retry-after-respected: it waits a second}
"""


def test_a_file_of_declarations_reaches_the_judge_and_the_file_of_a_failure(
    cli: Cli, agents: str
) -> None:
    search = ("fuzz", "--loop", f"{agents}:hastens", "--runs", "60")
    before = {each["name"] for each in cli.json(*search)["failures"]}
    Path("intention.yaml").write_text(DECLARED)
    found = cli.json(*search, "--declare", "intention.yaml", "--out", "found")["failures"]
    names = {each["name"] for each in found}
    assert names - before == {
        "agent-respects-its-limits", "agent-backoff-matches-policy", "no-empty-answers",
    }  # fmt: skip
    assert before - names == {"retry-after-respected"}
    file = Path("found/agent-respects-its-limits.simloop.yaml")
    declares = load_scenario(file).declares
    assert declares == load_declared("intention.yaml")
    assert "max_error_count=2" in cli("run", file).output


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("limits:\n  max_stepz: 3\n", "mine.yaml:2:3: limits.max_stepz: "),
        ("mutating: pay\n", "mine.yaml:1:11: mutating: "),
        ("prompt: Go.\n", "mine.yaml:1:1: prompt: "),
        ("- limits\n", "mine.yaml:1:1: "),
        ("retry: [\n", "mine.yaml:1:8: "),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_place(cli: Cli, text: str, error: str) -> None:
    Path("mine.yaml").write_text(text)
    refused = cli("fuzz", "--runs", "1", "--declare", "mine.yaml")
    assert refused.exit_code == 2
    assert error in refused.stderr

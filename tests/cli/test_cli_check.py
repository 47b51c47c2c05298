import itertools
import json
import signal
import subprocess
import sys
from typing import Any

import pytest
from commandline import Cli

from simloop.errors import InternalError
from simloop.kernel.retry import ExponentialBackoff
from simloop.runs.run import Simulation
from simloop.scenario.catalog import bundled

PASSES = """\
title: It answers
prompt: Hi
model: [{http: {status: 500}}, {say: Hello.}]
expect: {text: Hello.}
"""
FAILS = PASSES.replace("text: Hello.", "text: Bye.")
EXHAUSTED = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}]\n"
RUNAWAY = "prompt: Hi\ntools: {t: {takes: 100000h}}\nmodel: [{call: {t: {}}}]\n"
# A million transitions that use up replies: seconds of real time, which an interrupt can stop.
LONG = """\
prompt: Hi
limits: {max_steps: 1000000000}
compaction: {window: 1000000000000}
tools: {t: {}}
model: [{call: {t: {}}, times: 1000000}]
"""
HOSTILE = '"\\e[2J\\0\\r\\u202Ex\\x9b1m\\uFFFE<&>é"'


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry policy that remembers: each wait is longer, also in the next run."""
    numbers = itertools.count(2 * 10**9)
    monkeypatch.setattr(ExponentialBackoff, "delay_ns", lambda *_, **__: next(numbers))


class TestText:
    def test_of_scenarios_that_pass_is_a_count_with_virtual_time(self, cli: Cli) -> None:
        result = cli("check", cli.write("a", PASSES), cli.write("b", PASSES))
        assert (result.exit_code, result.stdout) == (0, "2 passed (4.000s virtual)\n")

    def test_names_them_when_asked_to(self, cli: Cli) -> None:
        result = cli("check", cli.write("a", PASSES), cli.write("bb", PASSES), "--verbose")
        assert result.stdout.splitlines() == [
            "ok      a.simloop.yaml   completed in 2s (virtual), 2 requests",
            "ok      bb.simloop.yaml  completed in 2s (virtual), 2 requests",
            "2 passed (4.000s virtual)",
        ]

    def test_names_those_that_fail_and_why_and_how_to_see_it(self, cli: Cli) -> None:
        result = cli("check", cli.write("a", PASSES), cli.write("b", FAILS), "--seed", "7")
        assert result.exit_code == 1
        assert result.stdout.splitlines() == [
            "FAILED  b.simloop.yaml  completed in 2s (virtual), 2 requests",
            "        expect.text: expected 'Bye.', got 'Hello.'",
            "        reproduce: simloop run b.simloop.yaml --seed 7",
            "1 passed, 1 failed (4.000s virtual)",
        ]

    def test_names_what_does_not_hold_beside_an_expected_error(self, cli: Cli) -> None:
        text = "prompt: Go.\nmodel: []\nexpect: {error: ScriptExhausted, requests: 2}\n"
        assert cli("check", cli.write("a", text)).stdout.splitlines() == [
            "FAILED  a.simloop.yaml  no outcome after 0s (virtual), 1 request",
            "        expect.requests: expected 2, got 1",
            "        reproduce: simloop run a.simloop.yaml --seed 0",
            "0 passed, 1 failed (0.000s virtual)",
        ]

    def test_goes_on_to_the_last_whatever_the_first_ones_do(self, cli: Cli) -> None:
        files = [cli.write("a", "modell: ["), cli.write("b", EXHAUSTED), cli.write("c", RUNAWAY)]
        result = cli("check", *files, cli.write("d", FAILS), "no-such-name", cli.write("e", PASSES))
        assert result.exit_code == 2
        words = [line.split()[0] for line in result.stdout.splitlines() if line[0] != " "]
        assert words == ["ERROR", "FAILED", "FAILED", "FAILED", "ERROR", "1"]
        assert result.stdout.splitlines()[-1].startswith("1 passed, 3 failed, 2 errors (")
        complaints = ("a.simloop.yaml:1:", "b.simloop.yaml: model:", "there is no scenario")
        assert all(complaint in result.stderr for complaint in complaints)


class TestARunThatIsNotTheSameTwice:
    pytestmark = pytest.mark.usefixtures("counting")

    def test_fails_and_shows_where_the_runs_part(self, cli: Cli) -> None:
        result = cli("check", cli.write("a", PASSES))
        assert result.exit_code == 1
        assert result.stdout.splitlines()[0] == (
            "FAILED  a.simloop.yaml  completed in 2s (virtual), 2 requests, "
            "not the same when run again"
        )
        lines = result.stderr.splitlines()
        assert lines[0] == "two runs of the same scenario with the same seed differ"
        assert lines[1].endswith("backoff.delay_ns:")
        assert lines[5:8] == [
            "  - first run   2000000000",
            "  + second run  2000000001",
            "reproduce: simloop check a.simloop.yaml --seed 0",
        ]

    def test_is_false_in_json_and_an_error_with_its_message(self, cli: Cli) -> None:
        (run,) = cli.runs("check", cli.write("a", PASSES))
        assert run["deterministic"] is False
        assert run["failures"] == []
        assert run["status"] == "failed"
        (error,) = run["errors"]
        assert error["type"] == "ReplayDiverged"
        assert "backoff.delay_ns" in error["message"]
        assert error["reproduce"] == "simloop check a.simloop.yaml --seed 0"


class TestJson:
    def test_is_as_that_of_run_and_says_whether_it_is_deterministic(self, cli: Cli) -> None:
        name = cli.write("a", PASSES)
        ran = json.loads(cli("run", name, "--format", "json").stdout)
        (run,) = cli.runs("check", name)
        assert run.pop("deterministic") is True
        assert run == ran["runs"][0]


class TestExitCodes:
    @pytest.mark.parametrize("output_format", ["text", "json"])
    @pytest.mark.parametrize(
        ("texts", "code"),
        [((PASSES, PASSES), 0), ((PASSES, FAILS), 1), ((FAILS, "x"), 2), (("x", RUNAWAY), 2)],
        ids=["passed", "failed", "failed-and-unreadable", "unreadable-and-runaway"],
    )
    def test_are_the_worst_of_all(
        self, cli: Cli, texts: tuple[str, ...], code: int, output_format: str
    ) -> None:
        files = [cli.write(f"s{number}", text) for number, text in enumerate(texts)]
        assert cli("check", *files, "--format", output_format).exit_code == code

    def test_say_2_once_for_an_unknown_loop_and_a_bad_seed(self, cli: Cli) -> None:
        name = cli.write("a", PASSES)
        for arguments in (["--loop", "nosuch"], ["--seed", "-1"]):
            result = cli("check", name, name, *arguments)
            assert (result.exit_code, result.stdout) == (2, "")

    def test_say_3_where_simloop_is_wrong_and_check_the_others(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = Simulation.run

        def break_down(self: Simulation) -> Any:
            if self.scenario.path == "a.simloop.yaml":
                raise InternalError("broken")
            return run(self)

        monkeypatch.setattr(Simulation, "run", break_down)
        result = cli("check", cli.write("a", PASSES), cli.write("b", PASSES))
        assert result.exit_code == 3
        assert result.stdout.splitlines()[-1].startswith("1 passed, 1 error")
        assert "please report it" in result.stderr

    @pytest.mark.slow
    def test_say_130_after_ctrl_c_and_what_was_found_so_far(self, cli: Cli) -> None:
        files = [cli.write("a", FAILS), cli.write("long", LONG)]
        command = [sys.executable, "-m", "simloop", "check", *files]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None
            first = process.stdout.readline()  # so the second one is about to run, or runs
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate(timeout=60)
        assert process.returncode == 130
        assert first.startswith("FAILED  a.simloop.yaml")
        assert "interrupted" in complaint.split()


class TestSettings:
    def test_replace_those_of_the_scenario(self, cli: Cli) -> None:
        name = cli.write("a", f"loop: not.here:Loop\nseed: 3\n{PASSES}")
        (run,) = cli.runs("check", name, "--seed", "9", "--loop", "reference")
        assert (run["seed"], run["loop"], run["deterministic"]) == (9, "reference", True)


@pytest.mark.slow
def test_every_bundled_scenario_passes_and_is_the_same_twice(cli: Cli) -> None:
    names = [one.name for one in bundled()]
    runs = cli.runs("check", *names)
    assert [run["name"] for run in runs] == names
    assert [run["name"] for run in runs if not run["deterministic"] or run["failures"]] == []


class TestAScenarioThatTheLoopCannotExpress:
    HOOKED = "prompt: Hi\nhooks: [{at: before_llm_call}]\nmodel: [{say: Hello.}]\n"

    def test_has_neither_passed_nor_failed(self, cli: Cli) -> None:
        files = cli.write("a", self.HOOKED), cli.write("b")
        result = cli("check", *files, "--loop", "react", "--verbose")
        assert result.exit_code == 0
        assert result.stdout.splitlines() == [
            "cannot  a.simloop.yaml  react has no hooks",
            "ok      b.simloop.yaml  completed in 0s (virtual), 1 request",
            "react cannot express 1 scenario: react has no hooks",
            "1 passed, 1 cannot be expressed (0.000s virtual)",
        ]
        assert "cannot" not in result.stderr

    def test_is_marked_in_json(self, cli: Cli) -> None:
        (run,) = cli.runs("check", cli.write("a", self.HOOKED), "--loop", "react")
        assert (run["loop"], run["deterministic"], run["status"]) == ("react", None, "cannot")
        assert [error["type"] for error in run["errors"]] == ["CannotExpress"]

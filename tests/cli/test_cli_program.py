"""A whole program on the command line: --program in each command that runs one, and --isolate."""

import json
import re
from pathlib import Path

import pytest
from commandline import Cli

from simloop import Reply, Scenario
from simloop.check.trial import Rules, Until, trial
from simloop.runs.plan import Plan

ECHOES = """
import sys, time
from simloop.messages import UserMessage
from simloop.virtual.threads.calls import run_blocking
from simloop.world.world import current_world

time.sleep(1)
completion = run_blocking(current_world().model.reply([UserMessage(sys.argv[1])]))
print(completion.message.text)
"""
COMMAND = "echoes.py {prompt}"
PASSES = "prompt: Hi\nmodel: [{say: Hello.}]\nexpect: {exit: 0, text: Hello., elapsed: 1s}\n"


@pytest.fixture(autouse=True)
def _(cli: Cli) -> None:
    cli.file("echoes.py", ECHOES)
    cli.write("a", PASSES)


@pytest.mark.slow
def test_run_shows_the_output_of_a_program_and_judges_its_exit_status(cli: Cli) -> None:
    shown = cli("run", "a.simloop.yaml", "--program", COMMAND)
    assert shown.exit_code == 0, shown.output
    assert "loop $ echoes.py {prompt}, seed 0" in shown.stdout
    assert re.search(r"output +Hello\.\\n \[stdout\]", shown.stdout)
    cli.write("b", PASSES.replace("exit: 0", "exit: 2"))
    failed = cli("run", "b.simloop.yaml", "--program", COMMAND)
    assert failed.exit_code == 1
    assert "expect.exit: expected 2, got 0" in failed.stdout
    again = "reproduce: simloop run b.simloop.yaml --seed 0 --loop '$ echoes.py {prompt}'"
    assert again in failed.stdout


@pytest.mark.slow
def test_a_scenario_names_its_program_as_the_loop(cli: Cli) -> None:
    cli.write("c", f"{PASSES}loop: $ {COMMAND}\n")
    assert cli("check", "c.simloop.yaml").exit_code == 0


@pytest.mark.slow
def test_a_recorded_trace_of_a_program_is_replayed(cli: Cli) -> None:
    assert cli("record", "a.simloop.yaml", "--program", COMMAND, "--to", "t").exit_code == 0
    (trace,) = Path("t").glob("*.jsonl")
    ended = [json.loads(line) for line in trace.read_text("utf-8").splitlines()][-2]
    assert (ended["kind"], ended["exit"]) == ("ended", 0)
    assert cli("replay", trace, "--loop", f"$ {COMMAND}").exit_code == 0


@pytest.mark.slow
def test_fuzz_searches_worlds_for_a_program(cli: Cli) -> None:
    shown = cli("fuzz", "--program", COMMAND, "--runs", "2", "--format", "json")
    assert json.loads(shown.stdout)["loop"] == f"$ {COMMAND}"
    assert json.loads(shown.stdout)["runs"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("until", [Until.END, Until.VIOLATION])
def test_a_program_is_judged_by_the_process_that_has_its_trace(cli: Cli, until: Until) -> None:
    cli.file("fails.py", f"{ECHOES}\nraise KeyError(sys.argv[1])\n")
    scenario = Scenario(loop="$ fails.py {prompt}", prompt="Hi", model=[Reply(say="Hello.")])
    found = trial(Plan(scenario, {}), Rules(expectations=False), until).every_failure()
    assert ("no-mistake-in-the-code", "KeyError: 'Hi'") in [each[:2] for each in found]


def test_a_program_and_a_loop_exclude_each_other(cli: Cli) -> None:
    for verb in (("run", "a.simloop.yaml"), ("fuzz",)):
        shown = cli(*verb, "--program", COMMAND, "--loop", "pi")
        assert shown.exit_code == 2
        assert "give --program or --loop: a program is the loop" in shown.stderr


def test_a_program_that_there_is_not_ends_the_command(cli: Cli) -> None:
    shown = cli("run", "a.simloop.yaml", "--program", "no-such-script")
    assert shown.exit_code == 2
    assert "there is no console script `no-such-script`" in shown.stderr


@pytest.mark.slow
def test_isolated_runs_share_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(cli.folder)
    cli.file("counting.py", "calls = []\ndef agent(prompt: str) -> str:\n"
             "    calls.append(prompt)\n    return str(len(calls))\n")  # fmt: skip
    cli.write("d", "prompt: Hi\nloop: counting:agent\n")
    shown = cli("check", "d.simloop.yaml")
    assert shown.exit_code == 1
    assert "each in a process of its own, two runs are equal (--isolate)" in shown.stderr
    assert cli("check", "d.simloop.yaml", "--isolate").exit_code == 0

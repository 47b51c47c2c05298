"""Agents that end or break more than their own run, and agents that print, in every command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from commandline import Cli

from simloop.runs import patience

AGENTS = """
import asyncio, logging, os, sys, threading

print("imported")
log = logging.Logger("bot")  # of its own: that of pytest has handlers already
handler = logging.StreamHandler()
handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
log.addHandler(handler)


class Own(BaseException):
    pass


def close():
    sys.stdout.close()
    sys.stderr.close()


def end(how):
    match how:
        case "interrupt":
            raise KeyboardInterrupt
        case "exit":
            sys.exit(0)
        case "own":
            raise Own("\\x1b[31mred")


HOW = []


async def ends(prompt):
    end(HOW[0])


def ends_plainly(prompt: str):
    end(HOW[0])


async def leaves(prompt):
    os._exit(0)


def leaves_plainly(prompt: str):
    os._exit(0)


async def leaves_in_a_thread(prompt):
    await asyncio.to_thread(os._exit, 0)


async def closes(prompt):
    close()
    return "Done."


def closes_plainly(prompt: str):
    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    return "Done."


def talk():
    print("said \\x1b[31mred")
    print("complained", file=sys.stderr)
    log.info("logged")


async def talks(prompt):
    talk()
    await asyncio.to_thread(print, "from a thread")
    return "Done."


async def talks_and_fails(prompt):
    await talks(prompt)
    raise ValueError("no answer")


def talks_and_fails_plainly(prompt: str):
    talk()
    print("from a thread")
    raise ValueError("no answer")


async def computes(prompt):
    while True:
        pass


async def talks_for_ever(prompt, world):
    from simloop import UserMessage

    talk()
    while True:
        await world.model.reply([UserMessage(prompt)])
"""
SAID = ["said \\x1b[31mred", "from a thread"]
LOGGED = ["complained", "INFO logged"]
ALL = [*SAID, *LOGGED]


@pytest.fixture(autouse=True)
def _(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.file("ending_bot.py", AGENTS)
    cli.write("a", "prompt: Go.\n")
    monkeypatch.syspath_prepend(cli.folder)
    monkeypatch.delitem(sys.modules, "ending_bot", raising=False)


def simloop(cli: Cli, verb: str, agent: str, *arguments: str) -> Result:
    return cli(verb, *arguments, "--loop", f"ending_bot:{agent}")


def test_an_agent_that_computes_for_ever_is_broken_off_with_its_place(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 2.0)  # on a busy machine, the start takes long
    ran = simloop(cli, "run", "computes", "a.simloop.yaml")
    assert ran.exit_code == 1
    assert "the run had not ended after 60 s of real time, at ending_bot.py:" in ran.stderr
    assert "in computes" in ran.stderr


@pytest.mark.parametrize("agent", ["ends", "ends_plainly"])
@pytest.mark.parametrize(
    ("how", "words"),
    [("interrupt", "KeyboardInterrupt"), ("exit", "SystemExit: 0"), ("own", "Own: \\x1b[31mred")],
)
def test_an_agent_that_ends_its_program_is_a_failed_run_in_every_command(
    cli: Cli, how: str, words: str, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path.cwd())
    bot = __import__("ending_bot")
    bot.HOW.append(how)
    ran = simloop(cli, "run", agent, "a.simloop.yaml", "--trace", "a.jsonl")
    assert ran.exit_code == 1
    assert f"failed        Error: {words}" in ran.stdout
    assert "expect.outcome: expected completed, got failed" in ran.stdout
    checked = simloop(cli, "check", agent, "a.simloop.yaml")
    assert (checked.exit_code, "not the same" in checked.stdout) == (1, False)
    assert "\x1b" not in ran.output + checked.output
    assert simloop(cli, "replay", agent, "a.jsonl").exit_code == 0
    searched = simloop(cli, "fuzz", agent, "--runs", "25")
    assert searched.exit_code == 0
    assert "25 runs of ending_bot" in searched.stdout


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["leaves", "leaves_plainly", "leaves_in_a_thread"])
def test_an_agent_cannot_leave_without_a_word(agent: str) -> None:
    """In a process of its own: where this is not so, it would leave the tests as well."""
    verb = ["fuzz", "--runs", "1"] if agent == "leaves" else ["run", "a.simloop.yaml"]
    command = [sys.executable, "-m", "simloop", *verb, "--loop", f"ending_bot:{agent}"]
    ended = subprocess.run(
        command, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "os._exit is not available in a simulation: raise an exception" in ended.stderr
    assert "ending_bot.py" in ended.stderr or agent == "leaves_in_a_thread"


@pytest.mark.parametrize("agent", ["closes", "closes_plainly"])
def test_an_agent_that_closes_its_streams_closes_no_report(cli: Cli, agent: str) -> None:
    for arguments in (["run", "a.simloop.yaml"], ["check", "a.simloop.yaml", "-v"]):
        verb, *others = arguments
        ended = simloop(cli, verb, agent, *others)
        assert ended.exit_code == 0
        assert "ok      a.simloop.yaml  completed" in ended.stdout
    assert "25 runs of ending_bot" in simloop(cli, "fuzz", agent, "--runs", "25").stdout


def test_the_words_of_an_agent_are_in_no_report_of_a_run_that_passes(cli: Cli) -> None:
    for verb in ("run", "check"):
        ended = simloop(cli, verb, "talks", "a.simloop.yaml")
        assert ended.exit_code == 0
        assert not [words for words in ALL if words.partition(" ")[0] in ended.output]


@pytest.mark.parametrize("agent", ["talks_and_fails", "talks_and_fails_plainly"])
@pytest.mark.parametrize("verb", ["run", "check"])
def test_the_words_of_an_agent_are_shown_below_the_run_that_fails(
    cli: Cli, verb: str, agent: str
) -> None:
    shown = simloop(cli, verb, agent, "a.simloop.yaml").stdout
    _, found, printed = shown.partition("        captured stdout:\n")
    assert found
    lines = [line.strip() for line in printed.splitlines()]
    assert lines[:5] == [*SAID, "captured stderr:", *LOGGED]
    assert "\x1b" not in shown


@pytest.mark.slow
def test_the_words_of_an_agent_are_in_the_json_of_a_search_and_not_in_its_report(cli: Cli) -> None:
    ended = simloop(cli, "fuzz", "talks_for_ever", "--runs", "10")
    assert ended.exit_code == 1
    assert "finishes: " in ended.stdout
    assert not [word for word in ("said", "complained", "logged") if word in ended.stdout]
    assert "complained" not in ended.stderr
    told = simloop(cli, "fuzz", "talks_for_ever", "--runs", "10", "--format", "json").stdout
    printed = {line.strip() for each in json.loads(told)["failures"] for line in each["printed"]}
    assert {"captured stdout:", "said \\x1b[31mred", "INFO logged"} <= printed

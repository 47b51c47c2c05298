"""An agent of the user's own, named on the command line, in every command that runs or reads it."""

import re
from pathlib import Path

import pytest
from commandline import Cli

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "agents.md"
LOOP = "mypkg.agents:support"
CALLS = """\
prompt: Look.
tools: {look: {returns: a tree, takes: 1s}}
model: [{http: {status: 429}}, {say: I look., call: {look: {}}}, {say: A tree.}]
expect: {outcome: completed, text: A tree., elapsed: 3s}
"""


@pytest.fixture(autouse=True)
def _(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent of the page about Python, in a module that commands can import."""
    (block,) = re.findall(r"^```python\n([^`]*async def support.*?)\n\nscenario = ",
                          PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)  # fmt: skip
    package = tmp_path / "mypkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "agents.py").write_text(block)
    (tmp_path / "a.simloop.yaml").write_text(CALLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_it_runs_and_its_timeline_has_the_requests_the_tool_and_the_end(cli: Cli) -> None:
    shown = cli("run", "a.simloop.yaml", "--loop", LOOP)
    assert shown.exit_code == 0
    assert f"loop {LOOP}, seed 0" in shown.stdout
    assert re.findall(r"(?:s  | {14})(\w[\w ]*?)  ", shown.stdout.partition("\n\n")[2]) == [
        "prompt", "request", "error", "sleep", "request", "text", "call", "finish", "tool",
        "tool result", "request", "text", "finish", "completed",
    ]  # fmt: skip


def test_the_expectations_of_its_owner_hold_for_a_bundled_scenario(cli: Cli) -> None:
    name = "retry/rate-limit"
    (line,) = re.findall(r"^expect_on = .*$", PAGE.read_text("utf-8"), re.MULTILINE)
    module, _, agent = LOOP.partition(":")
    for owner, said in (("of_owner", line), ("of_other", line.replace("completed", "failed"))):
        Path(f"{owner}.py").write_text(f"from {module} import {agent} as agent\nagent.{said}\n")
    assert cli("check", name, "--loop", "of_other:agent").exit_code == 1
    assert cli("check", name, "--loop", "of_owner:agent").exit_code == 0


def test_a_plain_function_that_may_be_an_agent_is_told_how_one_is_written(cli: Cli) -> None:
    Path("plain.py").write_text("def agent(question):\n    return 'x'\n")
    shown = cli("run", "a.simloop.yaml", "--loop", "plain:agent")
    assert shown.exit_code == 2
    assert "write its first parameter as `prompt: str` for an agent" in shown.stderr


def test_the_traceback_of_an_agent_that_fails_is_shown_by_run(cli: Cli) -> None:
    Path("failing.py").write_text("async def agent(prompt):\n    return 1 / 0\n")
    Path("c.simloop.yaml").write_text("prompt: Hi\nmodel: []\nexpect: {outcome: completed}\n")
    shown = cli("run", "c.simloop.yaml", "--loop", "failing:agent")
    assert shown.exit_code == 1
    assert "raised by the agent:\nTraceback" in shown.stderr
    assert 'failing.py", line 2, in agent\n' in shown.stderr
    assert "simloop/" not in shown.stderr.partition("raised by")[2]
    Path("c.simloop.yaml").write_text("prompt: Hi\nmodel: []\nexpect: {outcome: failed}\n")
    shown = cli("run", "c.simloop.yaml", "--loop", "failing:agent")
    assert (shown.exit_code, shown.stderr) == (0, "")


UNMADE = """\
import os
from pathlib import Path
from simloop import UserMessage

class Bot:
    def __init__(self, model="m"):
        print("connects")
        with Path("made").open("a") as file:
            file.write("x")
        raise ValueError("no database")

    async def __call__(self, prompt):
        return "Done."

def bot():
    raise SystemExit("no database")

class Keyed:
    def __init__(self):
        self.keys = os.environ["OPENAI_API_KEY"] + os.environ["ANTHROPIC_API_KEY"]

    async def __call__(self, prompt, world):
        return (await world.model.reply([UserMessage(prompt)])).message.text
"""
COMMANDS = (
    *("run a.simloop.yaml", "run .", "check .", "check . --format json", "compare ."),
    *("fuzz --runs 25", "shrink a.simloop.yaml"),
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("agent", "found"),
    [
        ("Bot", "ValueError: no database (it fails at unmade_bot.py:10 in Bot.__init__:"),
        ("bot", "SystemExit: no database (it fails at unmade_bot.py:16 in bot:"),
    ],
)
def test_an_agent_that_cannot_be_made_is_one_error_before_any_run(
    cli: Cli, agent: str, found: str, command: str
) -> None:
    Path("unmade_bot.py").write_text(UNMADE)
    Path("b.simloop.yaml").write_text(CALLS)
    ended = cli(*command.split(), "--loop", f"unmade_bot:{agent}")
    (line,) = ended.stderr.splitlines()
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert line.startswith(f"loop: the agent `unmade_bot:{agent}` cannot be made: {found}")
    if agent == "Bot":
        assert Path("made").read_text() == "x"


@pytest.mark.slow
def test_the_constructor_of_an_agent_has_dummy_keys(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    Path("unmade_bot.py").write_text(UNMADE)
    Path("hello.simloop.yaml").write_text("prompt: Hi\nmodel: [{say: Hello.}]\n")
    loop = ("--loop", "unmade_bot:Keyed")
    for verb in ("run", "check"):
        assert cli(verb, "hello.simloop.yaml", *loop).exit_code == 0
    assert "3 runs" in cli("fuzz", "--runs", "3", "--jobs", "1", *loop).stdout

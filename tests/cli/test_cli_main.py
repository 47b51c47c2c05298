import json
import os
import re
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import pytest
from commandline import Cli

import simloop.__main__
import simloop.cli
from simloop.cli import GROUPS, Verbs, main
from simloop.errors import Deadlock, ExpectationFailed, InternalError, ScenarioError

PASSES = "title: It answers\nprompt: Hi\nmodel: [{say: Hello.}]\n"
FAILS = f"{PASSES}expect: {{text: Bye.}}\n"
# A million transitions that use up replies: seconds of real time, which an interrupt can stop.
LONG = """\
prompt: Hi
limits: {max_steps: 1000000000}
compaction: {window: 1000000000000}
tools: {t: {}}
model: [{call: {t: {}}, times: 1000000}]
"""
SIMLOOP = [sys.executable, "-m", "simloop"]
ANSI = re.compile("\x1b\\[[0-9;]*m")


def environment(**changes: str) -> dict[str, str]:
    ours = ("NO_COLOR", "FORCE_COLOR", "SIMLOOP_DEBUG", "PYTHONIOENCODING")
    plain = {name: value for name, value in os.environ.items() if name not in ours}
    return {**plain, "TERM": "xterm", **changes}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.simloop.yaml").write_text(PASSES, "utf-8")
    (tmp_path / "b.simloop.yaml").write_text(FAILS, "utf-8")
    return tmp_path


HEAVY = {"pydantic", "msgspec", "yaml", "asyncio", "jsonschema_rs"}
FORBIDDEN = {"rich", "hypothesis", "pytest", "textual", "httpx"}


class TestAnswersAtOnce:
    @staticmethod
    def modules(*arguments: str) -> set[str]:
        """What Python has imported when the command line ends."""
        code = (
            "import atexit, sys\n"
            "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
            "from simloop.cli import main\n"
            "main(sys.argv[1:])"
        )
        command = [sys.executable, "-c", code, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        return set(ended.stderr.split())

    @pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["no-such-verb"]])
    def test_nothing_heavy_is_imported(self, arguments: list[str]) -> None:
        modules = self.modules(*arguments)
        assert "click" in modules
        assert not modules & (HEAVY | FORBIDDEN)

    def test_of_simloop_only_the_outermost_modules_are_imported(self) -> None:
        ours = {name for name in self.modules("--version") if name.startswith("simloop")}
        assert ours == {
            "simloop",
            "simloop.cli",
            "simloop.cli.process",
            "simloop.cli.terminal",
            "simloop.escape",
        }


class TestTheGroup:
    def test_help_names_every_verb_as_the_verb_describes_itself(self, cli: Cli) -> None:
        shown = cli("--help").stdout
        context = click.Context(main)
        for verb, (_, summary) in (pair for group in GROUPS.values() for pair in group.items()):
            command = main.get_command(context, verb)
            assert command is not None
            assert command.name == verb
            assert command.get_short_help_str(100) == summary
            assert re.search(rf"^  {verb} +{re.escape(summary)}$", shown, re.MULTILINE)

    @pytest.mark.parametrize(
        "arguments", [[], ["rnu"], ["--nosuch"], ["run"], ["show"], ["cat", "x", "y"]]
    )
    def test_wrong_usage_is_told_on_stderr(self, cli: Cli, arguments: list[str]) -> None:
        result = cli(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "Usage: " in result.stderr

    def test_the_version_is_that_of_the_distribution(self, cli: Cli) -> None:
        version = metadata.version("agent-simloop")
        result = cli("--version")
        assert result.exit_code == 0
        assert result.stdout == f"simloop {version}\n"

    def test_the_installed_command_is_that_of_the_module(self) -> None:
        (entry,) = metadata.entry_points(group="console_scripts", name="simloop")
        assert entry.load() is simloop.__main__.main


class TestExitCodes:
    @staticmethod
    def ending_with(error: Exception) -> Verbs:
        group = Verbs("simloop")

        @group.command("end")
        def end() -> None:
            raise error

        return group

    @pytest.mark.parametrize(
        ("error", "code", "said"),
        [
            (ScenarioError("it is wrong", path="a.yaml", line=3), 2, "a.yaml:3: it is wrong\n"),
            (ExpectationFailed("x", reproduce="cmd"), 1, "x\nreproduce: cmd\n"),
            (Deadlock("nothing\ncan run"), 1, "nothing\ncan run\n"),
            (ScenarioError("two\nlines \x1b[2J"), 2, "two\\nlines \\x1b[2J\n"),
        ],
    )
    def test_errors_of_ours_have_their_own(
        self, cli: Cli, error: Exception, code: int, said: str
    ) -> None:
        cli.command = self.ending_with(error)
        result = cli("end")
        assert result.exit_code == code
        assert result.stdout == ""
        assert result.stderr == said

    @pytest.mark.parametrize("error", [InternalError("broken"), ValueError("broken")])
    def test_what_nobody_expected_is_3_and_one_line(self, cli: Cli, error: Exception) -> None:
        cli.command = self.ending_with(error)
        result = cli("end", env={"SIMLOOP_DEBUG": ""})
        assert result.exit_code == 3
        assert result.stdout == ""
        start = f"internal error: {type(error).__name__}: broken; please report it"
        assert result.stderr.startswith(start)
        assert result.stderr.count("\n") == 1

    def test_the_traceback_is_there_when_it_is_asked_for(self, cli: Cli) -> None:
        cli.command = self.ending_with(ValueError("broken"))
        result = cli("end", env={"SIMLOOP_DEBUG": "1"})
        assert result.exit_code == 3
        assert result.stderr.startswith("Traceback (most recent call last):")
        assert result.stderr.splitlines()[-1].startswith("internal error: ValueError: broken")

    @pytest.mark.usefixtures("folder")
    @pytest.mark.parametrize(
        ("arguments", "code"),
        [
            (["run", "a.simloop.yaml"], 0),
            (["run", "b.simloop.yaml"], 1),
            (["run", "nosuch"], 2),
            (["schema"], 0),
        ],
    )
    @pytest.mark.slow
    def test_a_process_ends_with_them(self, arguments: list[str], code: int) -> None:
        ended = subprocess.run([*SIMLOOP, *arguments], capture_output=True, check=False)
        assert ended.returncode == code
        assert b"Traceback" not in ended.stderr

    @pytest.mark.usefixtures("folder")
    @pytest.mark.slow
    def test_ctrl_c_is_130_after_what_was_found_so_far(self) -> None:
        Path("long.simloop.yaml").write_text(LONG, "utf-8")
        command = [*SIMLOOP, "run", "a.simloop.yaml", "long.simloop.yaml"]
        pipe = subprocess.PIPE
        env = environment()
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env) as process:
            assert process.stdout is not None
            first = process.stdout.readline()  # so the second one is about to run, or runs
            process.send_signal(signal.SIGINT)
            rest, complaint = process.communicate(timeout=60)
        assert process.returncode == 130
        assert first.startswith("ok      a.simloop.yaml")
        assert rest == ""
        assert "interrupted" in complaint.split()
        assert "Traceback" not in complaint

    @pytest.mark.slow
    @pytest.mark.parametrize("how", ["raised", "swallowed"])
    def test_ctrl_c_while_modules_are_imported_is_130_without_a_traceback(
        self, how: str, tmp_path: Path
    ) -> None:
        swallow = "try:\n    {}\nexcept BaseException:\n    raise ImportError from None\n"
        interrupt = "__import__('signal').raise_signal(2)"
        source = swallow.format(interrupt) if how == "swallowed" else interrupt
        (tmp_path / "click.py").write_text(source)
        env = {**environment(), "PYTHONPATH": str(tmp_path)}
        ended = subprocess.run(SIMLOOP, env=env, capture_output=True, check=False)
        assert (ended.returncode, ended.stderr) == (130, b"interrupted\n")


class TestOutput:
    @pytest.mark.slow
    def test_a_reader_that_goes_away_ends_it_quietly(self) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as closed:
            command = [*SIMLOOP, "schema"]
            ended = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)
        assert ended.returncode == 141
        assert ended.stderr == b""

    @pytest.mark.slow
    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
    def test_a_full_device_is_one_line_on_stderr(self) -> None:
        with Path("/dev/full").open("wb") as full:
            command = [*SIMLOOP, "schema"]
            ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
        assert ended.returncode == 2
        assert ended.stderr == b"Error: stdout cannot be written: No space left on device\n"

    @pytest.mark.slow
    def test_a_terminal_that_lacks_a_character_gets_it_as_an_escape(self, folder: Path) -> None:
        path = folder / "a.simloop.yaml"
        path.write_text(PASSES.replace("Hello.", "Grüße ✓"), "utf-8")
        ended = subprocess.run(
            [*SIMLOOP, "run", str(path)],
            env=environment(PYTHONIOENCODING="latin-1"),
            capture_output=True,
            check=False,
        )
        assert ended.returncode == 0
        assert "Grüße \\u2713" in ended.stdout.decode("latin-1")


@pytest.mark.usefixtures("folder")
@pytest.mark.slow
class TestColour:
    COMMAND = (*SIMLOOP, "run", "a.simloop.yaml", "b.simloop.yaml")
    GREEN_OK, RED_FAILED = "\x1b[32mok    \x1b[0m", "\x1b[31mFAILED\x1b[0m"

    def piped(self, **changes: str) -> str:
        env = environment(**changes)
        ended = subprocess.run(self.COMMAND, env=env, capture_output=True, check=False)
        return ended.stdout.decode()

    def on_a_terminal(self, **changes: str) -> str:
        ours, theirs = os.openpty()
        with os.fdopen(theirs, "wb") as terminal:
            env = environment(**changes)
            subprocess.run(self.COMMAND, env=env, stdout=terminal, check=False)
        shown = os.read(ours, 100_000).decode()  # fails if there is nothing: no one has it open
        os.close(ours)
        return shown.replace("\r\n", "\n")

    def test_a_terminal_gets_a_little(self) -> None:
        shown = self.on_a_terminal()
        assert self.GREEN_OK in shown
        assert self.RED_FAILED in shown

    def test_a_pipe_gets_none(self) -> None:
        assert "\x1b" not in self.piped()

    def test_a_pipe_gets_it_by_force(self) -> None:
        assert self.GREEN_OK in self.piped(FORCE_COLOR="1")
        assert self.GREEN_OK in self.piped(FORCE_COLOR="1", TERM="dumb")

    def test_words_say_all_that_colour_says(self) -> None:
        assert ANSI.sub("", self.piped(FORCE_COLOR="1")) == self.piped()

    def test_json_has_none(self) -> None:
        command = [*self.COMMAND, "--format", "json"]
        env = environment(FORCE_COLOR="1")
        ended = subprocess.run(command, env=env, capture_output=True, check=False)
        document: dict[str, Any] = json.loads(ended.stdout)
        assert len(document["runs"]) == 2

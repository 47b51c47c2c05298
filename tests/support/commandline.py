"""The command line in this process, and the scenarios that it is given: the fixture `cli`."""

import json
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from simloop.cli import main

PASSES = """\
title: It answers
prompt: Hi
model: [{say: Hello.}]
expect: {outcome: completed, text: Hello.}
"""
FAILS = PASSES.replace("text: Hello.", "text: Bye.")
EXHAUSTED = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}]\n"
SMALL = ("--max-steps", "2", "--max-errors", "2", "--max-compactions", "1")


class Cli:
    """The command `simloop` without a process of its own, in the folder of the test.

    `cli("run", cli.write("a"))` has `exit_code`, `stdout`, `stderr`, and `output`, which holds
    both, without colour. `env` has other variables of the environment, `extra` what click's runner
    takes besides. `command` is the group of verbs.
    """

    def __init__(self, folder: Path, command: click.Command = main) -> None:
        self.folder = folder
        self.command = command

    def __call__(
        self, *arguments: str | Path, env: dict[str, str | None] | None = None, **extra: Any
    ) -> Result:
        runner = CliRunner(env={"NO_COLOR": "1", **(env or {})})
        return runner.invoke(self.command, [*map(str, arguments)], **extra)

    def json(self, *arguments: str | Path) -> Any:
        """Return what the command prints with `--format json`."""
        return json.loads(self(*arguments, "--format", "json").stdout)

    def runs(self, *arguments: str | Path) -> list[dict[str, Any]]:
        """Return the runs in what the command prints with `--format json`."""
        runs: list[dict[str, Any]] = self.json(*arguments)["runs"]
        return runs

    def write(self, name: str, text: str = PASSES) -> str:
        """Write a scenario; return the path that the command takes for it."""
        path = f"{name}.simloop.yaml"
        self.file(path, text)
        return path

    def file(self, path: str, text: str) -> Path:
        """Write any other file."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

"""Every command on a terminal of 60 and of 80 columns: no line is wider than that."""

import re
from pathlib import Path

import click.testing
import pytest
from commandline import Cli

from simloop.cli import terminal
from simloop.cli.terminal import cells

LONG = "この文はとても長いので折り返されます。" * 6
FILE = f"""\
title: {LONG}
prompt: {LONG}
tools: {{a_tool_with_a_rather_long_name: {{returns: "{LONG}"}}}}
model:
  - call: {{a_tool_with_a_rather_long_name: {{}}}}
  - say: {LONG}
expect: {{text: No.}}
"""


@pytest.fixture(params=[60, 80])
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A terminal of that width, for the streams that click's runner puts in place."""
    width: int = request.param
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda _: True)
    monkeypatch.setenv("COLUMNS", str(width))
    return width


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "FILE"),
        ("run", "FILE", "--loop", "all"),
        ("run", "FILE", "quickstart"),
        ("check", "FILE", "-v"),
        ("check", "loops/", "--loop", "react", "-v"),
        ("compare", "FILE"),
        ("compare", "retry/", "FILE"),
        ("record", "FILE", "--to", "."),
        pytest.param(("list",), marks=pytest.mark.slow),
        ("explore", "--loop", "pi"),
        ("run", "no-such-scenario-and-a-name-that-is-longer-than-the-terminal-is-wide-by-far"),
        ("run", "FILE", "--format", "a-format-that-does-not-exist-and-is-longer-than-a-line"),
        ("no-such-command-and-a-name-that-is-longer-than-the-terminal-is-wide-by-far-and-more",),
    ],
)
def test_no_line_is_wider_than_the_terminal(
    cli: Cli,
    arguments: tuple[str, ...],
    columns: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "長い名前.simloop.yaml").write_text(FILE, "utf-8")
    given = [one.replace("FILE", "長い名前.simloop.yaml") for one in arguments]
    run = cli(*given)
    lines = re.split("[\r\n]", run.stdout + run.stderr)  # a bar ends with a carriage return
    assert len(lines) > 1
    assert [line for line in lines if cells(line) > columns] == []


@pytest.mark.usefixtures("columns")
def test_json_is_not_folded(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.simloop.yaml").write_text(FILE, "utf-8")
    run = cli("run", "--format", "json", "a.simloop.yaml")
    assert max(map(cells, run.stdout.split("\n"))) > 80


def test_a_file_or_a_pipe_has_no_width() -> None:
    with Path(__file__).open(encoding="utf-8") as file:
        assert terminal.columns_of(file) is None
    assert terminal.columns_of(None) is None

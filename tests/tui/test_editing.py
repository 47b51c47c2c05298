"""An entry is found in the file of its scenario, and an editor is opened there."""

from pathlib import Path

import pytest

from simloop.cursor.position import Position
from simloop.errors import ScenarioError
from simloop.trace import entries
from simloop_tui.files import FileLine, command, line_in_file
from simloop_tui.runs import edit_of_reply, fork, opened

TEXT = """\
title: All kinds of entries
prompt: What is in a?
then: [And in b?]
hooks:
  - at: after_llm_call
  - {at: before_tool_call, name: guard}
tools:
  look: {parameters: {path: string}, returns: A}
  feel: {raises: it hurts}
model:
  - {when: {role: tool}, say: It is A.}
  - call: {look: {path: a}}
  - http: {status: 500}
  - call: {feel: {}}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "all.simloop.yaml"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "nth", "line"),
    [
        (entries.Prompt, 0, 2), (entries.Prompt, 1, 3),
        (entries.Hook, 0, 6), (entries.Hook, 1, 5),
        (entries.ToolStarted, 0, 8), (entries.ToolResult, 0, 8), (entries.ToolResult, 1, 9),
        (entries.Request, 0, 12), (entries.Request, 1, 11), (entries.TextDelta, 0, 11),
        (entries.Error, 0, 13), (entries.Backoff, 0, 13), (entries.Request, 3, 14),
    ],
)  # fmt: skip
def test_an_entry_is_found_in_its_file(
    path: Path, kind: type[entries.AnyEntry], nth: int, line: int
) -> None:
    recording = opened(str(path)).recording
    position = Position(recording, recording.index.places[kind][nth])
    assert line_in_file(position) == FileLine(path, line)


def test_before_any_request_it_is_the_prompt(path: Path) -> None:
    recording = opened(str(path)).recording
    assert line_in_file(Position(recording, 1)).line == 2


def test_a_run_without_a_file_says_so(path: Path) -> None:
    position = Position(opened(str(path)).recording, 3)
    branch = fork(position, edit_of_reply(position, "  - say: x\n")).run
    with pytest.raises(ScenarioError, match="save it first: O"):
        line_in_file(Position(branch, 0))


@pytest.mark.parametrize(
    ("environ", "argv"),
    [
        ({}, ["vi", "+7", "a.yaml"]),
        ({"EDITOR": "nano"}, ["nano", "+7", "a.yaml"]),
        ({"EDITOR": "nano", "VISUAL": "emacs -nw"}, ["emacs", "-nw", "+7", "a.yaml"]),
        ({"EDITOR": "/usr/bin/code -n"}, ["/usr/bin/code", "-n", "--wait", "--goto", "a.yaml:7"]),
        ({"EDITOR": "hx"}, ["hx", "a.yaml:7"]),
    ],
)
def test_the_editor_is_that_of_the_environment(environ: dict[str, str], argv: list[str]) -> None:
    assert command(environ, FileLine(Path("a.yaml"), 7)) == argv

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simloop.cli import main

SCENARIO = "title: It answers\nprompt: Hi\nmodel: [{say: Hello there.}]\n"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    scenario, trace = tmp_path / "a.simloop.yaml", tmp_path / "a.jsonl"
    scenario.write_text(SCENARIO, "utf-8")
    result = CliRunner().invoke(main, ["run", str(scenario), "--trace", str(trace)])
    assert result.exit_code == 0
    return trace


def show(path: Path) -> Result:
    return CliRunner().invoke(main, ["show", str(path)])


def test_a_trace_is_shown_as_the_run_was(recorded: Path) -> None:
    scenario = str(recorded.with_name("a.simloop.yaml"))
    shown = show(recorded)
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == "It answers"
    assert CliRunner().invoke(main, ["run", scenario]).stdout.startswith(shown.stdout)
    assert shown.stderr == ""


def test_a_truncated_trace_is_shown_to_its_last_whole_line_and_said_to_be_cut(
    recorded: Path,
) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    recorded.write_bytes(b"".join(lines[:5]) + lines[5][:10])
    shown = show(recorded)
    assert shown.exit_code == 0
    assert "+ user: Hi" in shown.stdout
    assert shown.stderr.count("\n") == 1
    assert "the trace is truncated: the file ends after 4 whole entries" in shown.stderr


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "this is not a simloop trace"),
        (SCENARIO.encode(), "this is not a simloop trace"),
        (b"\x00\xff\x1b[2J" * 100, "this is not a simloop trace"),
        (b'{"format":"simloop-trace","version":99}\n', "trace format version 99"),
    ],
)
def test_what_is_no_trace_is_one_line_on_stderr(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    shown = show(path)
    assert shown.exit_code == 2
    assert shown.stdout == ""
    assert shown.stderr.startswith(f"{path}:1: {complaint}")
    assert shown.stderr.count("\n") == 1


def test_a_changed_trace_is_refused(recorded: Path) -> None:
    recorded.write_bytes(recorded.read_bytes().replace(b" there.", b" where."))
    shown = show(recorded)
    assert shown.exit_code == 2
    assert "the file was changed" in shown.stderr


def test_a_trace_that_is_not_there_is_one_line_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "nosuch.jsonl"
    shown = show(path)
    assert shown.exit_code == 2
    assert shown.stderr == f"{path}: cannot be read: No such file or directory\n"

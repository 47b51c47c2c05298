from pathlib import Path

import pytest
from click.testing import Result
from commandline import Cli

SCENARIO = "title: It answers\nprompt: Hi\nmodel: [{say: Hello there.}]\n"


@pytest.fixture
def recorded(cli: Cli, tmp_path: Path) -> Path:
    scenario, trace = tmp_path / "a.simloop.yaml", tmp_path / "a.jsonl"
    scenario.write_text(SCENARIO, "utf-8")
    result = cli("run", str(scenario), "--trace", str(trace))
    assert result.exit_code == 0
    return trace


def show(cli: Cli, path: Path, *options: str) -> Result:
    return cli("show", *options, str(path))


def test_a_trace_is_shown_as_the_run_was(cli: Cli, recorded: Path) -> None:
    scenario = str(recorded.with_name("a.simloop.yaml"))
    shown = show(cli, recorded)
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == "It answers"
    assert cli("run", scenario).stdout.startswith(shown.stdout)
    assert shown.stderr == ""


def test_a_truncated_trace_is_shown_to_its_last_whole_line_and_said_to_be_cut(
    cli: Cli, recorded: Path
) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    recorded.write_bytes(b"".join(lines[:5]) + lines[5][:10])
    shown = show(cli, recorded)
    assert shown.exit_code == 0
    assert "+ user: Hi" in shown.stdout
    assert shown.stderr.count("\n") == 1
    assert "the trace is truncated: the file ends after 4 whole entries" in shown.stderr


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "this is not a simloop trace"),
        (
            b'{"format":"simloop-trace","version":99}\n',
            (
                "this trace has the format of version 99, and this simloop reads version 3 "
                "(install a newer simloop)\n"
            ),
        ),
    ],
)
def test_what_is_no_trace_is_one_line_on_stderr(
    cli: Cli, tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    shown = show(cli, path)
    assert shown.exit_code == 2
    assert shown.stdout == ""
    assert shown.stderr.startswith(f"{path}:1: {complaint}")
    assert shown.stderr.count("\n") == 1


def test_the_facts_at_an_entry_are_shown_one_view_after_the_other(cli: Cli, recorded: Path) -> None:
    shown = show(cli, recorded, "--at", "3", "--view", "entry", "--view", "state")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[:2] == ["entry:", "  > entry: 3 of 9"]
    assert "  > state: calling-model" in shown.stdout


def test_a_time_means_the_last_entry_at_or_before_it(cli: Cli, recorded: Path) -> None:
    assert "entry: 9 of 9" in show(cli, recorded, "--at", "1h", "--view", "entry").stdout


@pytest.mark.parametrize(
    ("at", "complaint"),
    [
        ("13", "--at: there is no such entry; the last one is 9"),
        ("9" * 99, "--at: there is no such entry; the last one is 9"),
        ("-1", "'-1' is no entry: a duration is a number and a unit"),
        ("soon", "'soon' is no entry: a duration is a number and a unit"),
    ],
)
def test_an_entry_that_is_not_there_is_an_error(
    cli: Cli, recorded: Path, at: str, complaint: str
) -> None:
    shown = show(cli, recorded, "--at", at)
    assert shown.exit_code == 2
    assert complaint in shown.stderr

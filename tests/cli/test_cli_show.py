import json
import os
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
        (SCENARIO.encode(), "this is not a simloop trace"),
        (b"\x00\xff\x1b[2J" * 100, "this is not a simloop trace"),
        (
            b'{"kind":"header","format":"simloop-trace","version":1,"title":"","loop":"pi"}\n',
            (
                "this trace has the format of version 1, and this simloop reads version 3 "
                "(record it again: simloop record SCENARIO)\n"
            ),
        ),
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


def test_a_changed_trace_is_refused(cli: Cli, recorded: Path) -> None:
    recorded.write_bytes(recorded.read_bytes().replace(b" there.", b" where."))
    shown = show(cli, recorded)
    assert shown.exit_code == 2
    assert "the file was changed" in shown.stderr


def test_a_trace_that_is_not_there_is_one_line_on_stderr(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "nosuch.jsonl"
    shown = show(cli, path)
    assert shown.exit_code == 2
    assert shown.stderr.startswith(f"{path}: cannot be read: No such file or directory (check ")
    assert shown.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_refused_as_it_might_never_end(
    cli: Cli, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "pipe" if kind == "pipe" else Path("/dev/zero")
    if kind == "pipe":
        os.mkfifo(path)
    shown = show(cli, path)
    assert shown.exit_code == 2
    assert shown.stderr.startswith(f"{path}: this is no regular file")


def recorded_on(cli: Cli, loop: str, scenario: str, folder: Path) -> Path:
    path, trace = folder / "b.simloop.yaml", folder / "b.jsonl"
    path.write_text(f"loop: {loop}\n{scenario}", "utf-8")
    result = cli("run", str(path), "--trace", str(trace))
    assert result.exit_code == 0, result.output
    return trace


def types(shown: Result) -> list[str]:
    assert shown.exit_code == 0, shown.output
    return [json.loads(line)["type"] for line in shown.stdout.splitlines()]


def test_the_documents_events_are_shown_of_any_loop(cli: Cli, recorded: Path) -> None:
    assert types(show(cli, recorded, "--events", "document")) == ["message", "done"]


def test_the_events_of_a_session_of_opencode_are_shown(cli: Cli, tmp_path: Path) -> None:
    failing = "prompt: Hi\nmodel: [{http: {status: 429}}, {http: {status: 401}}]\n"
    failing += "expect: {outcome: failed}\n"
    trace = recorded_on(cli, "opencode@1.18.34", failing, tmp_path)
    shown = types(show(cli, trace, "--events", "session"))
    assert shown == ["session.status", "session.error"]


def test_events_tell_the_order_in_which_the_version_runs_its_tools(
    cli: Cli, tmp_path: Path
) -> None:
    tools = "prompt: Go\ntools: {a: {takes: 1s}}\nmodel: [{call: [{a: {}}, {a: {}}]}, {say: x}]\n"
    shown = types(show(cli, recorded_on(cli, "pi@0.87.1", tools, tmp_path), "--events", "document"))
    assert shown[1:5] == ["tool_call", "tool_call", "tool_result", "tool_result"]
    shown = types(show(cli, recorded_on(cli, "pi", tools, tmp_path), "--events", "document"))
    assert shown[1:5] == ["tool_call", "tool_result", "tool_call", "tool_result"]


def test_the_events_of_a_session_are_refused_for_a_loop_that_has_none(
    cli: Cli, recorded: Path
) -> None:
    shown = show(cli, recorded, "--events", "session")
    assert shown.exit_code == 2
    assert "`reference` has no events of a session" in shown.stderr


def test_the_events_of_a_trace_that_is_cut_before_the_end_of_its_run_have_no_end(
    cli: Cli, recorded: Path
) -> None:
    *lines, end, _ = recorded.read_bytes().splitlines(keepends=True)
    assert end.startswith(b'{"kind":"ended"')
    recorded.write_bytes(b"".join(lines))
    shown = show(cli, recorded, "--events", "document")
    assert types(shown) == ["message"]
    assert "the trace is truncated" in shown.stderr


def test_the_end_of_a_run_is_among_the_events_of_a_trace_without_a_footer(
    cli: Cli, recorded: Path
) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    recorded.write_bytes(b"".join(lines[:-1]))
    assert types(show(cli, recorded, "--events", "document")) == ["message", "done"]


def test_events_are_printed_in_a_form_that_no_terminal_obeys(cli: Cli, tmp_path: Path) -> None:
    said = "\\e[2J\\x7f\\u202e\\u00e9"
    trace = recorded_on(cli, "pi", f'prompt: Hi\nmodel: [{{say: ["{said}"]}}]\n', tmp_path)
    shown = show(cli, trace, "--events", "document")
    assert json.loads(shown.stdout.splitlines()[0])["content"] == "\x1b[2J\x7f\u202e\u00e9"
    assert shown.stdout.isascii()
    assert shown.stdout.replace("\n", "").isprintable()


def test_what_keeps_events_from_being_shown_is_told_with_the_file(cli: Cli, recorded: Path) -> None:
    shown = show(cli, recorded, "--events", "session")
    assert shown.exit_code == 2
    assert shown.stderr.startswith(f"{recorded}: events: ")


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


def test_events_and_facts_are_not_shown_together(cli: Cli, recorded: Path) -> None:
    assert show(cli, recorded, "--events", "document", "--at", "1").exit_code == 2

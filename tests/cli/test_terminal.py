"""Folded lines: none is wider than the terminal, and nothing but spaces is lost."""

import contextlib
import io
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click.testing
import pytest
from commandline import Cli
from hypothesis import given
from hypothesis import strategies as st

from simloop.cli.terminal import StatusLine, cells, columns_of, folded, padded
from simloop.messages import FinishReason
from simloop.runs.run import Simulation
from simloop.trace import entries

PASSES = "prompt: Hi\nmodel: [{say: Hello.}]\n"
FAILS = f"{PASSES}expect: {{text: Bye.}}\n"
# Patience is for people; the test has none.
AT_ONCE = (
    "import sys\n"
    "from simloop.cli import main, terminal\n"
    "terminal.PATIENCE_S = terminal.BETWEEN_S = 0.0\n"
    "main(sys.argv[1:])"
)


class Watched(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True

    @property
    def line(self) -> str:
        """What stands in the last line."""
        shown = ""
        for piece in self.getvalue().split("\r"):
            shown = piece + shown[len(piece) :]
        return shown.rstrip()


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def terminal() -> Watched:
    return Watched()


def seen(terminal: Watched, times_s: list[float]) -> list[str]:
    """The line before each thing is worked on, which takes its time, and after the last one."""
    clock, lines = Clock(), []
    with StatusLine(terminal, clock) as status:
        for took_s in status.through(times_s):
            lines.append(terminal.line)
            clock.now_s += took_s
    return [*lines, terminal.line]


class TestTheBar:
    def test_is_not_there_for_what_takes_no_longer_than_a_second(self, terminal: Watched) -> None:
        assert seen(terminal, [0.19] * 5) == [""] * 6
        assert terminal.getvalue() == ""

    def test_says_how_much_is_done_when_it_takes_longer_and_is_gone_at_the_end(
        self, terminal: Watched
    ) -> None:
        shown = [f"[{'#' * 15}{'.' * 15}] 2 of 4", f"[{'#' * 22}{'.' * 8}] 3 of 4"]
        assert seen(terminal, [0.6] * 4) == ["", "", *shown, ""]

    def test_is_drawn_ten_times_a_second_at_most(self, terminal: Watched) -> None:
        seen(terminal, [0.001] * 3_000)
        assert 15 <= terminal.getvalue().count(" of 3000") <= 20

    def test_is_gone_when_something_else_is_said_and_after_an_exception(
        self, terminal: Watched
    ) -> None:
        clock = Clock()
        with contextlib.suppress(KeyboardInterrupt), StatusLine(terminal, clock) as status:
            for took_s in status.through([2.0, 2.0, 2.0]):
                if " 2 of 3" in terminal.line:
                    raise KeyboardInterrupt
                status.clear()
                assert terminal.line == ""
                clock.now_s += took_s
        assert " 1 of 3" in terminal.getvalue()
        assert terminal.line == ""

    @pytest.mark.parametrize("stream", [None, io.StringIO()], ids=["none", "a file"])
    def test_is_never_there_without_a_terminal(self, stream: io.StringIO | None) -> None:
        clock = Clock()
        with StatusLine(stream, clock) as status:
            for took_s in status.through([2.0, 2.0]):
                clock.now_s += took_s
        assert stream is None or stream.getvalue() == ""

    def test_is_no_wider_than_the_terminal(
        self, terminal: Watched, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "24")
        assert max(map(len, seen(terminal, [2.0, 2.0]))) == 23


class TestAStatus:
    def test_is_shown_after_a_second_and_gone_at_the_end(self, terminal: Watched) -> None:
        clock = Clock()
        with StatusLine(terminal, clock) as status:
            status.say("500 states")
            assert terminal.line == ""
            clock.now_s += 1.1
            status.say("1,000 states")
            assert terminal.line == "1,000 states"
            clock.now_s += 0.2
            status.say("9 rules")
            assert terminal.line == "9 rules"
        assert terminal.line == ""

    def test_shows_how_far_a_run_has_come(self, terminal: Watched) -> None:
        clock, second = Clock(), 10**9
        with StatusLine(terminal, clock) as status:
            run = Heard()
            status.watch_run(run)
            see = run.listeners[0]
            for number in range(1_000):
                see(entries.Request(number, number * second, number, "main", ""))
            assert terminal.line == ""
            clock.now_s += 1.1
            see(entries.Finish(1_001, 5_000 * second, 1, FinishReason.STOP, "stop"))
            assert terminal.line == "request 1,000, 5,000s virtual"
        assert terminal.line == ""

    def test_listens_to_no_run_without_a_terminal(self) -> None:
        run = Heard()
        StatusLine(io.StringIO()).watch_run(run)
        assert run.listeners == []


class Heard(Simulation):
    """A run that keeps its listeners."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []

    def listen(self, listener: Any) -> None:
        self.listeners.append(listener)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("a", PASSES), ("b", FAILS), ("c", PASSES)):
        (tmp_path / f"{name}.simloop.yaml").write_text(text, "utf-8")
    return tmp_path


def on_a_terminal(folder: Path, *arguments: str, both: bool = False) -> tuple[bytes | None, bytes]:
    """What goes to stdout, which is a pipe (or `both`), and to stderr, which is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", AT_ONCE, *arguments]
    stdout_to = theirs if both else subprocess.PIPE
    env = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(command, cwd=folder, env=env, stdout=stdout_to, stderr=theirs) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: read(ours), b""))
        stdout, _ = process.communicate(timeout=60)
    os.close(ours)
    return stdout, shown


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # nobody has it open any more
        return b""


@pytest.mark.parametrize("output_format", ["text", "json"])
@pytest.mark.slow
def test_check_has_a_bar_where_stderr_is_a_terminal(folder: Path, output_format: str) -> None:
    stdout, shown = on_a_terminal(folder, "check", ".", "--format", output_format)
    assert b"] 0 of 3" in shown
    assert b"] 2 of 3" in shown
    assert stdout is not None
    assert b" of 3" not in stdout
    assert b"\x1b" not in shown
    after = shown.rpartition(b" of 3")[2]
    assert b"\r " in after.partition(b"\n")[0]  # wiped before anything else is said


@pytest.mark.slow
def test_no_result_is_printed_behind_the_bar(folder: Path) -> None:
    _, shown = on_a_terminal(folder, "check", ".", "--verbose", both=True)
    results = (b"ok      a", b"FAILED  b", b"ok      c", b"2 passed")
    assert [shown.count(result) for result in results] == [1, 1, 1, 1]
    for result in results:
        assert shown.partition(result)[0][-1:] in {b"\r", b"\n"}


@pytest.mark.slow
def test_check_has_no_bar_where_stderr_is_a_pipe(folder: Path) -> None:
    command = [sys.executable, "-c", AT_ONCE, "check", "."]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert " of 3" not in ended.stderr
    assert "\r" not in ended.stderr


@pytest.mark.slow
def test_run_and_check_show_how_far_a_run_has_come_where_stderr_is_a_terminal(folder: Path) -> None:
    stdout, shown = on_a_terminal(folder, "run", "a.simloop.yaml")
    assert stdout is not None
    assert b"request" in stdout
    assert b"0s virtual" not in stdout
    assert shown.startswith(b"request 0, 0s virtual\r ")
    assert b"\rrequest 1, 0s virtual\r " in shown
    assert b"] 1 of 3, request 1, 0s virtual\r " in on_a_terminal(folder, "check", ".")[1]


LINES = st.text(
    st.sampled_from("ab  日本\u0301é-/\\'\"") | st.characters(exclude_categories=("Cs", "Cc")),
    max_size=300,
)


@given(LINES, st.integers(20, 120))
def test_no_piece_is_wider_than_the_terminal(line: str, columns: int) -> None:
    assert all(cells(piece) <= columns for piece in folded(line, columns))


@given(LINES.map(lambda line: f"ok  name  {line}"), st.integers(20, 120))
def test_nothing_but_spaces_is_lost(line: str, columns: int) -> None:
    pieces = "".join(folded(line, columns))
    assert "".join(pieces.split()) == "".join(line.split())


def test_a_wide_character_takes_two_cells_and_a_combining_one_none() -> None:
    assert cells("日本") == 4
    assert cells("e\u0301") == 1


def test_a_sequence_for_colour_takes_no_cell() -> None:
    assert cells("\x1b[32mok\x1b[0m") == 2


def test_a_short_line_stays_as_it_is() -> None:
    assert list(folded("  two  columns", 20)) == ["  two  columns"]


def test_pieces_stand_below_the_last_column_of_the_left_half() -> None:
    assert list(folded("ok  retry/limit  completed in 5 s and then some", 40)) == [
        "ok  retry/limit  completed in 5 s and",
        "                 then some",
    ]


@given(st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=200))
def test_a_folded_command_can_be_copied_into_a_shell(path: str) -> None:
    line = f"reproduce: simloop run {shlex.quote(path)} --seed 7"
    pieces = "\n".join(folded(line, 40))
    assert pieces.replace("\\\n", "") == line


def test_padding_counts_cells() -> None:
    assert padded("日本", 6) == "日本  "


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
        assert columns_of(file) is None
    assert columns_of(None) is None

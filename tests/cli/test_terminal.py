"""The line that shows the progress of a command, and the cells that a text takes."""

import contextlib
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from simloop.cli.terminal import StatusLine, cells, columns_of, padded

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


def test_a_wide_character_takes_two_cells_and_a_combining_one_none() -> None:
    assert cells("日本") == 4
    assert cells("e\u0301") == 1


def test_a_sequence_for_colour_takes_no_cell() -> None:
    assert cells("\x1b[32mok\x1b[0m") == 2


def test_padding_counts_cells() -> None:
    assert padded("日本", 6) == "日本  "


def test_a_file_or_a_pipe_has_no_width() -> None:
    with Path(__file__).open(encoding="utf-8") as file:
        assert columns_of(file) is None
    assert columns_of(None) is None

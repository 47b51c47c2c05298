"""Hostile text in every field of a trace: neither the terminal nor the program obeys it."""

import os
import re
from pathlib import Path

import hostile
import msgspec
import pytest
from hostiletraces import KINDS, greeting, trace
from screens import Driven, drive
from terminal import Terminal, terminal

from simloop.cursor.recorded_run import RecordedRun
from simloop.trace import entries
from simloop.trace.codec import read_trace, write_trace
from simloop.trace.looptrace import LoopTrace
from simloop_tui.app import StepApp
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session

pytestmark = pytest.mark.slow

EVIL = (
    "[@click=app.exit]EVIL[/] [/nope] [link=x] "
    "\x1b[2J\x1b]0;title\x07\x9b2J\x9d0;t\x9c\x1bPq\x1b\\ \x00\x07\x08\x7f "
    "\u202e\u2066\u200b\ufeff\u2028"
)
_LONG = 500_000
_KNOWN = re.compile(rb"\x1b\[[0-?]*[ -/]*[Hhlmpu]|\x1b\]22;[a-z-]*\x07")
_FORBIDDEN = re.compile(
    "[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)


def evil_trace(monkeypatch: pytest.MonkeyPatch) -> LoopTrace:
    """A trace with EVIL in each text of each kind of entry, and with lines of half a MB."""
    monkeypatch.setattr(hostile, "HOSTILE", EVIL)
    odd = [entry for kind in KINDS for entry in hostile.hostile(kind)]
    long = EVIL + "x" * _LONG + EVIL
    odd += [
        entries.Prompt(0, 0, long),
        entries.ToolStarted(0, 0, "long", "look", long),
        entries.ToolResult(0, 0, "long", "look", long),
        entries.Notice(0, 0, long),
    ]
    header = msgspec.structs.replace(greeting().header, title=EVIL, python=(EVIL,))
    return trace(odd, header)


def controls_in(written: bytes) -> list[str]:
    """What is left of the bytes beside text, new lines and the sequences that Textual writes."""
    text = _KNOWN.sub(b"", written).decode("utf-8")
    return sorted({f"{match.group()!r}" for match in _FORBIDDEN.finditer(text)})


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The trace in a file whose name is hostile too, and is no UTF-8."""
    path = tmp_path / os.fsdecode(b"evil\x1b[2J[@click=app.exit]\xff.jsonl")
    write_trace(evil_trace(monkeypatch), path)
    return path


def _walk(shown: Terminal) -> None:
    """Show each page of the timeline with each view, then each screen."""
    for number in range(12):
        shown.send(f"{number % 10}\x04")
        shown.settle(0.1)
    for keys in (
        "G",
        "9z",
        "6",
        "g",
        "/[/nope]\r",
        "n",
        "N",
        ":nope\x07\r",
        "f\x1b",
        "?\x1b",
        "e",
        "b",
    ):
        shown.send(keys)
        shown.settle(0.2)


def test_no_control_of_a_trace_reaches_the_terminal(evil: Path) -> None:
    with terminal("-m", "simloop", "step", str(evil), size=(140, 50)) as shown:
        shown.wait_for("EVIL", seconds=60)
        shown.settle()
        _walk(shown)
        assert shown.written.count(b"EVIL") > 20
        shown.send("q")
        assert shown.exit_code() == 0
    assert controls_in(shown.written) == []


def test_an_error_about_a_hostile_file_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"evil\x1b[2J\xff.jsonl")
    path.write_bytes(b'{"kind":"header"}\n')
    with terminal("-m", "simloop", "step", str(path)) as shown:
        assert shown.exit_code() == 2
    assert controls_in(shown.written) == []


def test_markup_in_a_text_is_shown_and_a_click_on_it_runs_nothing(evil: Path) -> None:
    app = StepApp(ReplayScreen(Session(RecordedRun.of_trace(read_trace(evil)), EVIL)))

    async def act(driven: Driven) -> None:
        for keys in ("g", "5", "6", "7", "8", "9", "1", "e"):
            await driven.press(keys)
            await driven.click_on("[@click")
            assert app.is_running
            assert not app._exit

    drive(app, act, (160, 50))


def test_a_lone_surrogate_in_a_query_is_no_error() -> None:
    session = Session(RecordedRun.of_trace(greeting()))
    session.query = "\ud800\x1b"
    session.go_to_match(session.search_again(1))
    assert session.said == "no entry contains '\\ud800\\x1b'"

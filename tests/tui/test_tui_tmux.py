"""The replayer in a real terminal, tmux: it does what it says there, and leaves it clean."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simloop.scenario.loader import load_scenario

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
_CRASHING = """
import sys
from simloop_tui.app import StepApp
from simloop.cursor.recorded_run import opened_trace
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import SESSION_ACTIONS, Session
def crash(self): raise RuntimeError("it breaks")
SESSION_ACTIONS["forward"] = crash
StepApp(ReplayScreen(Session(opened_trace(sys.argv[1])))).run()
"""


class Tmux:
    """A tmux server of its own, with one window that runs a shell."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"
        self._run("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", "sh")

    def _run(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self._socket), *arguments]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        return run.stdout

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    def shown(self) -> str:
        return self._run("capture-pane", "-p")

    def wait_for(self, text: str) -> str:
        deadline = time.monotonic() + 120  # a bound for a busy machine
        while text not in (shown := self.shown()):
            assert time.monotonic() < deadline, shown
            time.sleep(0.05)
        return shown

    def flags(self) -> str:
        """Whether the alternate screen, the cursor and the mouse are on."""
        wanted = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{mouse_all_flag}"
        return self._run("display-message", "-p", wanted).strip()

    def assert_clean(self) -> None:
        """The shell is back: its screen, its cursor, no mouse, and what is typed is echoed."""
        self._wait_for_the_shell()
        self.type("stty -a | grep -cE -e '-(echo|icanon|isig)( |$)'; echo back$((1+1))")
        self.press("Enter")
        shown = self.wait_for("back2")
        assert re.search(r"\b0\nback2", shown), shown  # a slow shell may prompt before it
        assert self.flags() == "0 1 0 0"

    def _wait_for_the_shell(self) -> None:
        deadline = time.monotonic() + 120  # a bound for a busy machine
        while self._run("display-message", "-p", "#{pane_current_command}").strip() != "sh":
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def stop(self) -> None:
        self._run("kill-server")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    running = Tmux(tmp_path)
    try:
        yield running
    finally:
        running.stop()


TRACE = Path(__file__).parents[2] / "scenarios" / "__snapshots__" / "start.quickstart.trace.jsonl"


def test_it_starts_steps_searches_forks_saves_and_quits(tmux: Tmux, tmp_path: Path) -> None:
    tmux.type(f"cd {tmp_path} && {sys.executable} -m simloop step quickstart")
    tmux.press("Enter")
    tmux.wait_for("entry 0 of 55")
    assert tmux.flags().startswith("1 0")
    tmux.press("j")
    tmux.wait_for("entry 1 of 55")
    tmux.press("Down")
    tmux.wait_for("entry 2 of 55")
    tmux.type("/429")
    tmux.press("Enter")
    tmux.wait_for("entry 4 of 55")
    tmux.type("F")
    tmux.wait_for("edit the next reply")
    tmux.press("Down", "Down", "Enter")
    tmux.wait_for("a fork of quick")
    tmux.type("O")
    tmux.wait_for(".simloop.yaml")
    tmux.press("Enter")
    tmux.wait_for("saved; run it with")
    tmux.press("q")
    tmux.assert_clean()
    (saved,) = tmp_path.glob("*.simloop.yaml")
    assert "rate limit (429) for request #2" in load_scenario(saved).title


def test_ctrl_c_leaves_the_terminal_clean(tmux: Tmux) -> None:
    tmux.type(f"{sys.executable} -m simloop step {TRACE}; echo code $?")
    tmux.press("Enter")
    tmux.wait_for("entry 0 of 55")
    tmux.press("C-c")
    tmux.wait_for("code 0")
    tmux.assert_clean()


def test_an_exception_is_shown_and_leaves_the_terminal_clean(tmux: Tmux, tmp_path: Path) -> None:
    script = tmp_path / "crashing.py"
    script.write_text(_CRASHING, "utf-8")
    tmux.type(f"{sys.executable} {script} {TRACE}")
    tmux.press("Enter")
    tmux.wait_for("entry 0 of 55")
    tmux.press("j")
    tmux.wait_for("RuntimeError: it breaks")
    tmux.press("C-l")
    tmux.assert_clean()

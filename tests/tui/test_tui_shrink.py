"""A failing run is shrunk while keys work, and the smallest run is opened."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from screens import Driven, drive
from test_shrinking import FAILS

from simloop_tui import runs
from simloop_tui.app import StepApp
from simloop_tui.runs import opened
from simloop_tui.screens import dialogs
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session

pytestmark = pytest.mark.slow


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StepApp:
    monkeypatch.chdir(tmp_path)
    Path("fails.simloop.yaml").write_text(FAILS, "utf-8")
    return StepApp(ReplayScreen(opened("fails.simloop.yaml")))


def test_the_smallest_run_is_opened_and_escape_comes_back(app: StepApp) -> None:
    async def act(driven: Driven) -> None:
        await driven.press("Z")
        await driven.settled()
        assert driven.screen.session.name == "fails.simloop.yaml, shrunk"
        assert "O saves it" in driven.lines()[-1]
        await driven.press("escape")
        assert driven.screen.session.name == "fails.simloop.yaml"

    drive(app, act)


def test_the_progress_is_shown_and_escape_takes_the_smallest_run_so_far(
    app: StepApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(session: Session, say: Callable[[str], None], stopped: Callable[[], bool]) -> Session:
        say("7 runs: 3 replies, 300 characters")
        while not stopped():
            time.sleep(0.01)
        return runs.shrunk(session, say, stopped)

    monkeypatch.setattr(dialogs, "shrunk", slow)

    async def act(driven: Driven) -> None:
        await driven.press("Z")
        await driven.pilot.pause(0.1)
        assert any("7 runs: 3 replies, 300 characters" in line for line in driven.lines())
        await driven.press("escape")
        await driven.settled()
        assert driven.screen.session.name == "fails.simloop.yaml, shrunk"
        assert "it may not be minimal" in driven.lines()[-1]

    drive(app, act)


def test_a_run_that_does_not_fail_says_so() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("Z")
        await driven.settled()
        assert "this run does not fail" in driven.lines()[-1]

    drive(StepApp(ReplayScreen(opened("quickstart"))), act)

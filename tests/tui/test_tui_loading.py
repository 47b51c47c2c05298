"""A trace is read in a thread, and an error of it ends the program with that error."""

from pathlib import Path
from threading import Event

import pytest
from builders import TRACES, recorded
from screens import Driven, drive

from simloop.errors import ScenarioError
from simloop_tui.app import StepApp
from simloop_tui.runs import opened
from simloop_tui.screens.library import LoadingScreen
from simloop_tui.session import Session


def loading(named: str) -> LoadingScreen:
    return LoadingScreen(named, lambda: opened(named))


pytestmark = pytest.mark.slow


def test_a_trace_is_opened_when_it_has_been_read() -> None:
    async def act(driven: Driven) -> None:
        await driven.settled()
        assert driven.screen.session.last == 55

    drive(StepApp(loading(str(TRACES / "start.quickstart.trace.jsonl"))), act)


def test_a_file_that_is_no_trace_ends_the_program_with_its_error(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("{}\n", "utf-8")
    app = StepApp(loading(str(path)))

    async def act(driven: Driven) -> None:
        await driven.settled()

    drive(app, act)
    assert isinstance(app.return_value, ScenarioError)


def test_keys_work_while_a_trace_is_read_and_its_name_is_no_markup() -> None:
    goes_on = Event()

    def read() -> Session:
        assert goes_on.wait(60)
        return Session(recorded())

    app = StepApp(LoadingScreen("[b]evil[/] [/nope]\x1b", read))

    async def act(driven: Driven) -> None:
        try:
            assert any("Opening [b]evil[/] [/nope]\\x1b" in line for line in driven.lines())
            await driven.press("q")
            assert app._exit
        finally:
            goes_on.set()

    drive(app, act)

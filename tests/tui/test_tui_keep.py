"""A run is saved, copied and opened in an editor by keys."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from screens import Driven, drive
from textual.widgets import Input, TextArea

from simloop.scenario.loader import load_scenario
from simloop_tui.app import StepApp
from simloop_tui.runs import opened
from simloop_tui.screens.dialogs import AskScreen
from simloop_tui.screens.replay import ReplayScreen

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def of_a_scenario() -> StepApp:
    return StepApp(ReplayScreen(opened("quickstart")))


async def named(driven: Driven, name: str) -> None:
    """Give the name that is asked for."""
    driven.pilot.app.screen.query_one(Input).value = name
    await driven.press("enter")


def answered(driven: Driven) -> str:
    """The answer to the newest action, which has several lines where it is long."""
    return " ".join(line.strip() for line in driven.lines()[-3:])


async def forked(driven: Driven) -> None:
    await driven.press("e", "F", "enter")
    await driven.settled()


def test_a_fork_is_copied_as_a_test_and_saved_under_the_name_that_is_given() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("Y")
        await driven.settled()
        assert driven.pilot.app.clipboard == "simloop run quickstart"
        assert any("simloop run quickstart" in line for line in driven.lines())
        await driven.press("escape")
        await forked(driven)
        await driven.press("Y")
        await driven.settled()
        assert "save it first: O" in driven.lines()[-1]
        await driven.press("y")
        await driven.settled()
        text = driven.pilot.app.clipboard
        assert "def test_fork_of_a_run_gets_through" in text
        assert driven.pilot.app.screen.query_one(TextArea).text == text
        await driven.press("escape", "O")
        await driven.settled()
        asked = driven.pilot.app.screen.query_one(Input).value
        assert asked.startswith("fork-of-a-run-gets-through")
        prompt = "Save the right run (a fork of quickstart at entry 4) as the scenario file:"
        assert any(prompt in line for line in driven.lines())
        assert asked.endswith(".simloop.yaml")
        await named(driven, "mine.simloop.yaml")
        shown = answered(driven)
        assert (
            "saved; run it with: simloop run mine.simloop.yaml, or: pytest mine.simloop.yaml"
            in shown
        )
        title = load_scenario("mine.simloop.yaml").title
        assert title.startswith("Fork of: A run gets through")
        assert title.endswith("(request #1 does not fail)")

    drive(of_a_scenario(), act)


def test_a_file_is_replaced_after_a_yes_alone() -> None:
    path = Path("mine.simloop.yaml")
    path.write_text("old", "utf-8")

    def is_old() -> bool:
        return path.read_text("utf-8") == "old"

    async def act(driven: Driven) -> None:
        await driven.press("O")
        await driven.settled()
        await named(driven, "nosuch/mine.simloop.yaml")
        assert "cannot be created" in answered(driven)
        await driven.press("O")
        await driven.settled()
        await driven.press("escape")
        for answer, is_kept in (("no", True), ("", True), ("yes", False)):
            await driven.press("O")
            await driven.settled()
            await named(driven, str(path))
            assert isinstance(driven.pilot.app.screen, AskScreen)
            await named(driven, answer)
            assert is_old() is is_kept
            words = "stays as it was" if is_kept else "saved; run it with"
            assert words in answered(driven)

    drive(of_a_scenario(), act)
    assert not Path("nosuch").exists()


def test_the_scenario_is_opened_in_an_editor_at_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys; open('seen', 'w').write(' '.join(sys.argv[1:]))"
    monkeypatch.setenv("VISUAL", f'{sys.executable} -c "{program}"')
    suspended = []

    @contextmanager
    def suspend(_: StepApp) -> Iterator[None]:
        suspended.append(os.getpid())
        yield

    async def act(driven: Driven) -> None:
        with monkeypatch.context() as inner:
            inner.setattr(StepApp, "suspend", suspend)
            await driven.press("e", "v")
            assert "was open in" in answered(driven)
            inner.setenv("VISUAL", "nosuch-editor")
            await driven.press("v")
            assert "nosuch-editor" in driven.lines()[-1]
        await driven.press("v")  # the terminal of a test cannot give way to an editor
        assert "quickstart.simloop.yaml:" in answered(driven)

    drive(of_a_scenario(), act)
    line, path = Path("seen").read_text("utf-8").split(" ", 1)
    assert "429" in Path(path).read_text("utf-8").splitlines()[int(line[1:]) - 1]
    assert suspended

"""Pictures of the screens, and their text beside them, which can be read in a review."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from screens import Driven, drive, replayer_picture, stepping
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.screen import Screen

from simloop.errors import ScenarioError
from simloop_tui.app import StepApp
from simloop_tui.runs import opened_against
from simloop_tui.screens import dialogs
from simloop_tui.screens.library import LibraryScreen, LoadingScreen
from simloop_tui.session import Session

pytestmark = pytest.mark.slow

SMALL, USUAL, WIDE = (80, 24), (120, 40), (200, 50)


class Shown(NamedTuple):
    """A screen: the recorded scenario or the screen at the start, and the keys that lead to it."""

    start: str | Callable[[], Screen[None]]
    keys: tuple[str, ...]

    def app(self) -> StepApp:
        return stepping(self.start) if isinstance(self.start, str) else StepApp(self.start())


def library() -> Screen[None]:
    return LibraryScreen(Path(__file__).parent)


def two_loops() -> Screen[None]:
    return LoadingScreen("quickstart", lambda: opened_against("quickstart", "opencode", {}))


SCREENS = {
    "start": Shown("start.quickstart", ()),
    "backoff": Shown("start.quickstart", ("e", "j", "j", "j", "b")),
    "compaction": Shown("compaction.twice", ("G", "9", "z")),
    "hooks": Shown("hooks.change-request", ("s", "8")),
    "tools": Shown("abort.in-parallel-tools", ("a", "7")),
    "end": Shown("limits.errors", ("G", "1")),
    "goto": Shown("start.quickstart", ("colon", "5", "full_stop", "2", "s")),
    "help": Shown("start.quickstart", ("question_mark",)),
    "fork": Shown("start.quickstart", ("e", "F")),
    "mistake": Shown("start.quickstart", ("e", "F", "down", "enter", "x", "ctrl+s")),
    "branches": Shown("start.quickstart", ("e", "F", "down", "down", "enter")),
    "filter": Shown("start.quickstart", ("f", "down", "space")),
    "library": Shown(library, ("slash", *"quickstart", "enter")),
    "comparison": Shown(two_loops, ()),
}


class Svg(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "svg"

    def serialize(self, data: Any, **_: Any) -> str:
        return str(data)


class PlainText(Svg):
    file_extension = "txt"


@pytest.fixture(autouse=True)
def _(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")


PICTURES = {
    **{f"{screen}-120x40": (screen, USUAL) for screen in SCREENS},
    **{f"{screen}-80x24": (screen, SMALL) for screen in ("start", "help", "fork", "comparison")},
    **{f"{screen}-200x50": (screen, WIDE) for screen in ("start", "comparison")},
}


@pytest.mark.parametrize(("screen", "size"), PICTURES.values(), ids=PICTURES)
def test_a_screen_looks_as_it_did(
    screen: str, size: tuple[int, int], snapshot: SnapshotAssertion
) -> None:
    async def act(driven: Driven) -> None:
        await driven.settled()
        await driven.press(*SCREENS[screen].keys)
        await driven.settled()
        await look(driven, snapshot)

    drive(SCREENS[screen].app(), act, size)


async def look(driven: Driven, snapshot: SnapshotAssertion) -> None:
    """In both themes, whose colours are the same in each size."""
    picture = driven.picture()
    assert picture.text == snapshot(name="text", extension_class=PlainText)
    assert picture.svg == snapshot(name="dark", extension_class=Svg)
    if driven.pilot.app.size != USUAL:
        return
    driven.pilot.app.theme = "textual-light"
    await driven.pilot.pause()
    assert driven.picture().svg == snapshot(name="light", extension_class=Svg)


def is_shrinking(driven: Driven) -> bool:
    return any("7 runs" in line for line in driven.lines())


def test_a_reduction_looks_as_it_did(
    snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def waiting(_: Session, say: Callable[[str], None], __: Callable[[], bool]) -> Session:
        say("7 runs: 3 replies, 300 characters")
        ended.wait()
        raise ScenarioError("the picture is made")

    monkeypatch.setattr(dialogs, "shrunk", waiting)

    async def act(driven: Driven) -> None:
        await driven.press("Z")
        while not is_shrinking(driven):
            await driven.pilot.pause(0.01)
        try:
            await look(driven, snapshot)
        finally:
            ended.set()
        while is_shrinking(driven):
            await driven.pilot.pause(0.01)

    drive(stepping(), act)


def test_the_picture_in_the_readme_loads_nothing_from_elsewhere() -> None:
    picture = replayer_picture()
    assert picture.count("http") == picture.count("http://www.w3.org/2000/svg") == 1
    assert "Failure&#160;1&#160;of&#160;3" in picture

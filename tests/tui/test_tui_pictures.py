"""Pictures of the screens, and their text beside them, which can be read in a review."""

from typing import Any, NamedTuple

import pytest
from screens import Driven, drive, replayer_picture, stepping
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

pytestmark = pytest.mark.slow

SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x50": (200, 50)}


class Shown(NamedTuple):
    """A screen: the recorded scenario, and the keys that lead to the screen."""

    trace: str
    keys: tuple[str, ...]


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
    "mistake": Shown("start.quickstart", ("e", "F", "enter", "x", "ctrl+s")),
    "branches": Shown("start.quickstart", ("e", "F", "down", "enter")),
    "filter": Shown("start.quickstart", ("f", "down", "space")),
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


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
def test_a_screen_looks_as_it_did(screen: str, size: str, snapshot: SnapshotAssertion) -> None:
    async def act(driven: Driven) -> None:
        await driven.press(*SCREENS[screen].keys)
        await driven.settled()
        picture = driven.picture()
        assert picture.text == snapshot(name="text", extension_class=PlainText)
        assert picture.svg == snapshot(name="dark", extension_class=Svg)
        driven.pilot.app.theme = "textual-light"
        await driven.settled()
        assert driven.picture().svg == snapshot(name="light", extension_class=Svg)

    drive(stepping(SCREENS[screen].trace), act, SIZES[size])


def test_the_picture_in_the_readme_loads_nothing_from_elsewhere() -> None:
    picture = replayer_picture()
    assert picture.count("http") == picture.count("http://www.w3.org/2000/svg") == 1
    assert "Failure&#160;1&#160;of&#160;3" in picture

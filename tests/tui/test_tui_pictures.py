"""Pictures of the screens, and their text beside them, which can be read in a review."""

from typing import Any

import pytest
from screens import Driven, drive, stepping
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

pytestmark = pytest.mark.slow

SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x50": (200, 50)}


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
def test_a_backoff_is_explained(size: str, snapshot: SnapshotAssertion) -> None:
    async def act(driven: Driven) -> None:
        await driven.press("e", "j", "j", "j")
        picture = driven.picture()
        assert picture.text == snapshot(extension_class=PlainText)
        assert picture.svg == snapshot(extension_class=Svg)

    drive(stepping(), act, SIZES[size])

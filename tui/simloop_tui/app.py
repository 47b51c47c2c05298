"""The application: it opens the first screen. Each feature has a screen or a widget of its own."""

from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import App
from textual.screen import Screen

from simloop.errors import SimloopError
from simloop_tui.screens.dialogs import AskScreen
from simloop_tui.screens.keyed import Opened
from simloop_tui.screens.library import screen_of

_STYLES = Path(__file__).parent / "styles"


class StepApp(App[SimloopError]):
    """The replayer. It returns the error that ended it, if one did."""

    TITLE = "simloop step"
    CSS_PATH: ClassVar = [
        _STYLES / f"{name}.tcss" for name in ("replay", "dialogs", "compare", "library")
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, first: Screen[None]) -> None:
        super().__init__()
        self._first = first

    def on_mount(self) -> None:
        self.push_screen(self._first)

    def on_opened(self, message: Opened) -> None:
        self.push_screen(screen_of(message.runs))

    def on_key(self, event: events.Key) -> None:
        """Give a question the keys that were typed ahead, while it opened.

        They were sent to the screen below it, which no longer takes any.
        """
        if isinstance(self.screen, AskScreen):
            self.screen.take(event)

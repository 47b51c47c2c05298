"""The application: it opens the first screen, and nothing else.

Not here: the screens and the behaviour (session.py). The rule to keep: this file does not grow with
the features; each of them has a screen or a widget.
"""

from pathlib import Path
from typing import ClassVar

from textual.app import App

from simloop.cursor.recorded_run import RecordedRun
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session


class StepApp(App[None]):
    """The replayer of one run."""

    TITLE = "simloop step"
    CSS_PATH: ClassVar = [Path(__file__).parent / "styles" / "replay.tcss"]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, recording: RecordedRun, name: str = "") -> None:
        super().__init__()
        self._session = Session(recording, name)

    def on_mount(self) -> None:
        """Open the replay screen."""
        self.push_screen(ReplayScreen(self._session))

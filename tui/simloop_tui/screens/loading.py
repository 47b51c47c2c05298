"""The screen that reads a trace: it is painted at once, and keys work meanwhile.

Not here: reading (opening.py). The rule to keep: the trace is read in a thread, and an error of it
ends the program with that error.
"""

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from simloop.errors import SimloopError
from simloop.escape import escape
from simloop_tui.opening import opened_trace
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session


class LoadingScreen(Screen[None]):
    """Reads the trace `named`, then gives way to the replay screen."""

    BINDINGS: ClassVar = [("q,escape,ctrl+c", "app.quit", "quit")]

    def __init__(self, named: str, loop: str | None = None) -> None:
        super().__init__()
        self._named = named
        self._loop = loop

    def compose(self) -> ComposeResult:
        """Yield the line that says what is read."""
        yield Static(Content(f"Reading {escape(self._named)} (q quits) ..."))

    def on_mount(self) -> None:
        """Start to read."""
        self._read()

    @work(thread=True, exclusive=True)
    def _read(self) -> None:
        try:
            session = Session(opened_trace(self._named, self._loop), self._named)
            session.recording.requests  # noqa: B018 - found here, and not at the first key press
        except SimloopError as error:
            self.app.call_from_thread(self.app.exit, error)
        else:
            self.app.call_from_thread(self._show, session)

    def _show(self, session: Session) -> None:
        if self.is_current:
            self.app.switch_screen(ReplayScreen(session))

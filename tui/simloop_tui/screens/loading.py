"""The screen that opens runs, in a thread: it is painted at once, and keys work meanwhile.

An error ends the program, unless there is a screen to go back to, which then shows it.
"""

from collections.abc import Callable
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from simloop.errors import SimloopError
from simloop.escape import escape
from simloop_tui.comparison.screen import CompareScreen
from simloop_tui.comparison.side_by_side import SideBySide
from simloop_tui.keys import LEAVING
from simloop_tui.screens.keyed import KeyedScreen, bindings
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session


class LoadingScreen(KeyedScreen):
    """Opens one run, or two, then gives way to their screen."""

    actions = LEAVING
    BINDINGS: ClassVar = bindings(LEAVING)

    def __init__(self, named: str, read: Callable[[], Session | SideBySide]) -> None:
        super().__init__()
        self._named = named
        self._read = read

    def compose(self) -> ComposeResult:
        yield Static(Content(f"Opening {escape(self._named)} (q quits) ..."))

    def on_mount(self) -> None:
        self._open()

    @work(thread=True, exclusive=True)
    def _open(self) -> None:
        try:
            opened = self._read()
            for session in _sessions(opened):
                session.recording.requests  # noqa: B018 - found here, and not at the first key press
        except SimloopError as error:
            self.app.call_from_thread(self._failed, error)
        else:
            self.app.call_from_thread(self._show, opened)

    def _failed(self, error: SimloopError) -> None:
        if not self.is_current:
            return
        if self.is_first:
            self.app.exit(error)
        else:
            before = self.app.screen_stack[-2]
            assert isinstance(before, KeyedScreen)
            self.app.pop_screen()
            before.say(str(error))

    def _show(self, opened: Session | SideBySide) -> None:
        if self.is_current:
            self.app.switch_screen(screen_of(opened))


def screen_of(opened: Session | SideBySide) -> KeyedScreen:
    """Return the screen of one run, or of two."""
    return CompareScreen(opened) if isinstance(opened, SideBySide) else ReplayScreen(opened)


def _sessions(opened: Session | SideBySide) -> tuple[Session, ...]:
    return (opened.left, opened.right) if isinstance(opened, SideBySide) else (opened,)

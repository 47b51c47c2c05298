"""The progress of a reduction."""

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static
from textual.worker import Worker, WorkerState, get_current_worker

from simloop.errors import SimloopError
from simloop_tui.session import Session
from simloop_tui.shrinking import shrunk


class ShrinkScreen(ModalScreen[Session | str]):
    """Answers the smallest run that fails as the given one, or in words why there is none."""

    BINDINGS: ClassVar = [("escape,enter,q", "stop", "stop, with the smallest run so far")]

    class Advanced(Message):
        """A smaller run was found."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._is_stopped = False

    def compose(self) -> ComposeResult:
        """Yield the line of the progress."""
        yield Static(Content("runs the scenario ..."))

    def on_mount(self) -> None:
        """Start."""
        box = self.query_one(Static)
        box.border_title = "shrinks the failing run"
        box.border_subtitle = "Escape takes the smallest run so far"
        self._shrink()

    @work(thread=True, exclusive=True)
    def _shrink(self) -> Session | str:
        worker = get_current_worker()
        try:
            return shrunk(
                self._session,
                self._say,
                lambda: self._is_stopped or worker.is_cancelled,
            )
        except SimloopError as error:
            return str(error)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Close when the thread has ended: a screen that closes before cancels it."""
        if event.state is WorkerState.SUCCESS:
            self.dismiss(event.worker.result)

    def _say(self, words: str) -> None:
        self.post_message(ShrinkScreen.Advanced(words))  # without a wait for the other thread

    def on_shrink_screen_advanced(self, message: Advanced) -> None:
        """Show the progress."""
        self.query_one(Static).update(Content(message.words))

    def action_stop(self) -> None:
        """Stop after the run that is being made."""
        self._is_stopped = True
        self.query_one(Static).update(Content("stops ..."))

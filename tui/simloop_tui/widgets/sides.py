"""The two sides of a comparison: the heading of each run, and the pane with its facts."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from simloop.escape import escape
from simloop.trace.kinds import clock
from simloop_tui.comparing import SideBySide
from simloop_tui.session import Session
from simloop_tui.widgets.bars import ending
from simloop_tui.widgets.facts import FactsPane
from simloop_tui.widgets.goto import Goto

_WIDEST = 200


class SideHeading(Static):
    """The name of one run, its loop and how it ends, and where the cursor is in it."""

    def __init__(self, comparison: SideBySide, *, is_left: bool) -> None:
        super().__init__()
        self._comparison = comparison
        self._is_left = is_left

    def render(self) -> Content:
        """Return the heading."""
        comparison, width = self._comparison, self.content_size.width
        session = comparison.left if self._is_left else comparison.right
        header = session.recording.trace.header
        name = comparison.names(width)[0 if self._is_left else 1]
        lines = (
            Content.styled(escape(name, _WIDEST), "bold"),
            Content.assemble(f"loop {escape(header.loop, _WIDEST)} ", ending(session, "ends as ")),
            Content(
                f"seed {header.seed}, entry {session.place} of {session.last} "
                f"at {clock(session.position.at_ns)}"
            ),
        )
        return Content("\n").join([line.truncate(width, ellipsis=True) for line in lines])


class Side(Vertical):
    """The facts of one run. A click in them goes to an entry of that run."""

    class Clicked(Message):
        """An entry of one side was clicked."""

        def __init__(self, place: int, *, is_left: bool) -> None:
            super().__init__()
            self.place = place
            self.is_left = is_left

    def __init__(self, session: Session, *, is_left: bool) -> None:
        super().__init__(id="left" if is_left else "right")
        self.session = session
        self._is_left = is_left

    def compose(self) -> ComposeResult:
        """Yield the pane."""
        yield FactsPane()

    def on_goto(self, message: Goto) -> None:
        """Say of which side the entry is."""
        message.stop()
        self.post_message(Side.Clicked(message.place, is_left=self._is_left))

"""The replay screen: the timeline, the facts at the cursor, and the actions as keys and clicks.

Not here: the behaviour (session.py) and the facts (simloop.cursor). The rule to keep: after each
action the panes that are visible show the session as it is, and the others cost nothing.
"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import Screen

from simloop.cursor.views import FactView, view
from simloop_tui.keys import ACTIONS
from simloop_tui.session import Session
from simloop_tui.widgets.bars import Footer, Heading, ViewBar
from simloop_tui.widgets.facts import FactsPane
from simloop_tui.widgets.goto import Goto
from simloop_tui.widgets.timeline import Timeline

_FIXED = (
    FactView.WHY, FactView.STATE, FactView.COUNTERS, FactView.TIMERS, FactView.REPLY,
)  # fmt: skip
"""The views that have panes of their own where the terminal is wide enough."""


class ReplayScreen(Screen[None]):
    """One run, with the cursor on one of its entries."""

    BINDINGS: ClassVar = [
        Binding(key, action.call, action.words, show=False)
        for action in ACTIONS
        for key in action.keys
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]  # noqa: RUF012 - Textual's declaration

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._chosen = FactView.REQUEST

    def compose(self) -> ComposeResult:
        """Yield the widgets."""
        yield Heading(self.session)
        with Horizontal(id="body"):
            yield Timeline(self.session, id="timeline")
            with Vertical(id="facts"):
                with Horizontal(id="now"):
                    yield FactsPane("state", id="state")
                    with Vertical():
                        yield FactsPane("counters", id="counters")
                        yield FactsPane("timers", id="timers")
                yield FactsPane("why", id="why")
                yield ViewBar(id="views")
                with Horizontal(id="details"):
                    yield FactsPane(id="chosen")
                    yield FactsPane("reply", id="reply")
        yield Footer(self.session)

    def on_mount(self) -> None:
        """Show the start of the run."""
        self.query_one(Timeline).focus()
        self.follow()

    def on_screen_resume(self) -> None:
        """Show what another screen has changed."""
        self.follow()

    def on_resize(self) -> None:
        """Fill the panes that have become visible."""
        self.call_after_refresh(self.follow)

    def follow(self) -> None:
        """Show the session as it is now."""
        position = self.session.position
        for each in _FIXED:
            pane = self.query_one(f"#{each}", FactsPane)
            if pane.parent is not None and pane.is_on_screen:
                pane.show(view(each, position))
        chosen = self.query_one("#chosen", FactsPane)
        chosen.border_title = str(self._chosen)
        chosen.show(view(self._chosen, position))
        self.query_one(ViewBar).show(self._chosen)
        self.query_one(Heading).refresh()
        self.query_one(Footer).refresh()
        self.query_one(Timeline).follow()

    def on_goto(self, message: Goto) -> None:
        """Go to the entry that was clicked."""
        self.session.go(message.place)
        self.follow()

    def action_session(self, method: str, *arguments: str) -> None:
        """Perform an action of the session."""
        getattr(self.session, method)(*arguments)
        self.follow()

    def action_view(self, name: str) -> None:
        """Show another view in the pane that can be chosen."""
        self._chosen = FactView(name)
        self.follow()

    def action_quit(self) -> None:
        """Leave the program."""
        self.app.exit()

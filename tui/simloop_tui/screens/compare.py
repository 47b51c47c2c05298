"""The comparison screen: two runs side by side, and the facts of both at the cursor.

Both sides show the same view, and a fact that only one side has is marked.
"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from simloop.cursor.keys import FactView
from simloop.escape import escape
from simloop_tui.comparing import COMPARE_ACTIONS, SideBySide
from simloop_tui.keys import COMPARE
from simloop_tui.screens.keyed import bindings
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.screens.run import RunScreen
from simloop_tui.session import Session
from simloop_tui.widgets.bars import KeyBar, ViewBar
from simloop_tui.widgets.facts import FactsPane
from simloop_tui.widgets.goto import Goto, ToggleFold
from simloop_tui.widgets.pairs import Pairs
from simloop_tui.widgets.sides import Side, SideHeading

_WIDEST = 400


class CompareScreen(RunScreen):
    """Two runs, with the cursor on one pair of their entries."""

    actions = COMPARE
    BINDINGS: ClassVar = bindings(COMPARE)

    def __init__(self, comparison: SideBySide) -> None:
        super().__init__()
        self.comparison = comparison
        self._chosen = FactView.ENTRY

    def compose(self) -> ComposeResult:
        """Yield the widgets."""
        left, right = self.comparison.left, self.comparison.right
        with Horizontal(id="headings"):
            yield SideHeading(self.comparison, is_left=True)
            yield SideHeading(self.comparison, is_left=False)
        if self.comparison.notice:
            yield Static(Content(escape(self.comparison.notice, _WIDEST)), id="notice")
        yield Pairs(self.comparison)
        yield ViewBar()
        with Horizontal(id="sides"):
            yield Side(left, is_left=True)
            yield Side(right, is_left=False)
        yield KeyBar(self.comparison, COMPARE)

    def on_mount(self) -> None:
        """Show the first different effect."""
        self.query_one(Pairs).focus()
        self.follow()

    def on_screen_resume(self) -> None:
        """Show both runs at the cursor, after one of them was stepped through."""
        said = self.comparison.said
        self.comparison.go(self.comparison.place)
        self.comparison.said = said
        self.follow()

    @property
    def run_here(self) -> Session:
        """Return the session of the chosen side."""
        return self.comparison.side

    @property
    def named_here(self) -> str:
        """Return which side is chosen, and the name of its run."""
        comparison = self.comparison
        return f"the {'left' if comparison.is_left else 'right'} run ({comparison.side.name})"

    def say(self, words: str) -> None:
        """Show the answer to an action in the footer."""
        self.comparison.said = words
        self.query_one(KeyBar).follow()

    def follow(self) -> None:
        """Show the comparison as it is now."""
        both = self.comparison.facts(self._chosen)
        for side, rows in zip(self.query(Side), both, strict=True):
            pane = side.query_one(FactsPane)
            is_chosen = side.session is self.comparison.side
            chosen = "> " if is_chosen else ""
            pane.border_title = f"{chosen}{side.id} run: {self._chosen}"
            pane.set_class(is_chosen, "-chosen")
            pane.show(rows)
        self.query_one(ViewBar).show(self._chosen)
        for heading in self.query(SideHeading):
            heading.refresh()
        self.query_one(KeyBar).follow()
        self.query_one(Pairs).follow()

    # ------------------------------------------------------------------ clicks and keys

    def on_goto(self, message: Goto) -> None:
        """Go to the pair that was clicked."""
        self.comparison.go(message.place)
        self.follow()

    def on_side_clicked(self, message: Side.Clicked) -> None:
        """Go to the pair of the entry that was clicked."""
        self.comparison.go_to_entry(message.place, is_left=message.is_left)
        self.follow()

    def on_toggle_fold(self, message: ToggleFold) -> None:
        """Open or close the fold on both sides, where they have it."""
        for session in (self.comparison.left, self.comparison.right):
            session.toggle_fold(message.place)
        self.follow()

    def action_session(self, method: str) -> None:
        """Perform an action of the comparison."""
        COMPARE_ACTIONS[method](self.comparison)
        self.follow()

    def action_view(self, name: str) -> None:
        """Show another view of both sides."""
        self._chosen = FactView(name)
        self.follow()

    def action_open(self) -> None:
        """Step through the chosen run, from the entry at the cursor on."""
        self.app.push_screen(ReplayScreen(self.comparison.side))

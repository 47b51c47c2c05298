"""The replay screen: the timeline, the facts at the cursor, and the actions as keys and clicks.

After each action the panes that are visible show the session as it is; the others cost nothing.
"""

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.worker import get_current_worker

from simloop.cursor.keys import FactView
from simloop.cursor.rows import Mark
from simloop.trace.kinds import lanes_in
from simloop_tui.keys import ACTIONS
from simloop_tui.screens.dialogs import AskScreen, FilterScreen
from simloop_tui.screens.keyed import bindings
from simloop_tui.screens.run import RunScreen
from simloop_tui.session import SESSION_ACTIONS, Session
from simloop_tui.widgets.bars import Heading, KeyBar, ViewBar
from simloop_tui.widgets.facts import FactsPane, Goto, ToggleFold
from simloop_tui.widgets.timeline import Scrubber, Timeline

_FIXED = (
    FactView.WHY, FactView.STATE, FactView.COUNTERS, FactView.TIMERS, FactView.REPLY,
)  # fmt: skip
"""The views that have panes of their own where the terminal is wide enough."""
_TICK_S = 0.1


class ReplayScreen(RunScreen):
    """One run, with the cursor on one of its entries."""

    actions = ACTIONS
    BINDINGS: ClassVar = bindings(ACTIONS)
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]  # noqa: RUF012 - Textual's declaration
    VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]  # noqa: RUF012 - the same

    def __init__(self, session: Session) -> None:
        super().__init__(classes="-agent" if session.recording.is_of_agent else None)
        self.session = session
        self.lanes = lanes_in(session.recording.entries)
        self._choice: FactView | None = None
        self._detail = FactView.REQUEST

    def compose(self) -> ComposeResult:
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
        yield Scrubber(self.session)
        yield KeyBar(self.session)

    def on_mount(self) -> None:
        self.session.reveal(self.session.place)
        self.query_one(Timeline).focus()
        self.set_interval(_TICK_S, self._tick)
        self.follow()

    def on_screen_resume(self) -> None:
        self.follow()

    def on_resize(self) -> None:
        """Fill the panes that have become visible."""
        self.call_after_refresh(self.follow)

    def follow(self) -> None:
        facts = self.session.facts
        fixed = self._panes()
        # Until the user chooses: the reasons if there are some and they have no pane, or else the
        # request.
        has_reasons = FactView.WHY not in fixed and facts(FactView.WHY)[0].mark is not Mark.QUIET
        choice = self._choice or (FactView.WHY if has_reasons else self._detail)
        for name, pane in fixed.items():
            pane.show(facts(name))
            pane.set_class(name is choice, "-chosen")
        # A view that has a pane of its own is not shown twice.
        detail = self._detail if choice in fixed else choice
        chosen = self.query_one("#chosen", FactsPane)
        chosen.border_title = str(detail)
        chosen.show(facts(detail))
        self.query_one(ViewBar).show(choice)
        self.query_one(Heading).refresh()
        self.query_one(KeyBar).follow()
        self.query_one(Scrubber).refresh()
        self.query_one(Timeline).follow()

    def _panes(self) -> dict[FactView, FactsPane]:
        found = {each: self.query_one(f"#{each}", FactsPane) for each in _FIXED}
        return {name: pane for name, pane in found.items() if pane.is_on_screen}

    @property
    def run_here(self) -> Session:
        """Return the session."""
        return self.session

    def say(self, words: str) -> None:
        """Show the answer to an action in the footer."""
        self.session.said = words
        self.query_one(KeyBar).follow()

    def _tick(self) -> None:
        if self.session.player.plays and self.is_current:
            self.session.advance(_TICK_S)
            self.follow()

    # ------------------------------------------------------------------ clicks and keys

    def on_goto(self, message: Goto) -> None:
        self.session.go(message.place)
        self.follow()

    def on_toggle_fold(self, message: ToggleFold) -> None:
        self.session.toggle_fold(message.place)
        self.follow()

    def action_session(self, method: str, *arguments: str) -> None:
        SESSION_ACTIONS[method](self.session, *arguments)
        self.follow()

    def action_view(self, name: str) -> None:
        """Show another view in the pane that can be chosen, or point to the pane that it has."""
        self._choice = FactView(name)
        if self._choice in self._panes():
            self.session.said = f"{name} is shown in its own pane"
        else:
            self.session.said = ""
        if self._choice not in _FIXED:
            self._detail = self._choice
        self.follow()

    def action_goto(self) -> None:
        self.app.push_screen(
            AskScreen("Go to an entry number, or a virtual time such as 5.2s:"), self._goto
        )

    def _goto(self, named: str | None) -> None:
        if named:
            self.action_session("goto", named)

    def action_search(self) -> None:
        self.app.push_screen(AskScreen("Search for:", self.session.query), self._search)

    def _search(self, text: str | None) -> None:
        if text:
            self.session.query = text
            self.action_next_match()

    def action_next_match(self) -> None:
        self._find(1)

    def action_previous_match(self) -> None:
        self._find(-1)

    @work(thread=True, exclusive=True, group="search")
    def _find(self, step: int) -> None:
        """Search in a thread: it takes a second in a long trace, and keys must work meanwhile."""
        worker, session = get_current_worker(), self.session
        found = session.search_again(step, lambda: not worker.is_cancelled)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._found, found)

    def _found(self, place: int | None) -> None:
        self.session.go_to_match(place)
        self.follow()

    def action_filter(self) -> None:
        self.app.push_screen(FilterScreen(self.session.kinds(), self.session.hidden), self._filter)

    def _filter(self, hidden: frozenset[str] | None) -> None:
        if hidden is not None and hidden != self.session.hidden:
            self.session.hide(hidden)
            self.follow()

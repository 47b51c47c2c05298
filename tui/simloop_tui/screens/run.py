"""A screen that has a run, with the actions that change the run at the cursor.

A changed run is made in a thread: it has an event loop of its own, and keys must work meanwhile.
"""

from functools import partial

from textual import work
from textual.worker import get_current_worker

from simloop.cursor.index import Landmark
from simloop.cursor.position import Position
from simloop.errors import ScenarioError, SimloopError
from simloop_tui.changes import Change, changes_at, without_fault
from simloop_tui.comparison.side_by_side import SideBySide
from simloop_tui.forks import compared, edit_of_reply, reply_text
from simloop_tui.screens.dialogs import EDIT, EditScreen, ForkScreen, ShrinkScreen
from simloop_tui.screens.keep import KeepScreen
from simloop_tui.screens.keyed import Opened
from simloop_tui.session import Session


class RunScreen(KeepScreen):
    """A screen with one run, or with two of which one is chosen."""

    def action_fork(self) -> None:
        position = self.run_here.position
        try:
            changes = changes_at(position)
        except ScenarioError as error:
            self.say(str(error))
        else:
            self.app.push_screen(ForkScreen(changes), partial(self._changed, position))

    def _changed(self, position: Position, change: Change | None) -> None:
        if change is EDIT:
            parse = partial(edit_of_reply, position)
            fork = partial(self._changed, position)
            self.app.push_screen(EditScreen(reply_text(position), parse), fork)
        elif change is not None:
            self._fork(position, change)

    def action_switch_off(self) -> None:
        position = self.run_here.position
        try:
            change = without_fault(position)
        except ScenarioError as error:
            self.say(str(error))
        else:
            if change is None:
                self.say(f"there is no fault at this entry; {self._nearest_fault(position)}")
            else:
                self._fork(position, change)

    def _nearest_fault(self, position: Position) -> str:
        """Return in words where the next fault is, or the last one if none follows."""
        index = position.recording.index
        found, which, move = index.next(Landmark.FAULT, position.place), "next", "next"
        if found is None:
            found, which, move = index.previous(Landmark.FAULT, position.place), "last", "previous"
        if found is None:
            return "the run has none"
        keys = [each.shown_keys for each in self.actions if each.does == (move, "fault")]
        return f"the {which} fault is entry {found}{f' ({keys[0]})' if keys else ''}"

    def _fork(self, position: Position, change: Change) -> None:
        self.say(f"runs on: {change.name} ...")
        self._run_on(position, change, self.run_here.name)

    @work(thread=True, exclusive=True, group="fork")
    def _run_on(self, position: Position, change: Change, source: str) -> None:
        worker = get_current_worker()
        try:
            branches = compared(position, change, source)
        except SimloopError as error:
            self.app.call_from_thread(self.say, str(error))
        else:
            if not worker.is_cancelled:
                self.app.call_from_thread(self._ran, branches)

    def _ran(self, branches: SideBySide) -> None:
        self.say("")
        self.post_message(Opened(branches))

    def action_shrink(self) -> None:
        self.app.push_screen(ShrinkScreen(self.run_here), self._shrunk)

    def _shrunk(self, answer: Session | str | None) -> None:
        if isinstance(answer, Session):
            self.post_message(Opened(answer))
        elif answer is not None:
            self.say(answer)

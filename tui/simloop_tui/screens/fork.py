"""The menu of changes at the cursor."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from simloop.escape import escape
from simloop_tui.changes import Change

EDIT = Change("edit the next reply", lambda tree: tree)
"""The choice to write the change by hand."""


class ForkScreen(ModalScreen[Change | None]):
    """Answers the change that the user chooses, EDIT, or None.

    The change that switches a fault off comes before EDIT.
    """

    BINDINGS: ClassVar = [("escape,q,F", "dismiss(None)", "leave")]

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__()
        mending = [each for each in changes if each.mends]
        self._changes = (*mending, EDIT, *(each for each in changes if not each.mends))

    def compose(self) -> ComposeResult:
        """Yield a line for each change."""
        yield OptionList(*(Option(Content(escape(_words(each)))) for each in self._changes))

    def on_mount(self) -> None:
        """Say what the keys do."""
        box = self.query_one(OptionList)
        box.border_title = "fork here: what happens next?"
        box.focus()
        self.watch(box, "scroll_y", self._say_what_follows)
        self.call_after_refresh(self._say_what_follows)

    def on_resize(self) -> None:
        """Say whether the new size hides choices."""
        self.call_after_refresh(self._say_what_follows)

    def _say_what_follows(self) -> None:
        """Say what the keys do, and that more choices follow below the last visible one."""
        box = self.query_one(OptionList)
        follows = "more choices follow below; " if box.scroll_y < box.max_scroll_y else ""
        box.border_subtitle = f"{follows}Enter runs on, Escape leaves"

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer the chosen change."""
        self.dismiss(self._changes[event.option_index])


def _words(change: Change) -> str:
    return f"without this fault: {change.name}" if change.mends else change.name

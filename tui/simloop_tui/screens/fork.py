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
    """Answers the change that the user chooses, EDIT, or None."""

    BINDINGS: ClassVar = [("escape,q,F", "dismiss(None)", "leave")]

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__()
        self._changes = (EDIT, *changes)

    def compose(self) -> ComposeResult:
        """Yield a line for each change."""
        yield OptionList(*(Option(Content(escape(each.name))) for each in self._changes))

    def on_mount(self) -> None:
        """Say what the keys do."""
        box = self.query_one(OptionList)
        box.border_title = "fork here: what happens next?"
        box.border_subtitle = "Enter or a click runs on with it, Escape leaves"
        box.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer the chosen change."""
        self.dismiss(self._changes[event.option_index])

"""The editor of the next reply.

The rule to keep: a text with a mistake stays as it is, with the mistake below it.
"""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from simloop.errors import ScenarioError
from simloop_tui.changes import Change


class EditScreen(ModalScreen[Change | None]):
    """Answers the change that `parse` makes of the text, or None if the user leaves."""

    BINDINGS: ClassVar = [
        Binding("ctrl+s,f2", "done", "run on", priority=True),
        Binding("escape", "dismiss(None)", "leave", priority=True),
    ]

    def __init__(self, text: str, parse: Callable[[str], Change]) -> None:
        super().__init__()
        self._text = text
        self._parse = parse

    def compose(self) -> ComposeResult:
        """Yield the text, and the line for a mistake."""
        with Vertical():
            yield TextArea(self._text, show_line_numbers=True, tab_behavior="indent")
            yield Static(id="mistake")

    def on_mount(self) -> None:
        """Say what the keys do."""
        box = self.query_one(TextArea)
        box.cursor_blink = False
        box.border_title = "the next reply, as in a scenario file"
        box.border_subtitle = "Ctrl-S or F2 runs on with it, Escape leaves"
        box.focus()

    def action_done(self) -> None:
        """Answer the change, or show the mistake and go to its line."""
        box = self.query_one(TextArea)
        try:
            change = self._parse(box.text)
        except ScenarioError as error:
            self.query_one("#mistake", Static).update(Content(str(error)))
            if error.line is not None:
                box.move_cursor((error.line - 1, max((error.column or 1) - 1, 0)))
        else:
            self.dismiss(change)

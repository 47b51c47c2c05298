"""A text that was copied, to be selected by hand where the terminal refuses the clipboard."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import TextArea


class TextScreen(ModalScreen[None]):
    """Shows a text."""

    BINDINGS: ClassVar = [Binding("escape,q,enter", "dismiss(None)", "leave", priority=True)]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Yield the text."""
        yield TextArea(self._text, read_only=True, soft_wrap=True)

    def on_mount(self) -> None:
        """Say where the text is."""
        box = self.query_one(TextArea)
        box.border_title = "copied to the clipboard, if the terminal allows it"
        box.border_subtitle = "Escape leaves"
        box.focus()

"""The line at the bottom that asks for a text: where to go, or what to search."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class AskScreen(ModalScreen[str | None]):
    """Asks for one line. The answer is None if the user leaves with Escape or a click beside it."""

    BINDINGS: ClassVar = [("escape", "dismiss(None)", "leave")]

    def __init__(self, question: str, text: str = "") -> None:
        super().__init__()
        self._question = question
        self._text = text

    def compose(self) -> ComposeResult:
        """Yield the question and the line."""
        yield Static(Content(self._question))
        yield Input(self._text, select_on_focus=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer."""
        self.dismiss(event.value)

    def on_click(self, event: events.Click) -> None:
        """Leave after a click beside the line."""
        if event.widget is self:
            self.dismiss(None)

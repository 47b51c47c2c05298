"""The line at the bottom that asks for a text: where to go, or what to search."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static
from textual.widgets.input import Selection


class AskScreen(ModalScreen[str | None]):
    """Asks for one line. The answer is None if the user leaves with Escape or a click beside it."""

    BINDINGS: ClassVar = [("escape", "dismiss(None)", "leave")]

    def __init__(self, question: str, text: str = "") -> None:
        super().__init__()
        self._question = question
        self._text = text
        self._ahead: list[events.Key] = []
        self._is_ready = False

    def compose(self) -> ComposeResult:
        """Yield the question and the line."""
        yield Static(Content(self._question))
        box = Input(self._text, select_on_focus=False)
        box.cursor_blink = False
        yield box

    def on_mount(self) -> None:
        """Select the text, so that typing replaces it, and take what was typed ahead."""
        self.query_one(Input).selection = Selection(0, len(self._text))
        self._is_ready = True
        for event in self._ahead:
            self.take(event)

    def take(self, event: events.Key) -> None:
        """Take a key that was typed while this screen opened, and that the line did not get."""
        if not self._is_ready:
            self._ahead.append(event)
            return
        line = self.query_one(Input)
        if event.is_printable and event.character:
            line.replace(event.character, *sorted(line.selection))
        elif event.key == "enter" and not line.has_focus:
            self.dismiss(line.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer."""
        self.dismiss(event.value)

    def on_click(self, event: events.Click) -> None:
        """Leave after a click beside the line."""
        if event.widget is self:
            self.dismiss(None)

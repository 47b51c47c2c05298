"""The help screen: all actions with their keys, and how to read the screen.

Not here: the actions (keys.py). The rule to keep: it is made from the table of actions, and each
action in it can be chosen.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from simloop_tui.keys import Action

_READING = (
    "Each line of the timeline is one entry of the trace: its virtual time, the part of the world "
    "that it is about, a sign and words. Signs: > prompt  ^ request  t text  ( tool starts  "
    ") tool ends  * decision  z wait  % compaction  ! failure  = end. Tab goes to a pane, "
    "which the arrow keys then scroll."
)
_KEYS_WIDTH = 24


class HelpScreen(ModalScreen[Action | None]):
    """Answers the action that the user chooses, or None."""

    BINDINGS: ClassVar = [("escape,q,question_mark", "dismiss(None)", "leave")]

    def __init__(self, actions: Sequence[Action]) -> None:
        super().__init__()
        self._actions = actions

    def compose(self) -> ComposeResult:
        """Yield the actions in groups."""
        yield Static(Content(_READING))
        yield OptionList(*_options(self._actions))

    def on_mount(self) -> None:
        """Give the list the keys."""
        box = self.query_one(OptionList)
        box.border_title = "keys: Enter or a click performs the action, Escape leaves"
        box.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer the chosen action."""
        self.dismiss(next(each for each in self._actions if each.name == event.option_id))


def _options(actions: Sequence[Action]) -> Iterator[Option]:
    group = ""
    for action in actions:
        if action.group != group:
            group = action.group
            yield Option(Content.styled(group, "bold"), disabled=True)
        yield Option(Content(f"  {action.shown_keys:<{_KEYS_WIDTH}}{action.words}"), id=action.name)

"""The help screen: all actions with their keys, to be chosen, and how to read the screen."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from simloop.cursor.rows import Mark
from simloop.trace.kinds import Lane, legend
from simloop_tui.keys import Action

_SCRUBBER = "Above the slider stand the same signs, and b for your marks."
_SCROLLING = "Tab goes to a pane, which the arrow keys then scroll."
_KEYS_WIDTH = 24
_COLUMN = 13


class HelpScreen(ModalScreen[Action | None]):
    """Answers the action that the user chooses, or None."""

    BINDINGS: ClassVar = [("escape,q,question_mark", "dismiss(None)", "leave")]

    def __init__(self, actions: Sequence[Action]) -> None:
        super().__init__()
        self._actions = actions

    def compose(self) -> ComposeResult:
        """Yield the actions in groups, then how to read the screen."""
        yield OptionList(*_options(self._actions), *_legend())

    def on_mount(self) -> None:
        """Give the list the keys."""
        box = self.query_one(OptionList)
        box.border_title = "keys: Enter or a click performs the action, Escape leaves"
        box.border_subtitle = "the signs of the entries stand below: End"
        box.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer the chosen action; a line of the legend is none."""
        if event.option_id is not None:
            self.dismiss(next(each for each in self._actions if each.name == event.option_id))


def reading() -> Iterator[str]:
    """Yield the lines that say how to read the screen: each sign of the timeline and the panes."""
    signs = legend()
    columns = [[lane, *(f"{sign} {words}" for sign, words in signs[lane].items())] for lane in Lane]
    for cells in zip_longest(*columns, fillvalue=""):
        yield "".join(f"{cell:<{_COLUMN}}" for cell in cells).rstrip()
    yield _SCRUBBER
    yield f"In the panes: {'  '.join(f'{mark} {mark.words}' for mark in Mark if mark.words)}."
    yield _SCROLLING


def _options(actions: Sequence[Action]) -> Iterator[Option]:
    group = ""
    for action in actions:
        if action.group != group:
            group = action.group
            yield Option(Content.styled(group, "bold"), disabled=True)
        yield Option(Content(f"  {action.shown_keys:<{_KEYS_WIDTH}}{action.words}"), id=action.name)


def _legend() -> Iterator[Option]:
    """Yield the lines that say how to read the screen; they are chosen only to scroll there."""
    yield Option(Content.styled("signs of the entries, by lane", "bold"), disabled=True)
    yield from (Option(Content(line)) for line in reading())

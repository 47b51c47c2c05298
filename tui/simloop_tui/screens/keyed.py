"""A screen whose keys come from a table, with the actions that every screen has.

Each action of a table is a key and a line of the help, which performs it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.screen import Screen

from simloop.trace.kinds import USUAL_LANES, Lane
from simloop_tui.comparison import SideBySide
from simloop_tui.keys import Action
from simloop_tui.screens.dialogs import HelpScreen
from simloop_tui.session import Session

_FIRST = 2  # the application has an empty screen below the first one


def bindings(actions: Iterable[Action]) -> list[Any]:
    """Return the bindings of a table of actions."""
    return [
        Binding(key, action.call, action.words, show=False)
        for action in actions
        for key in action.keys
    ]


class Opened(Message):
    """One run, or two, are to be shown on a screen of their own."""

    def __init__(self, runs: Session | SideBySide) -> None:
        super().__init__()
        self.runs = runs


class KeyedScreen(Screen[None]):
    """A screen with a table of actions."""

    actions: ClassVar[tuple[Action, ...]]
    lanes: Sequence[Lane] = USUAL_LANES
    """The lanes of the timeline that it shows."""

    def action_leave(self) -> None:
        if self.is_first:
            self.say("there is no screen before this one; q quits")
        else:
            self.app.pop_screen()

    @property
    def is_first(self) -> bool:
        """Return whether there is no screen to go back to."""
        return len(self.app.screen_stack) <= _FIRST

    def say(self, words: str) -> None:
        """Show the answer to an action, where a screen has a place for it."""

    def on_key(self) -> None:
        """Take the answer to the action before away: a key comes here before its action."""
        self.say("")

    def action_theme(self) -> None:
        dark = self.app.current_theme.dark
        self.app.theme = "textual-light" if dark else "textual-dark"

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self.actions, self.lanes), self._perform)

    async def _perform(self, action: Action | None) -> None:
        if action is not None:
            await self.run_action(action.call)

    def action_quit(self) -> None:
        self.app.exit()

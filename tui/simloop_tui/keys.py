"""The tables of actions: the name, the keys and the words of each.

Bindings, the help screen and the footer of a screen are made from its table. A key has
one meaning on all screens.
"""

from collections.abc import Mapping
from typing import NamedTuple

from simloop.cursor.keys import FIND, HELP, JUMP, MOVE, MOVES, OTHER, SHOW, VIEWS, RunKey


class Action(NamedTuple):
    """One action. `does` is its method with at most one argument.

    A method of the session, or of the comparison, if `of_session`, else an action of the screen.
    `brief` is its word in the footer, empty if it has none there.
    """

    keys: tuple[str, ...]
    words: str
    group: str
    does: tuple[str, ...]
    of_session: bool = True
    brief: str = ""

    @property
    def name(self) -> str:
        """Return the name, which is unique: the method and its argument."""
        return " ".join(self.does)

    @property
    def call(self) -> str:
        """Return the action as Textual writes it: `session('next', 'fault')`."""
        method, *rest = self.does
        if self.of_session:
            return f"session({', '.join(map(repr, self.does))})"
        return f"{method}({', '.join(map(repr, rest))})"

    @property
    def shown_keys(self) -> str:
        """Return the keys as people write them: `j or down`."""
        return " or ".join(_SHOWN.get(key, key) for key in self.keys)


_SHOWN: Mapping[str, str] = {
    "full_stop": ".", "comma": ",", "colon": ":", "slash": "/", "question_mark": "?",
    "left_square_bracket": "[", "right_square_bracket": "]", "plus": "+", "minus": "-",
    "pagedown": "page down", "pageup": "page up", "ctrl+d": "Ctrl-D",
    "ctrl+u": "Ctrl-U", "ctrl+c": "Ctrl-C", "ctrl+q": "Ctrl-Q", "equals_sign": "=",
    "escape": "Escape", "enter": "Enter", "tab": "Tab",
}  # fmt: skip
_NAMES = {shown: key for key, shown in _SHOWN.items()}

_CHANGE, _KEEP = "Change", "Keep"
_BRIEF = {
    "forward": "next", "back": "back", "goto": "go to", "next step": "step",
    "next tool call": "tool", "next fault": "fault", "search": "search", "filter": "filter",
    "play": "play", "help": "help",
}  # fmt: skip
_OF_SCREEN = frozenset({"goto", "search", "next_match", "previous_match", "filter", "view", "help"})


def _shared(each: RunKey) -> Action:
    keys = tuple(_NAMES.get(key, key) for key in each.keys)
    brief = _BRIEF.get(" ".join(each.does), "")
    of_session = each.does[0] not in _OF_SCREEN
    return Action(keys, each.words, each.group, each.does, of_session=of_session, brief=brief)


def _of_screen(key: str, words: str, group: str, method: str, brief: str = "") -> Action:
    return Action((key,), words, group, (method,), of_session=False, brief=brief)


def _moving(keys: tuple[str, ...], words: str, to: str, brief: str = "") -> Action:
    return Action(keys, words, MOVE, ("move", to), of_session=False, brief=brief)


_VIEWS = tuple(map(_shared, VIEWS))
LEAVING: tuple[Action, ...] = (
    _of_screen("escape", "back to the previous screen", OTHER, "leave"),
    Action(("q", "ctrl+c", "ctrl+q"), "quit", OTHER, ("quit",), of_session=False, brief="quit"),
)
_EVERYWHERE = (
    _of_screen("L", "dark or light", SHOW, "theme"),
    _shared(HELP),
    *LEAVING,
)
"""The actions of each screen."""

_OF_A_RUN = (
    _of_screen("F", "fork here: change the run at the cursor, and run on", _CHANGE, "fork", "fork"),
    _of_screen("Z", "shrink the failing run to a minimal one", _CHANGE, "shrink"),
    _of_screen("O", "save the run as a scenario file", _KEEP, "save"),
    _of_screen("y", "copy the run as a pytest test", _KEEP, "copy_test"),
    _of_screen("Y", "copy the command that repeats the run", _KEEP, "copy_command"),
    _of_screen("v", "open the scenario in $EDITOR, at its line", _KEEP, "edit_file"),
)
"""The actions of each screen that has a run: of the one run, or of the chosen one of two."""

ACTIONS: tuple[Action, ...] = (
    *map(_shared, MOVES),
    *_OF_A_RUN,
    *_VIEWS,
    Action(("z",), "open or close the folds of the context", SHOW, ("fold",)),
    *_EVERYWHERE,
)

COMPARE: tuple[Action, ...] = (
    Action(("j", "down"), "next pair of entries", MOVE, ("move", "1"), brief="next"),
    Action(("k", "up"), "previous pair of entries", MOVE, ("move", "-1"), brief="back"),
    Action(("pagedown", "ctrl+d"), "20 pairs forward", MOVE, ("move", "20")),
    Action(("pageup", "ctrl+u"), "20 pairs back", MOVE, ("move", "-20")),
    Action(("g", "home"), "first pair", MOVE, ("start",)),
    Action(("G", "end"), "last pair", MOVE, ("end",)),
    Action(("n",), "next difference", JUMP, ("next_difference",), brief="next difference"),
    Action(("N",), "previous difference", JUMP, ("previous_difference",)),
    Action(("tab",), "choose the other run", SHOW, ("other_side",), brief="other run"),
    _of_screen("enter", "step through the chosen run", SHOW, "open", "step through it"),
    *_OF_A_RUN,
    *_VIEWS,
    *_EVERYWHERE,
)
"""The actions of the screen that compares two runs."""

LIBRARY: tuple[Action, ...] = (
    _moving(("j", "down"), "next run of the list", "1", "next"),
    _moving(("k", "up"), "previous run of the list", "-1", "back"),
    _moving(("pagedown", "ctrl+d"), "20 runs forward", "20"),
    _moving(("pageup", "ctrl+u"), "20 runs back", "-20"),
    _moving(("g", "home"), "first run of the list", "first"),
    _moving(("G", "end"), "last run of the list", "last"),
    _of_screen("slash", "show the runs that have some words", FIND, "search", "filter"),
    _of_screen("enter", "step through the run", SHOW, "open", "step through it"),
    *_EVERYWHERE,
)
"""The actions of the list of the runs that can be opened."""

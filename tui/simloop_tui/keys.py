"""The tables of actions: the name, the keys and the words of each.

Not here: the actions (session.py, comparing.py, screens). The rule to keep: bindings, the help
screen, the palette and the footer of a screen are made from its table, so that no key is listed in
a second place, and a key has one meaning on all screens.
"""

from collections.abc import Mapping
from typing import NamedTuple

from simloop.cursor.index import Landmark
from simloop.cursor.views import FactView


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
    "pagedown": "page down", "pageup": "page up", "ctrl+p": "Ctrl-P", "ctrl+d": "Ctrl-D",
    "ctrl+u": "Ctrl-U", "ctrl+c": "Ctrl-C", "ctrl+q": "Ctrl-Q", "equals_sign": "=",
    "escape": "Escape", "enter": "Enter", "tab": "Tab",
}  # fmt: skip

VIEW_KEYS: Mapping[FactView, str] = {
    FactView.WHY: "1",
    FactView.STATE: "2",
    FactView.COUNTERS: "3",
    FactView.TIMERS: "4",
    FactView.REQUEST: "5",
    FactView.REPLY: "6",
    FactView.CALLS: "7",
    FactView.HOOKS: "8",
    FactView.CONTEXT: "9",
    FactView.ENTRY: "0",
}
"""The key of each view, in the order in which they are offered."""

_MOVE, _JUMP, _FIND, _PLAY, _SHOW, _OTHER = "Move", "Jump", "Find", "Play", "Show", "Other"
_CHANGE, _KEEP = "Change", "Keep"
_JUMPS: Mapping[Landmark, tuple[str, str]] = {
    Landmark.TRANSITION: ("full_stop", "comma"),
    Landmark.STEP: ("s", "S"),
    Landmark.PROMPT: ("p", "P"),
    Landmark.MODEL_CALL: ("m", "M"),
    Landmark.TOOL_CALL: ("t", "T"),
    Landmark.FAULT: ("e", "E"),
    Landmark.RETRY: ("r", "R"),
    Landmark.COMPACTION: ("c", "C"),
    Landmark.STOP: ("a", "A"),
}
_BRIEF = {Landmark.STEP: "step", Landmark.TOOL_CALL: "tool", Landmark.FAULT: "fault"}


def _jumps() -> tuple[Action, ...]:
    return tuple(
        Action((key,), f"{direction} {landmark}", _JUMP, (direction, str(landmark)), brief=brief)
        for landmark, keys in _JUMPS.items()
        for direction, key, brief in (
            ("next", keys[0], _BRIEF.get(landmark, "")),
            ("previous", keys[1], ""),
        )
    )


def _views() -> tuple[Action, ...]:
    return tuple(
        Action((key,), f"show {view}", _SHOW, ("view", str(view)), of_session=False)
        for view, key in VIEW_KEYS.items()
    )


def _of_screen(key: str, words: str, group: str, method: str, brief: str = "") -> Action:
    return Action((key,), words, group, (method,), of_session=False, brief=brief)


def _moving(keys: tuple[str, ...], words: str, to: str, brief: str = "") -> Action:
    return Action(keys, words, _MOVE, ("move", to), of_session=False, brief=brief)


LEAVING: tuple[Action, ...] = (
    _of_screen("escape", "back to the previous screen", _OTHER, "leave"),
    Action(("q", "ctrl+c", "ctrl+q"), "quit", _OTHER, ("quit",), of_session=False, brief="quit"),
)
_EVERYWHERE = (
    _of_screen("L", "dark or light", _SHOW, "theme"),
    _of_screen("question_mark", "help", _OTHER, "help", "help"),
    _of_screen("ctrl+p", "command palette", _OTHER, "palette"),
    *LEAVING,
)
"""The actions of each screen."""

_OF_A_RUN = (
    _of_screen("F", "fork here: change the run at the cursor, and run on", _CHANGE, "fork", "fork"),
    _of_screen("X", "switch the fault at the cursor off, and run again", _CHANGE, "switch_off"),
    _of_screen("Z", "shrink the failing run to a minimal one", _CHANGE, "shrink"),
    _of_screen("O", "save the run as a scenario file", _KEEP, "save"),
    _of_screen("y", "copy the run as a pytest test", _KEEP, "copy_test"),
    _of_screen("Y", "copy the command that repeats the run", _KEEP, "copy_command"),
    _of_screen("v", "open the scenario in $EDITOR, at its line", _KEEP, "edit_file"),
)
"""The actions of each screen that has a run: of the one run, or of the chosen one of two."""

ACTIONS: tuple[Action, ...] = (
    Action(("j", "down", "right"), "next entry", _MOVE, ("forward",), brief="next"),
    Action(("k", "up", "left"), "previous entry", _MOVE, ("back",), brief="back"),
    Action(("pagedown", "ctrl+d"), "20 entries forward", _MOVE, ("page_forward",)),
    Action(("pageup", "ctrl+u"), "20 entries back", _MOVE, ("page_back",)),
    Action(("g", "home"), "first entry", _MOVE, ("start",)),
    Action(("G", "end"), "last entry", _MOVE, ("end",)),
    _of_screen("colon", "go to an entry number or a virtual time", _MOVE, "goto", "go to"),
    *_jumps(),
    Action(("w",), "next change of the watched value", _JUMP, ("next_change",)),
    Action(("W",), "last change of the watched value", _JUMP, ("last_change",)),
    Action(("x",), "watch another value", _JUMP, ("watch_another",)),
    _of_screen("slash", "search in the timeline", _FIND, "search", "search"),
    _of_screen("n", "next match", _FIND, "next_match"),
    _of_screen("N", "previous match", _FIND, "previous_match"),
    _of_screen("f", "filter by kind", _FIND, "filter", "filter"),
    Action(("b",), "mark this entry, or remove its mark", _FIND, ("mark",)),
    Action(("right_square_bracket",), "next mark", _FIND, ("next_mark",)),
    Action(("left_square_bracket",), "previous mark", _FIND, ("previous_mark",)),
    Action(("space",), "play or pause", _PLAY, ("play",), brief="play"),
    Action(("plus", "equals_sign"), "faster", _PLAY, ("faster",)),
    Action(("minus",), "slower", _PLAY, ("slower",)),
    Action(("i",), "play and draw in virtual time, or evenly", _PLAY, ("change_pace",)),
    *_OF_A_RUN,
    *_views(),
    Action(("z",), "open or close the folds of the context", _SHOW, ("fold",)),
    *_EVERYWHERE,
)

COMPARE: tuple[Action, ...] = (
    Action(("j", "down"), "next pair of entries", _MOVE, ("forward",), brief="next"),
    Action(("k", "up"), "previous pair of entries", _MOVE, ("back",), brief="back"),
    Action(("pagedown", "ctrl+d"), "20 pairs forward", _MOVE, ("page_forward",)),
    Action(("pageup", "ctrl+u"), "20 pairs back", _MOVE, ("page_back",)),
    Action(("g", "home"), "first pair", _MOVE, ("start",)),
    Action(("G", "end"), "last pair", _MOVE, ("end",)),
    Action(("n",), "next difference", _JUMP, ("next_difference",), brief="next difference"),
    Action(("N",), "previous difference", _JUMP, ("previous_difference",)),
    Action(("tab",), "choose the other run", _SHOW, ("other_side",), brief="other run"),
    _of_screen("enter", "step through the chosen run", _SHOW, "open", "step through it"),
    *_OF_A_RUN,
    *_views(),
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
    _of_screen("slash", "show the runs that have some words", _FIND, "search", "filter"),
    _of_screen("enter", "step through the run", _SHOW, "open", "step through it"),
    *_EVERYWHERE,
)
"""The actions of the list of the runs that can be opened."""

"""The keys, words and groups of the actions that terminal and page share, and the views."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from simloop.cursor.index import Landmark


class RunKey(NamedTuple):
    """One action: its keys, its words, its group, and its name with at most one argument."""

    keys: tuple[str, ...]
    words: str
    group: str
    does: tuple[str, ...]


class FactView(StrEnum):
    """A view of the facts at the cursor, by its name for `simloop show --view`."""

    ENTRY = "entry"
    STATE = "state"
    COUNTERS = "counters"
    TIMERS = "timers"
    REQUEST = "request"
    REPLY = "reply"
    CALLS = "calls"
    HOOKS = "hooks"
    CONTEXT = "context"
    WHY = "why"


_NUMBERED = "why state counters timers request reply calls hooks context entry"
VIEW_KEYS: Mapping[FactView, str] = dict(
    zip(map(FactView, _NUMBERED.split()), "1234567890", strict=True)
)
"""The key of each view, in the order in which they are offered."""

MOVE, JUMP, FIND, PLAY, SHOW, OTHER = "Move", "Jump", "Find", "Play", "Show", "Other"
_JUMPS: Mapping[Landmark, tuple[str, str]] = {
    Landmark.TRANSITION: (".", ","),
    Landmark.STEP: ("s", "S"),
    Landmark.PROMPT: ("p", "P"),
    Landmark.MODEL_CALL: ("m", "M"),
    Landmark.TOOL_CALL: ("t", "T"),
    Landmark.FAULT: ("e", "E"),
    Landmark.RETRY: ("r", "R"),
    Landmark.COMPACTION: ("c", "C"),
    Landmark.STOP: ("a", "A"),
}

MOVES: tuple[RunKey, ...] = (
    RunKey(("j", "down", "right"), "next entry", MOVE, ("forward",)),
    RunKey(("k", "up", "left"), "previous entry", MOVE, ("back",)),
    RunKey(("page down", "Ctrl-D"), "20 entries forward", MOVE, ("page_forward",)),
    RunKey(("page up", "Ctrl-U"), "20 entries back", MOVE, ("page_back",)),
    RunKey(("g", "home"), "first entry", MOVE, ("start",)),
    RunKey(("G", "end"), "last entry", MOVE, ("end",)),
    RunKey((":",), "go to an entry number or a virtual time", MOVE, ("goto",)),
    *(
        RunKey((key,), f"{direction} {landmark}", JUMP, (direction, str(landmark)))
        for landmark, keys in _JUMPS.items()
        for direction, key in zip(("next", "previous"), keys, strict=True)
    ),
    RunKey(("w",), "next change of the watched value", JUMP, ("next_change",)),
    RunKey(("W",), "last change of the watched value", JUMP, ("last_change",)),
    RunKey(("x",), "watch another value", JUMP, ("watch_another",)),
    RunKey(("/",), "search", FIND, ("search",)),
    RunKey(("n",), "next match", FIND, ("next_match",)),
    RunKey(("N",), "previous match", FIND, ("previous_match",)),
    RunKey(("f",), "filter by kind", FIND, ("filter",)),
    RunKey(("u",), "show the words of a text one by one, or on one line", FIND, ("fold_words",)),
    RunKey(("b",), "mark this entry, or remove its mark", FIND, ("mark",)),
    RunKey(("]",), "next mark", FIND, ("next_mark",)),
    RunKey(("[",), "previous mark", FIND, ("previous_mark",)),
    RunKey(("space",), "play or pause", PLAY, ("play",)),
    RunKey(("+", "="), "faster", PLAY, ("faster",)),
    RunKey(("-",), "slower", PLAY, ("slower",)),
    RunKey(("i",), "play and draw in virtual time, or evenly", PLAY, ("change_pace",)),
)

VIEWS: tuple[RunKey, ...] = tuple(
    RunKey((key,), f"show {name}", SHOW, ("view", str(name))) for name, key in VIEW_KEYS.items()
)
HELP = RunKey(("?",), "help", OTHER, ("help",))

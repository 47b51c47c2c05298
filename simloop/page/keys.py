"""The keys of each page: the keys, the words and the action of each.

Not here: the actions (page.js, matrix.js). The rule to keep: the scripts and their help are made
from these tables, so that no key is listed in a second place; a key means on the page of a run what
it means in the terminal.
"""

from collections.abc import Mapping
from typing import NamedTuple

from simloop.cursor.index import Landmark
from simloop.cursor.views import FactView


class PageKey(NamedTuple):
    """One action: its keys as a browser names them, its words, and what it does.

    `does` is the name of the action in the script, with at most one argument.
    """

    keys: tuple[str, ...]
    words: str
    does: tuple[str, ...]


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
"""The key of each view, in the order in which the page shows them."""

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


def _jumps() -> tuple[PageKey, ...]:
    return tuple(
        PageKey((key,), f"{direction} {landmark}", (direction, str(landmark)))
        for landmark, keys in _JUMPS.items()
        for direction, key in zip(("next", "previous"), keys, strict=True)
    )


def _views() -> tuple[PageKey, ...]:
    return tuple(PageKey((key,), f"show {name}", ("view", name)) for name, key in VIEW_KEYS.items())


KEYS: tuple[PageKey, ...] = (
    PageKey(("j", "ArrowDown", "ArrowRight"), "next entry", ("forward",)),
    PageKey(("k", "ArrowUp", "ArrowLeft"), "previous entry", ("back",)),
    PageKey(("PageDown",), "20 entries forward", ("page_forward",)),
    PageKey(("PageUp",), "20 entries back", ("page_back",)),
    PageKey(("g", "Home"), "first entry", ("start",)),
    PageKey(("G", "End"), "last entry", ("end",)),
    *_jumps(),
    PageKey((":",), "go to an entry or a time, such as 12 or 5.2s", ("goto",)),
    PageKey(("w",), "next change of the watched value", ("next_change",)),
    PageKey(("W",), "last change of the watched value", ("last_change",)),
    PageKey(("/",), "search in the timeline and in all panes", ("search",)),
    PageKey(("n",), "next match", ("next_match",)),
    PageKey(("N",), "previous match", ("previous_match",)),
    PageKey(("x",), "watch another value", ("watch_another",)),
    PageKey(("i",), "play and draw in virtual time, or evenly", ("change_pace",)),
    PageKey((" ",), "play or pause", ("play",)),
    PageKey(("+", "="), "faster", ("faster",)),
    PageKey(("-",), "slower", ("slower",)),
    *_views(),
    PageKey(("?",), "show all keys", ("help",)),
)

MATRIX_KEYS: tuple[PageKey, ...] = (
    PageKey(("ArrowDown", "j"), "the scenario below", ("move", "down")),
    PageKey(("ArrowUp", "k"), "the scenario above", ("move", "up")),
    PageKey(("ArrowRight", "l"), "the next loop", ("move", "right")),
    PageKey(("ArrowLeft", "h"), "the previous loop", ("move", "left")),
    PageKey(("/",), "search the names, titles and words", ("focus", "search")),
    PageKey(("t",), "choose a theme", ("focus", "theme")),
    PageKey(("o",), "choose a loop", ("focus", "loop")),
    PageKey(("v",), "choose a verdict", ("focus", "verdict")),
    PageKey(("e",), "choose an ending", ("focus", "ending")),
    PageKey(("x",), "show all scenarios again", ("all",)),
    PageKey(("?",), "show all keys", ("help",)),
)
"""The keys of the matrix. Enter opens a link and Escape closes a panel, as in every page."""

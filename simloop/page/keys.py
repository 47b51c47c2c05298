"""The keys of each page, named as people write them.

Not here: the actions (page.js, matrix.js), and the names that browsers give to keys (parts.js). The
rule to keep: the scripts and their help are made from these tables, and those of a run are the
terminal's.
"""

from simloop.cursor.keys import FIND, HELP, MOVE, MOVES, VIEWS, RunKey


def _of_browser(each: RunKey) -> RunKey:
    """Return a key without those that browsers keep for themselves."""
    return each._replace(keys=tuple(key for key in each.keys if not key.startswith("Ctrl-")))


KEYS: tuple[RunKey, ...] = tuple(map(_of_browser, (*MOVES, *VIEWS, HELP)))
"""The keys of the page of a run."""

MATRIX_KEYS: tuple[RunKey, ...] = (
    RunKey(("down", "j"), "the scenario below", MOVE, ("move", "down")),
    RunKey(("up", "k"), "the scenario above", MOVE, ("move", "up")),
    RunKey(("right", "l"), "the next loop", MOVE, ("move", "right")),
    RunKey(("left", "h"), "the previous loop", MOVE, ("move", "left")),
    RunKey(("/",), "search the names, titles and words", FIND, ("focus", "search")),
    RunKey(("t",), "choose a theme", FIND, ("focus", "theme")),
    RunKey(("o",), "choose a loop", FIND, ("focus", "loop")),
    RunKey(("v",), "choose a verdict", FIND, ("focus", "verdict")),
    RunKey(("e",), "choose an ending", FIND, ("focus", "ending")),
    RunKey(("x",), "show all scenarios again", FIND, ("all",)),
    HELP,
)
"""The keys of the matrix. Enter opens a link and Escape closes a panel, as in every page."""

"""The keys, words and groups of the actions that terminal and page share, and the views."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple


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
VIEW_KEYS = dict(zip(map(FactView, _NUMBERED.split()), "1234567890", strict=True))
"""The key of each view, in the order in which they are offered."""

MOVE, JUMP, FIND, SHOW, OTHER = "Move", "Jump", "Find", "Show", "Other"
_MOVES: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
MOVES = tuple(RunKey(tuple(keys), words, group, tuple(do)) for keys, words, group, do in _MOVES)
VIEWS: tuple[RunKey, ...] = tuple(
    RunKey((key,), f"show {name}", SHOW, ("view", str(name))) for name, key in VIEW_KEYS.items()
)
HELP = RunKey(("?",), "help", OTHER, ("help",))

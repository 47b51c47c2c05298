"""The lane of each kind of entry in a timeline, with a sign and a word for it.

The rule to keep: a sign is one ASCII character, and stands beside a word, so that a timeline can be
read in any terminal, without colour, and aloud.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from simloop.cursor.rows import row
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.timeline import describe


class Lane(StrEnum):
    """A column of the timeline: the part of the world, or the engine, or an agent of one's own."""

    USER = "user"
    MODEL = "model"
    TOOLS = "tools"
    HOOKS = "hooks"
    ENGINE = "engine"


class Sign(NamedTuple):
    """How a kind of entry stands in a timeline; `meaning` is the word for it in a legend."""

    lane: Lane
    sign: str
    meaning: str


_SIGNS: dict[type, Sign] = {
    entries.Prompt: Sign(Lane.USER, ">", "prompt"),
    entries.Queued: Sign(Lane.USER, "q", "queued"),
    entries.StopRequested: Sign(Lane.USER, "x", "stop"),
    entries.Ended: Sign(Lane.USER, "=", "end"),
    entries.Request: Sign(Lane.MODEL, "^", "request"),
    entries.TextDelta: Sign(Lane.MODEL, "t", "text"),
    entries.ReasoningDelta: Sign(Lane.MODEL, "r", "reasoning"),
    entries.ToolCallDelta: Sign(Lane.MODEL, "d", "call piece"),
    entries.ToolCall: Sign(Lane.MODEL, "c", "call"),
    entries.Finish: Sign(Lane.MODEL, "f", "finish"),
    entries.Error: Sign(Lane.MODEL, "!", "failure"),
    entries.StreamCut: Sign(Lane.MODEL, "!", "failure"),
    entries.ToolStarted: Sign(Lane.TOOLS, "(", "starts"),
    entries.ToolResult: Sign(Lane.TOOLS, ")", "result"),
    entries.Answered: Sign(Lane.TOOLS, "a", "answer"),
    entries.CallRenamed: Sign(Lane.TOOLS, "n", "renamed"),
    entries.CallBegun: Sign(Lane.TOOLS, "o", "call begun"),
    entries.Hook: Sign(Lane.HOOKS, "h", "hook"),
    entries.Callback: Sign(Lane.HOOKS, "!", "failure"),
    entries.Transition: Sign(Lane.ENGINE, "*", "transition"),
    entries.Classified: Sign(Lane.ENGINE, "?", "classified"),
    entries.Compaction: Sign(Lane.ENGINE, "%", "compaction"),
    entries.Backoff: Sign(Lane.ENGINE, "z", "backoff"),
    entries.Notice: Sign(Lane.ENGINE, "i", "notice"),
    entries.Note: Sign(Lane.ENGINE, "m", "note"),
    entries.RequestRefused: Sign(Lane.MODEL, "!", "failure"),
    entries.Sleep: Sign(Lane.ENGINE, "s", "sleep"),
    entries.LoopBlocked: Sign(Lane.ENGINE, "b", "loop blocked"),
    entries.TaskCancelled: Sign(Lane.ENGINE, "k", "cancelled"),
    entries.LeftBehind: Sign(Lane.ENGINE, "l", "left behind"),
}
_FAILURE = _SIGNS[entries.Error]


def sign_of(entry: AnyEntry) -> Sign:
    """Return the lane and the sign of an entry; a failure has the sign `!` in any lane."""
    found = _SIGNS[type(entry)]
    return _FAILURE._replace(lane=found.lane) if is_failure(entry) else found


def legend() -> dict[Lane, dict[str, str]]:
    """Return the meaning of each sign, by lane."""
    found: dict[Lane, dict[str, str]] = {lane: {} for lane in Lane}
    for lane, sign, meaning in _SIGNS.values():
        found[lane][sign] = meaning
    found[Lane.TOOLS][_FAILURE.sign] = _FAILURE.meaning  # of a result that is an error
    return found


def is_failure(entry: Any) -> bool:
    """Return whether a model call, a tool, a hook or a callback failed at this entry."""
    kind = type(entry)
    if kind is entries.ToolResult:
        return bool(entry.is_error)
    if kind is entries.Hook:
        return entry.result in {"failed", "timed-out"}
    return kind in _FAILURES


_FAILURES = frozenset({entries.Error, entries.StreamCut, entries.Callback})


def kind_of(entry: AnyEntry) -> str:
    """Return the name of the kind of an entry, as in a file: `tool-result`."""
    return str(type(entry).__struct_config__.tag)


def words_of(entry: AnyEntry) -> str:
    """Return an entry as one line, escaped."""
    return row(describe(entry)).text

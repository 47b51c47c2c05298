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
    """A column of the timeline: the part of the world, or the engine."""

    USER = "user"
    MODEL = "model"
    TOOLS = "tools"
    HOOKS = "hooks"
    ENGINE = "engine"


class Sign(NamedTuple):
    """How a kind of entry stands in a timeline."""

    lane: Lane
    sign: str


_SIGNS: dict[type, Sign] = {
    entries.Prompt: Sign(Lane.USER, ">"),
    entries.Queued: Sign(Lane.USER, "q"),
    entries.StopRequested: Sign(Lane.USER, "x"),
    entries.Ended: Sign(Lane.USER, "="),
    entries.Request: Sign(Lane.MODEL, "^"),
    entries.TextDelta: Sign(Lane.MODEL, "t"),
    entries.ReasoningDelta: Sign(Lane.MODEL, "r"),
    entries.ToolCallDelta: Sign(Lane.MODEL, "d"),
    entries.ToolCall: Sign(Lane.MODEL, "c"),
    entries.Finish: Sign(Lane.MODEL, "f"),
    entries.Error: Sign(Lane.MODEL, "!"),
    entries.StreamCut: Sign(Lane.MODEL, "!"),
    entries.ToolStarted: Sign(Lane.TOOLS, "("),
    entries.ToolResult: Sign(Lane.TOOLS, ")"),
    entries.Answered: Sign(Lane.TOOLS, "a"),
    entries.CallRenamed: Sign(Lane.TOOLS, "n"),
    entries.CallBegun: Sign(Lane.TOOLS, "b"),
    entries.Hook: Sign(Lane.HOOKS, "h"),
    entries.Callback: Sign(Lane.HOOKS, "!"),
    entries.Transition: Sign(Lane.ENGINE, "*"),
    entries.Classified: Sign(Lane.ENGINE, "?"),
    entries.Compaction: Sign(Lane.ENGINE, "%"),
    entries.Backoff: Sign(Lane.ENGINE, "z"),
    entries.Notice: Sign(Lane.ENGINE, "i"),
}


def sign_of(entry: AnyEntry) -> Sign:
    """Return the lane and the sign of an entry; a failure has the sign `!` in any lane."""
    found = _SIGNS[type(entry)]
    return found._replace(sign="!") if is_failure(entry) else found


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

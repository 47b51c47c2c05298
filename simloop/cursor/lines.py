"""The lines of a timeline that are no entries, and those that stand for several entries."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from simloop.cursor.index import STALL_NS
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.rows import words_of
from simloop.escape import escape
from simloop.messages import ToolMessage
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import Lane, clock, is_failure, sign_of

_WIDEST = 200
_LONGEST_CALL = 60


class EntryLine(NamedTuple):
    """A line of a timeline: its lane, its sign, its words, and whether it shows a failure."""

    lane: Lane
    sign: str
    words: str
    is_failure: bool


def folds(recording: RecordedRun) -> dict[int, list[int]]:
    """Return the texts that a line can stand for: by the last piece, all pieces."""
    return {text[-1]: text for text in recording.index.texts if len(text) > 1}


def entry_line(recording: RecordedRun, places: Sequence[int]) -> EntryLine:
    """Return the line of an entry, or of all pieces of a text."""
    first, *more = (recording.entries[place] for place in places)
    return EntryLine(*sign_of(first), words_of(first, *more), is_failure(first))


def answer_lines(recording: RecordedRun, place: int) -> list[EntryLine]:
    """Return a line for each result in a request of a call that no other entry shows."""
    return [_answer_line(recording, *answer) for answer in recording.index.answers.get(place, ())]


def _answer_line(recording: RecordedRun, call: int, message: ToolMessage) -> EntryLine:
    asked = recording.entries[call]
    assert isinstance(asked, entries.ToolCall)
    result = entries.ToolResult(0, 0, asked.call_id, asked.name, message.text, message.is_error)
    called = escape(f"{asked.name} {asked.arguments}", _LONGEST_CALL)
    words = escape(f"{called}: {message.text} [{asked.call_id}]", _WIDEST)
    return EntryLine(*sign_of(result), words, message.is_error)


def gaps(record: Sequence[AnyEntry]) -> list[int]:
    """Return the places of the entries that come at least a second after the one before them."""
    waits = (entry.at_ns - before.at_ns for before, entry in pairwise(record))
    return [place for place, wait_ns in enumerate(waits, start=1) if wait_ns >= STALL_NS]


def gap_words(recording: RecordedRun, place: int) -> str:
    """Return the wait before an entry as one line: `5.000s of waiting: backoff`."""
    before = Position(recording, place - 1)
    waited = clock(recording.entries[place].at_ns - before.at_ns)
    reason = f": {', '.join(before.waits_for)}" if before.waits_for else ""
    return escape(f"{waited} of waiting{reason}", _WIDEST)

"""The data of the page: unique rows, and each view of each entry as changes of row numbers.

The data, and the time to make it, grow about linearly with the trace: a row is stored once, a view
that does not change costs nothing, and messages that two requests share are not read again.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from simloop.cursor.keys import FactView
from simloop.cursor.lines import Line, answer_lines, entry_line, folds, gap_words, gaps
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.rows import FactRow, Mark
from simloop.cursor.views import (
    MESSAGES_VIEWS,
    MessagesView,
    fold_rows,
    may_change,
    message_rows,
    messages_view,
    source_of,
    view,
)
from simloop.trace.kinds import KINDS, Lane, clock, is_failure, kind_of, legend, sign_of

_MARKS = {mark: number for number, mark in enumerate(Mark)}

Splice = list[int]
"""A place in a list, a number of items to delete there, and the items to insert there."""


class Numbered(dict[Any, int]):
    """Numbers for things in the order in which they are first seen."""

    def __missing__(self, thing: Any) -> int:
        """Give a thing the next number."""
        self[thing] = number = len(self)
        return number


def tables(recording: RecordedRun) -> dict[str, Any]:
    """Return the data of the page, made of lists, numbers and text that JSON has."""
    rows, words = Numbered(), Numbered()
    views = _changes_of_views(recording, rows)
    return {
        "start": recording.first_place,
        "entries": columns(recording, range(len(recording.entries)), words),
        "gaps": [[place, gap_words(recording, place)] for place in gaps(recording.entries)],
        "answers": [
            [place, [_columns_of(each, words) for each in answer_lines(recording, place)]]
            for place in recording.index.answers
        ],
        "texts": [
            [text, words[entry_line(recording, text).words]] for text in folds(recording).values()
        ],
        "landmarks": {str(name): found for name, found in recording.index.landmarks.items()},
        "changes": {str(name): found for name, found in recording.index.changes.items()},
        "lanes": [str(lane) for lane in Lane],
        "legend": legend(),
        "marks": [[mark.value, mark.name.lower(), mark.words] for mark in Mark],
        "views": views,
        "rows": [_row(each) for each in rows],
        "words": list(words),
    }


def columns(recording: RecordedRun, places: Sequence[int], words: Numbered) -> dict[str, list[int]]:
    """Return the lines of entries as columns: `words` numbers the texts of each column."""
    record = [recording.entries[place] for place in places]
    lanes = {lane: number for number, lane in enumerate(Lane)}
    return {
        "time": [words[clock(entry.at_ns)] for entry in record],
        "lane": [lanes[sign_of(entry)[0]] for entry in record],
        "sign": [words[sign_of(entry)[1]] for entry in record],
        "kind": [words[kind_of(entry)] for entry in record],
        "text": [words[recording.words_at(place)] for place in places],
        "failed": [place for place, entry in enumerate(record) if is_failure(entry)],
    }


def _columns_of(line: Line, words: Numbered) -> list[int]:
    """Return the lane, the sign and the words of a line as numbers, and whether it failed."""
    lane = list(Lane).index(line.lane)
    return [lane, words[line.sign], words[line.words], int(line.is_failure)]


def _row(row: FactRow) -> list[Any]:
    shown: list[Any] = [_MARKS[row.mark], row.label, row.text]
    return shown if row.goes_to is None else [*shown, row.goes_to]


def _changes_of_views(recording: RecordedRun, rows: Numbered) -> dict[str, list[list[Any]]]:
    """Return, for each view, the place of each entry that changes it, with the changes."""
    shown = [
        MessagesViewRows(name, rows) if name in MESSAGES_VIEWS else ViewRows(name, rows)
        for name in FactView
    ]
    at_kind = {kind: [each for each in shown if may_change(each.name, kind)] for kind in KINDS}
    found: dict[str, list[list[Any]]] = {name: [] for name in FactView}
    before_ns = -1
    for place, entry in enumerate(recording.entries):
        position = Position(recording, place)  # which all views share: each fact is found once
        due = shown if entry.at_ns != before_ns else at_kind[type(entry)]
        before_ns = entry.at_ns
        for each in due:
            if made := each.change(position):
                found[each.name].append([place, *made])
    return found


# ---------------------------------------------------------------------- the rows of a view


class ViewRows:
    """The rows of a view, as numbers."""

    def __init__(self, name: FactView, numbers: Numbered) -> None:
        self.name = name
        self._numbers = numbers
        self._shown: list[int] = []
        self._source: Hashable = object()

    def change(self, position: Position) -> list[Splice]:
        """Show the view at a position, and return the changes of the rows."""
        source = source_of(self.name, position)
        if source == self._source:
            return []
        self._source = source
        return self._changes(position)

    def _changes(self, position: Position) -> list[Splice]:
        return self._replace(0, len(self._shown), view(self.name, position))

    def _replace(self, start: int, end: int, rows: Iterable[FactRow]) -> list[Splice]:
        """Replace the rows from `start` to `end`, and return the change, if there is one."""
        before, now = self._shown[start:end], [self._numbers[each] for each in rows]
        if now == before:
            return []
        self._shown[start:end] = now
        first, left = 0, min(len(before), len(now))
        while first < left and before[first] == now[first]:
            first += 1
        last, left = 0, left - first
        while last < left and before[-1 - last] == now[-1 - last]:
            last += 1
        return [[start + first, len(before) - first - last, *now[first : len(now) - last]]]


class MessagesViewRows(ViewRows):
    """The rows of a view that ends with messages: its heading, its folds, its messages.

    Each list of starts has the number of rows before each part, and at its end that of all parts.
    """

    def __init__(self, name: FactView, numbers: Numbered) -> None:
        super().__init__(name, numbers)
        self._known = MessagesView((), (), (), 0, 0)
        self._heading = 0
        self._folds, self._messages = [0], [0]

    def _changes(self, position: Position) -> list[Splice]:
        now, before = messages_view(self.name, position), self._known
        self._known = now
        heading = now.heading
        if not now.folds and not now.messages:
            heading = view(self.name, position)  # one row that says so
        found = self._replace(0, self._heading, heading)
        self._heading = len(heading)
        # The next request shows the messages that the newest compaction removed.
        kept = max(len(before.folds) - 1, 0)
        folds = (tuple(fold_rows(position, place)) for place in now.folds[kept:])
        found += self._replace_parts(self._folds, kept, self._heading, folds)
        # A message that was new has another mark now.
        kept = min(now.shared, before.new, now.new)
        messages = (
            tuple(message_rows(each, Mark.ADDED if number >= now.new else Mark.PLAIN))
            for number, each in enumerate(now.messages[kept:], kept)
        )
        start = self._heading + self._folds[-1]
        return found + self._replace_parts(self._messages, kept, start, messages)

    def _replace_parts(
        self, starts: list[int], kept: int, start: int, parts: Iterable[tuple[FactRow, ...]]
    ) -> list[Splice]:
        """Replace the parts after the first `kept` ones, and return the changes."""
        first, end = start + starts[kept], start + starts[-1]
        del starts[kept + 1 :]
        rows: list[FactRow] = []
        for part in parts:
            rows += part
            starts.append(first - start + len(rows))
        return self._replace(first, end, rows)


def apply(old: Sequence[int], made: Sequence[Splice]) -> list[int]:
    """Return the list that the changes make of `old`."""
    items = list(old)
    for place, deleted, *inserted in made:
        items[place : place + deleted] = inserted
    return items

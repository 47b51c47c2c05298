"""The data of the page: unique rows, and each view of each entry as changes of row numbers.

Not here: the page around the data (page.py). The rule to keep: the data grows about linearly with
the trace, because a row is stored once and a view that does not change costs nothing.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from simloop.cursor.keys import FactView
from simloop.cursor.lines import Line, answer_lines, entry_line, folds, gap_words, gaps
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.rows import FactRow, Mark, words_of
from simloop.cursor.views import MESSAGES_VIEWS, source_of
from simloop.page.shown import MessagesViewRows, Numbered, ViewRows
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import Lane, clock, is_failure, kind_of, legend, sign_of

_MARKS = {mark: number for number, mark in enumerate(Mark)}


def tables(recording: RecordedRun) -> dict[str, Any]:
    """Return the data of the page, made of lists, numbers and text that JSON has."""
    rows, words = Numbered(), Numbered()
    views = {name: list(_changes_of(name, recording, rows)) for name in FactView}
    return {
        "start": recording.first_place,
        "entries": columns(recording.entries, words),
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


def columns(record: Sequence[AnyEntry], words: Numbered) -> dict[str, list[int]]:
    """Return the lines of a timeline as columns: `words` numbers the texts of each column."""
    lanes = {lane: number for number, lane in enumerate(Lane)}
    return {
        "time": [words[clock(entry.at_ns)] for entry in record],
        "lane": [lanes[sign_of(entry)[0]] for entry in record],
        "sign": [words[sign_of(entry)[1]] for entry in record],
        "kind": [words[kind_of(entry)] for entry in record],
        "text": [words[words_of(entry)] for entry in record],
        "failed": [place for place, entry in enumerate(record) if is_failure(entry)],
    }


def _columns_of(line: Line, words: Numbered) -> list[int]:
    """Return the lane, the sign and the words of a line as numbers, and whether it failed."""
    lane = list(Lane).index(line.lane)
    return [lane, words[line.sign], words[line.words], int(line.is_failure)]


def _row(row: FactRow) -> list[Any]:
    shown: list[Any] = [_MARKS[row.mark], row.label, row.text]
    return shown if row.goes_to is None else [*shown, row.goes_to]


def _changes_of(name: FactView, recording: RecordedRun, rows: Numbered) -> Iterator[list[Any]]:
    """Yield the place of each entry that changes a view, with the changes."""
    shown = MessagesViewRows(name, rows) if name in MESSAGES_VIEWS else ViewRows(name, rows)
    known: Hashable = object()
    for place in range(len(recording.entries)):
        position = Position(recording, place)
        depends_on = source_of(name, position)
        if depends_on != known and (made := shown.change(position)):
            yield [place, *made]
        known = depends_on

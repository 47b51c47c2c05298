"""The rows of the timeline, the axis of the scrubber, and how far a run that plays has come.

The place of a row and the row of a place, and the columns of the axis, are found by bisection. The
player is told how many real seconds have passed, and reads no clock.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from simloop.cursor.lines import EntryLine, answer_lines, entry_line, folds, gaps
from simloop.cursor.position import place_at
from simloop.cursor.recorded_run import RecordedRun
from simloop.trace.kinds import kind_of

Wanted = Callable[[], bool]


class TimelineRow(NamedTuple):
    """One row: an entry, the gap before it, or else the result `answer` of a call before it."""

    place: int
    is_gap: bool
    answer: int | None = None


class TimelineRows:
    """The rows of a recording, without those of the `hidden` kinds of entries.

    With `folded`, the pieces of a text have one row, at the place of the last of them.
    """

    def __init__(
        self, recording: RecordedRun, hidden: Collection[str] = (), *, folded: bool = True
    ) -> None:
        self._recording, record = recording, recording.entries
        self._folds = folds(recording) if folded else {}
        self._last_piece = {
            piece: last for last, text in self._folds.items() for piece in text[:-1]
        }
        entries = [
            place
            for place, entry in enumerate(record)
            if place not in self._last_piece and not (hidden and kind_of(entry) in hidden)
        ]
        self._entries = entries
        self._shown = shown = bytearray(len(record))
        for place in entries:
            shown[place] = 1
        # Before an entry, which is the last of its numbers, stand its gap and its answers.
        answers = {
            place: len(found) for place, found in recording.index.answers.items() if shown[place]
        }
        self._stride = stride = 2 + max(answers.values(), default=0)
        keys = [place * stride + stride - 1 for place in entries]
        keys += [place * stride for place in gaps(record)]
        keys += [place * stride + 1 + n for place, count in answers.items() for n in range(count)]
        self._keys = sorted(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, number: int) -> TimelineRow:
        place, order = divmod(self._keys[number], self._stride)
        is_entry = order == self._stride - 1
        return TimelineRow(place, not order, order - 1 if order and not is_entry else None)

    def line(self, row: TimelineRow) -> EntryLine:
        """Return the line of a row that is no gap."""
        if row.answer is not None:
            return answer_lines(self._recording, row.place)[row.answer]
        return entry_line(self._recording, self._folds.get(row.place, (row.place,)))

    def words(self, place: int) -> str:
        """Return the words of the row of an entry."""
        return self.line(TimelineRow(place, is_gap=False)).words

    def row_of(self, place: int) -> int:
        """Return the row of an entry, or that of the last row before it if it is not shown."""
        return max(bisect_right(self._keys, (place + 1) * self._stride - 1) - 1, 0)

    def shows(self, place: int) -> bool:
        """Return whether an entry has a row."""
        return bool(self._shown[place])

    def folds(self, place: int) -> bool:
        """Return whether an entry is a piece of a text, and the row of the last piece has it."""
        return place in self._last_piece

    @property
    def last(self) -> int:
        """Return the last entry that is shown."""
        return self._entries[-1]

    def nearest(self, place: int) -> int:
        """Return `place` if it is shown, or the shown entry that is nearest; the later of two.

        A piece of a folded text has its row.
        """
        place = self._last_piece.get(place, place)
        at = bisect_left(self._entries, place)
        around = self._entries[max(at - 1, 0) : at + 1]
        return min(reversed(around), key=lambda each: abs(each - place))

    def until(self, place: int) -> int:
        """Return the last shown entry that is not after `place`, or the first one of all."""
        return self._entries[max(bisect_right(self._entries, place) - 1, 0)]

    def around(self, place: int, step: int) -> Iterator[int]:
        """Yield all shown entries from the one after `place` on, or before it if `step` is -1.

        The entries go on at the other end.
        """
        shown = self._entries
        start = bisect_right(shown, place) if step > 0 else bisect_left(shown, place) - 1
        return (shown[(start + step * count) % len(shown)] for count in range(len(shown)))

    def found(self, text: str, place: int, step: int, wanted: Wanted) -> int | None:
        """Return the next row after `place` whose words contain `text`, or before it, or None.

        Upper and lower case are alike. The search stops with None when it is no longer `wanted`.
        """
        text = text.casefold()
        for count, each in enumerate(self.around(place, step)):
            if text in self.words(each).casefold():
                return each
            if not count % 1000 and not wanted():
                return None
        return None

    def after(self, places: Sequence[int], place: int) -> int | None:
        """Return the first of sorted `places` after `place` that is shown, or None."""
        found = (places[at] for at in range(bisect_right(places, place), len(places)))
        return next(filter(self.shows, found), None)

    def before(self, places: Sequence[int], place: int) -> int | None:
        """Return the last of sorted `places` before `place` that is shown, or None."""
        found = (places[at] for at in reversed(range(bisect_left(places, place))))
        return next(filter(self.shows, found), None)

    def moved(self, place: int, count: int) -> int | None:
        """Return the shown entry that is `count` after `place`, or before it; None at the ends.

        A move over the end goes to the end.
        """
        shown = self._entries
        here = bisect_left(shown, place)
        if count > 0:
            if here < len(shown) and shown[here] == place:
                here += 1
            found = min(here + count - 1, len(shown) - 1)
            return shown[found] if here < len(shown) else None
        return shown[max(here + count, 0)] if here > 0 else None


class Axis:
    """The entries of a recording on `width` columns; `by_time` if a column is a span of time."""

    def __init__(self, recording: RecordedRun, width: int, *, by_time: bool) -> None:
        self._recording = recording
        self._width = max(width, 1)
        self._by_time = by_time
        self._last = len(recording.entries) - 1
        self._end_ns = recording.entries[-1].at_ns if recording.entries else 0

    def column_of(self, place: int) -> int:
        if self._by_time and self._end_ns:
            return self._recording.entries[place].at_ns * (self._width - 1) // self._end_ns
        return place * (self._width - 1) // max(self._last, 1)

    def place_of(self, column: int) -> int:
        """Return the first entry of a column, or the last one before it if it has none."""
        column = max(0, min(column, self._width - 1))
        steps = max(self._width - 1, 1)
        if not (self._by_time and self._end_ns):
            return -(-column * max(self._last, 1) // steps) if self._last else 0
        start_ns = -(-column * self._end_ns // steps)
        if not start_ns:
            return 0
        before = place_at(self._recording.trace, start_ns - 1)
        found = min(before + 1, self._last)
        return found if self.column_of(found) == column else before

    def span(self, column: int) -> tuple[int, int]:
        """Return the first entry of a column, and the first one after it; they may be equal."""
        first = self.place_of(column)
        if self.column_of(first) != column:
            return first, first
        return first, self._last + 1 if column >= self._width - 1 else self._after(column)

    def _after(self, column: int) -> int:
        after = self.place_of(column + 1)
        return after if self.column_of(after) > column else after + 1


SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_ENTRIES_PER_SECOND = 4
_NS = 10**9


class Player:
    """The speed, the pace, and whether the run plays. Even pace: each entry takes equally long."""

    def __init__(self, recording: RecordedRun) -> None:
        self._recording = recording
        self._speed = SPEEDS.index(1.0)
        self._left = 0.0  # the part of an entry that has been played
        self._at_ns = 0
        self.plays = False
        self.by_time = True

    @property
    def speed(self) -> float:
        """Return the speed."""
        return SPEEDS[self._speed]

    def change_speed(self, by: int) -> None:
        """Change the speed by a number of steps, as far as there are any."""
        self._speed = max(0, min(self._speed + by, len(SPEEDS) - 1))

    def start(self, place: int) -> None:
        """Play from an entry on."""
        self.plays = True
        self._left = 0.0
        self._at_ns = self._recording.entries[place].at_ns

    def advanced(self, place: int, seconds: float, rows: TimelineRows) -> int:
        """Return the shown entry from `place` on that is reached in real `seconds`.

        The run stops at the last one.
        """
        move = self._in_time if self.by_time else self._evenly
        there = move(place, seconds, rows)
        if there >= rows.last:
            self.plays = False
        return there

    def _evenly(self, place: int, seconds: float, rows: TimelineRows) -> int:
        self._left += seconds * self.speed * _ENTRIES_PER_SECOND
        whole = int(self._left)
        self._left -= whole
        found = rows.moved(place, whole) if whole else place
        return rows.last if found is None else found

    def _in_time(self, place: int, seconds: float, rows: TimelineRows) -> int:
        entries = self._recording.entries
        at_ns = max(self._at_ns, entries[place].at_ns)
        following = rows.moved(place, 1)
        if following is not None:  # a long wait starts late, so that it takes a second
            at_ns = max(at_ns, entries[following].at_ns - int(_NS * self.speed))
        self._at_ns = at_ns + int(seconds * self.speed * _NS)
        return max(rows.until(place_at(self._recording.trace, self._at_ns)), place)

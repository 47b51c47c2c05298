"""The rows of the timeline: the lines that are shown, and moves on the entries among them.

The place of a row and the row of a place are found by bisection.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from simloop.cursor.lines import Line, answer_lines, entry_line, folds, gaps
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

    def line(self, row: TimelineRow) -> Line:
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

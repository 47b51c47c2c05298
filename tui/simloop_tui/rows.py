"""The rows of the timeline: the entries that are shown, the gaps between them, and moves on them.

Not here: drawing them (widgets/timeline.py). The rule to keep: the place of a row and the row of a
place are found by bisection.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from simloop.cursor.gaps import gaps
from simloop.cursor.lanes import kind_of
from simloop.cursor.recorded_run import RecordedRun


class TimelineRow(NamedTuple):
    """One row: an entry, or the gap before it."""

    place: int
    is_gap: bool


class TimelineRows:
    """The rows of a recording, without those of the `hidden` kinds of entries."""

    def __init__(self, recording: RecordedRun, hidden: Collection[str] = ()) -> None:
        record = recording.entries
        entries = [
            place
            for place, entry in enumerate(record)
            if not hidden or kind_of(entry) not in hidden
        ]
        # An entry is an odd number, and the gap before it the even one below.
        self._keys = sorted([2 * place + 1 for place in entries] + [2 * p for p in gaps(record)])
        self._entries = entries
        self._shown = shown = bytearray(len(record))
        for place in entries:
            shown[place] = 1

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, number: int) -> TimelineRow:
        key = self._keys[number]
        return TimelineRow(key >> 1, is_gap=not key & 1)

    def row_of(self, place: int) -> int:
        """Return the row of an entry, or that of the last row before it if it is not shown."""
        return max(bisect_right(self._keys, 2 * place + 1) - 1, 0)

    def shows(self, place: int) -> bool:
        """Return whether an entry has a row."""
        return bool(self._shown[place])

    @property
    def last(self) -> int:
        """Return the last entry that is shown."""
        return self._entries[-1]

    def nearest(self, place: int) -> int:
        """Return `place` if it is shown, or the shown entry that is nearest; the later of two."""
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

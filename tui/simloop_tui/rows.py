"""The rows of the timeline: the entries that are shown, and the gaps between them.

Not here: drawing them (widgets/timeline.py). The rule to keep: the place of a row and the row of a
place are found by bisection.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection
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
        found = bisect_left(self._entries, place)
        return found < len(self._entries) and self._entries[found] == place

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

"""The axis of the scrubber: which entries stand in which column, evenly or by virtual time.

The column of an entry leads back to an entry of that column.
"""

from simloop.cursor.position import place_at
from simloop.cursor.recorded_run import RecordedRun


class Axis:
    """The entries of a recording on `width` columns; `by_time` if a column is a span of time."""

    def __init__(self, recording: RecordedRun, width: int, *, by_time: bool) -> None:
        self._recording = recording
        self._width = max(width, 1)
        self._by_time = by_time
        self._last = len(recording.entries) - 1
        self._end_ns = recording.entries[-1].at_ns if recording.entries else 0

    def column_of(self, place: int) -> int:
        """Return the column of an entry."""
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

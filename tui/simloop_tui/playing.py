"""Playing a run: how far the cursor moves while real seconds pass.

It is told how many have passed, and reads no clock. A long wait of the run takes at most a second.
"""

from simloop.cursor.position import place_at
from simloop.cursor.recorded_run import RecordedRun
from simloop_tui.rows import TimelineRows

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

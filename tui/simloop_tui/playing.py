"""Playing a run: how far the cursor moves while real seconds pass.

Not here: the timer (screens/replay.py). The rule to keep: it is told how many seconds have passed,
and reads no clock; a long wait of the run takes at most a second.
"""

from simloop.cursor.places import place_at
from simloop.cursor.recorded_run import RecordedRun

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

    def advanced(self, place: int, seconds: float) -> int:
        """Return the entry after `place` that is reached in real `seconds`; stop at the end."""
        last = len(self._recording.entries) - 1
        there = self._in_time(place, seconds) if self.by_time else self._evenly(place, seconds)
        if there >= last:
            self.plays = False
        return min(there, last)

    def _evenly(self, place: int, seconds: float) -> int:
        self._left += seconds * self.speed * _ENTRIES_PER_SECOND
        whole = int(self._left)
        self._left -= whole
        return place + whole

    def _in_time(self, place: int, seconds: float) -> int:
        entries = self._recording.entries
        at_ns = max(self._at_ns, entries[place].at_ns)
        if place + 1 < len(entries):  # a long wait starts late, so that it takes a second
            at_ns = max(at_ns, entries[place + 1].at_ns - int(_NS * self.speed))
        self._at_ns = at_ns + int(seconds * self.speed * _NS)
        return max(place_at(self._recording.trace, self._at_ns), place)

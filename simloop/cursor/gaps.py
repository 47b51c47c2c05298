"""The gaps of a trace: the long waits, which a timeline shows as one row each.

Not here: the rows of entries (lanes.py). The rule to keep: a gap lies between two entries that
follow one another, and its words name the events that were open in it.
"""

from collections.abc import Sequence
from itertools import pairwise

from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.escape import escape
from simloop.trace.entries import AnyEntry
from simloop.trace.timeline import clock

_LEAST_NS = 10**9
_WIDEST = 200


def gaps(record: Sequence[AnyEntry]) -> list[int]:
    """Return the places of the entries that come at least a second after the one before them."""
    times = (entry.at_ns for entry in record)
    return [
        place
        for place, (before_ns, now_ns) in enumerate(pairwise(times), start=1)
        if now_ns - before_ns >= _LEAST_NS
    ]


def gap_words(recording: RecordedRun, place: int) -> str:
    """Return the wait before an entry as one line: `5.000s of waiting: backoff`."""
    before = Position(recording, place - 1)
    waited = clock(recording.entries[place].at_ns - before.at_ns)
    names = [timer.name for timer in before.timers if timer.name != "max_wall_clock"]
    reason = f": {', '.join(names)}" if names else ""
    return escape(f"{waited} of waiting{reason}", _WIDEST)

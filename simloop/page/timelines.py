"""The timelines of many runs in one page, with each text stored once.

Not here: the facts at each entry, which the page of one run has: those of a thousand runs are
several times as long as their timelines. The rule to keep: a run is reduced to its lines as soon as
it is over, because a trace can have millions of entries.
"""

from typing import Any

from simloop.cursor.lines import gap_words, gaps
from simloop.cursor.recorded_run import RecordedRun
from simloop.page.tables import Numbered, columns
from simloop.trace.kinds import Lane
from simloop.trace.looptrace import LoopTrace

_FIRST, _LAST = 300, 100


class Timelines:
    """Collects the lines of runs in the order in which they are added; None for no run."""

    def __init__(self) -> None:
        self.words = Numbered()
        self.runs: list[dict[str, Any] | None] = []

    def add(self, trace: LoopTrace | None) -> None:
        """Add the lines of a trace. Of a long one, the middle is left out and counted."""
        has_lines = trace is not None and trace.entries
        self.runs.append(self._lines(trace) if trace is not None and has_lines else None)

    def data(self) -> dict[str, Any]:
        """Return what the lines refer to by number."""
        return {"words": list(self.words), "lanes": [str(lane) for lane in Lane]}

    def _lines(self, trace: LoopTrace) -> dict[str, Any]:
        record, left = trace.entries, max(0, len(trace.entries) - _FIRST - _LAST)
        cut = _FIRST if left else len(record)
        recording = RecordedRun(trace=trace)
        shown = [*range(cut), *range(cut + left, len(record))]
        lines = columns(recording, shown, self.words)
        del lines["kind"]  # the page of a run searches it
        waits = [
            [place - left * (place > cut), self.words[gap_words(recording, place)]]
            for place in gaps(record)
            if not cut <= place <= cut + left or not left
        ]
        return {**lines, "gaps": waits, "cut": cut, "left": left}

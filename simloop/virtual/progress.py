"""The detector of a run that goes nowhere: it says nothing new to its world.

`Progress` counts callbacks, and reads of the clock, which stands still until the program waits.
"""

import asyncio
from collections.abc import Callable

from simloop.errors import RunawayRun, SimloopError
from simloop.virtual.places import place_in_program

# Half a million callbacks take about a second, and a million reads too.
MOST_CALLBACKS = 3_000_000
"""The callbacks of a program that has no world to say something new to."""
MOST_WITHOUT_NEWS = 500_000
MOST_READS = 1_000_000
_LOOKS_AT_NEWS = 4
_MOST_SWALLOWED = 100
_ADVICE = "let the program wait for longer at a time, or give simulate a larger max_callbacks"


def runaway(finding: str, hint: str = "") -> RunawayRun:
    """Return the error for a finding, with the place of the program that makes the call."""
    place = place_in_program()
    return RunawayRun(f"{finding}{', the last at ' * bool(place)}{place}", hint=hint)


class Progress:
    """The counts of callbacks and reads of the clock since a program last said something new.

    `report` adds to a finding what the program waits for. The run fails with the first of
    `escapes`, even if the program swallows it. `most` replaces the default bounds on callbacks.
    """

    def __init__(
        self, report: Callable[[str], str], escapes: list[SimloopError], most: int | None = None
    ) -> None:
        self.callbacks = 0
        """The callbacks, and the turns of threads in their place, that the run has had."""
        self.next = MOST_CALLBACKS if most is None else most
        """The number of callbacks after which to look again."""
        self._report = report
        self._escapes = escapes
        self._news: list[Callable[[], bool]] = []
        self._since = self._reads = self._read_in = self._swallowed = 0
        self._most = most
        self._cleans = False

    def hear(self, is_new: Callable[[], bool]) -> None:
        """Ask from now on whether there is something new since the last question."""
        self._news.append(is_new)
        if self._most is None:
            self.next = self.callbacks + MOST_WITHOUT_NEWS // _LOOKS_AT_NEWS

    def allow(self, callbacks: int) -> None:
        """Let so many callbacks run from here, whatever they say: the run is over and cleans up."""
        self._cleans = True
        self._news.clear()
        self._most, self._since = callbacks, self.callbacks
        self.next = self._since + callbacks

    def count(self, callbacks: int) -> None:
        """Count callbacks. Raises RunawayRun if too many ran since something new was said."""
        __tracebackhide__ = True
        self.callbacks = now = self.callbacks + callbacks
        if now <= self.next:
            return
        most = self._most or (MOST_WITHOUT_NEWS if self._news else MOST_CALLBACKS)
        if sum(is_new() for is_new in self._news):  # each of them
            self._since = now
        if now - self._since > most:
            finding = f"no progress: {most} callbacks ran and said nothing new"
            if self._most or not self._news:
                finding = f"more than max_callbacks={most} ran"
            # What does not end while it cleans up is reported by name.
            self._end(RunawayRun(f"{self._report(finding)}\n  {_ADVICE}"), is_kept=not self._cleans)
        self.next = min(now + most // _LOOKS_AT_NEWS, self._since + most)

    def read(self) -> None:
        """Count a read of the clock. Raises RunawayRun if there are too many without a wait."""
        if self._read_in != self.callbacks:
            self._read_in, self._reads = self.callbacks, 0
        self._reads += 1
        if self._reads > MOST_READS:
            finding = f"no progress: {MOST_READS} reads of the clock without a wait"
            hint = "the clock moves only while the program waits, as in asyncio.sleep or time.sleep"
            self._end(runaway(finding, hint), is_kept=True)

    def _end(self, error: RunawayRun, *, is_kept: bool) -> None:
        """Raise the error, and CancelledError in a program that goes on all the same."""
        __tracebackhide__ = True
        self._swallowed += 1
        if self._swallowed == 1 and is_kept:
            self._escapes.append(error)
        if self._swallowed > _MOST_SWALLOWED:
            raise asyncio.CancelledError
        raise error

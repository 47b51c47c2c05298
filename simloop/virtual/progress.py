"""The detector of a run that goes nowhere.

A program gets on while it says something new to its world. `Progress` counts what it does since
then: callbacks of the event loop, and reads of the clock, which stands still until the program
waits. The requests in a row that bring nothing new are counted where entries are known
(trace/novelty.py). A thread that waits for something real is watched in real time, as virtual time
cannot bring what it waits for.

The counts depend on the program and the seed alone. The watch finds a thread that does nothing: one
that computes is never found, however slow the machine is, nor is one in which a person steps
through the program.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from simloop.errors import RunawayRun
from simloop.virtual.places import place_in_program, report

if TYPE_CHECKING:
    from simloop.virtual.clock.loop import VirtualLoop

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
    """What the program on one loop does since it last said something new.

    `most` replaces the default bounds on callbacks.
    """

    __slots__ = (
        "_cleans", "_loop", "_most", "_news", "_read_in", "_reads", "_since", "_swallowed", "next",
    )  # fmt: skip

    def __init__(self, loop: "VirtualLoop", most: int | None = None) -> None:
        self.next = MOST_CALLBACKS if most is None else most
        """The number of callbacks after which to look again."""
        self._loop = loop
        self._news: list[Callable[[], bool]] = []
        self._since = self._reads = self._read_in = self._swallowed = 0
        self._most = most
        self._cleans = False

    def hear(self, is_new: Callable[[], bool]) -> None:
        """Ask from now on whether there is something new since the last question."""
        self._news.append(is_new)
        if self._most is None:
            self.next = self._loop.callbacks + MOST_WITHOUT_NEWS // _LOOKS_AT_NEWS

    def allow(self, callbacks: int) -> None:
        """Let so many callbacks run from here, whatever they say: the run is over and cleans up."""
        self._cleans = True
        self._news.clear()
        self._most, self._since = callbacks, self._loop.callbacks
        self.next = self._since + callbacks

    def look(self) -> None:
        """Raise RunawayRun if too many callbacks ran since the program said something new."""
        __tracebackhide__ = True
        now = self._loop.callbacks
        most = self._most or (MOST_WITHOUT_NEWS if self._news else MOST_CALLBACKS)
        if sum(is_new() for is_new in self._news):  # each of them
            self._since = now
        if now - self._since > most:
            finding = f"no progress: {most} callbacks ran and said nothing new"
            if self._most or not self._news:
                finding = f"more than max_callbacks={most} ran"
            error = RunawayRun(f"{report(self._loop, finding)}\n  {_ADVICE}")
            # What does not end while it cleans up is reported by name (wind_up.py).
            self._end(error, is_kept=not self._cleans)
        self.next = min(now + most // _LOOKS_AT_NEWS, self._since + most)

    def read(self) -> None:
        """Count a read of the clock. Raises RunawayRun if there are too many without a wait."""
        callback = self._loop.callbacks
        if self._read_in != callback:
            self._read_in, self._reads = callback, 0
        self._reads += 1
        if self._reads > MOST_READS:
            finding = f"no progress: {MOST_READS} reads of the clock without a wait"
            hint = "the clock moves only while the program waits, as in asyncio.sleep or time.sleep"
            self._end(runaway(finding, hint), is_kept=True)

    def _end(self, error: RunawayRun, *, is_kept: bool) -> None:
        """Raise the error, and CancelledError in a program that goes on all the same.

        The run fails with the first error that is kept, even if the program swallows it.
        """
        __tracebackhide__ = True
        self._swallowed += 1
        if self._swallowed == 1 and is_kept:
            self._loop.escapes.append(error)
        if self._swallowed > _MOST_SWALLOWED:
            raise asyncio.CancelledError
        raise error

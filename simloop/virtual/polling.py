"""The bound on a program that waits without an await, which no callback of the loop would end.

Not here: a program that goes on from callback to callback without progress (standstill.py). The
rule to keep: only the calls of one callback, or of one turn of a thread, count together.
"""

import asyncio
from typing import TYPE_CHECKING

from simloop.errors import RunawayRun
from simloop.virtual.waiting import callers_place

if TYPE_CHECKING:
    from simloop.virtual.clock import VirtualLoop

MOST_SLEEPS = 1_000_000
MOST_READS = 2_000_000
_MOST_SWALLOWED = 100


class Polling:
    """The blocking sleeps of a loop's own thread, and the reads of the clock by any thread."""

    __slots__ = ("_loop", "_read_in", "_reads", "_sleeps", "_slept_in")

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop
        self._sleeps = self._slept_in = self._reads = self._read_in = 0

    def slept(self) -> None:
        """Count a blocking sleep. Raises RunawayRun if there are too many without an await."""
        callback = self._loop._callbacks  # noqa: SLF001 - counted by the loop
        self._sleeps = self._sleeps + 1 if self._slept_in == callback else 1
        self._slept_in = callback
        if self._sleeps > MOST_SLEEPS:
            raise RunawayRun(
                f"no progress: {MOST_SLEEPS} blocking sleeps without an await, the last at "
                f"{callers_place()}"
            )

    def read(self) -> None:
        """Count a read of the clock. Raises RunawayRun if there are too many without a wait.

        Virtual time stands still until the program waits. A program that goes on reading, because
        it catches all exceptions, gets CancelledError.
        """
        callback = self._loop._callbacks  # noqa: SLF001 - counted by the loop
        if self._read_in != callback:
            self._read_in, self._reads = callback, 0
        self._reads += 1
        if self._reads > MOST_READS:
            error = RunawayRun(
                f"no progress: {MOST_READS} reads of the clock without a wait, the last at "
                f"{callers_place()}\n  the clock moves only while the program waits, as in "
                "asyncio.sleep or time.sleep"
            )
            if self._reads == MOST_READS + 1:  # the run fails even if the program swallows it
                self._loop.escapes.append(error)
            if self._reads > MOST_READS + _MOST_SWALLOWED:
                raise asyncio.CancelledError
            raise error

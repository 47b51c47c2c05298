"""The watch over a run that takes real time or memory without end.

A loop that computes for ever, or that keeps what it allocates, gives no sign by itself. While a
search plays, a timer of the operating system ticks every second in the main thread, which names the
run on stderr. There is no such timer on Windows, and none outside the main thread.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONG_S = 10.0
"""The real seconds after which a run is named; then again after twice the time."""
TICK_S = 1.0
_CAN_TICK = hasattr(signal, "setitimer")
_MUCH = 1 << 30
"""The bytes that a process may grow before the run is named; then again after twice as much."""


class Overdue(KeyboardInterrupt):
    """A run had not ended when the search had to end. It unwinds a run as Ctrl-C does."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - a worker has no terminal of its own


class RunWatch:
    """Watches the runs of a process; `over` begins and ends a watch."""

    def __init__(
        self, say: Callable[[str], None] = _say, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._now = say, now
        self._which = ""
        self._number = 0
        self._end_s: float | None = None
        self._start_s = 0.0
        self._long_s = LONG_S
        self._bytes = memory()
        self._much = _MUCH

    @contextmanager
    def over(self, which: str, left_s: float | None) -> Iterator[None]:
        """RunWatch the runs that begin in the block. `which` follows a number: `run 7 of seed 1`.

        `left_s` are the seconds until the search must end, or None. Then a run that has taken
        `LONG_S` is ended by `Overdue`.
        """
        self._which, self._number = which, 0
        self._end_s = None if left_s is None else self._now() + left_s
        if not _CAN_TICK or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGALRM, lambda *_: self.tick())
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def begins(self, number: int) -> None:
        """RunWatch the run of this number from now on; 0 stands for none."""
        self._number, self._start_s, self._long_s = number, self._now(), LONG_S

    def tick(self) -> None:
        """Name the run if it is long, or if memory has grown. Raises Overdue."""
        if not self._number:
            return
        now_s = self._now()
        taken_s = now_s - self._start_s
        run = f"run {self._number} {self._which}"
        if self._end_s is not None and now_s >= self._end_s and taken_s >= LONG_S:
            self._number = 0
            raise Overdue(f"{run} had not ended after {taken_s:.0f} s of real time")
        if taken_s >= self._long_s:
            self._long_s *= 2
            self._say(f"{run} has taken {taken_s:.0f} s of real time: does the loop spin?")
        grown = memory() - self._bytes
        if grown >= self._much:
            self._much *= 2
            self._say(f"{run}: the process has {grown >> 20:,} MB more memory than at its start")


def memory() -> int:
    """Return the bytes of memory that this process has at the most; 0 where nothing tells."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10

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
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simloop.errors import RunawayRun
from simloop.virtual.reaches import is_exempt
from simloop.virtual.simulated_thread import RealThread, make_locked
from simloop.virtual.waiting import place_in_program, report

if TYPE_CHECKING:
    from simloop.virtual.clock import VirtualLoop
    from simloop.virtual.simulated_thread import SimulatedThread

# Half a million callbacks take about a second, and a million reads too.
MOST_CALLBACKS = 3_000_000
"""The callbacks of a program that has no world to say something new to."""
MOST_WITHOUT_NEWS = 500_000
MOST_READS = 1_000_000
_LOOKS_AT_NEWS = 4
_MOST_SWALLOWED = 100
_ADVICE = "let the program wait for longer at a time, or give simulate a larger max_callbacks"

LOOK_S = 0.2
LOOKS = 5
"""A thread that has done nothing in so many looks, one second, waits for something real."""
# The originals: a simulation has others in `time`.
_clock_of: Any = getattr(time, "pthread_getcpuclockid", None)
_read_clock: Any = getattr(time, "clock_gettime_ns", None)
_process_time_ns = time.process_time_ns
_MILLISECOND = 1_000_000


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


def is_stuck(thread: "SimulatedThread", back: Any) -> bool:
    """Return whether a thread waits for something real; False once it gives the turn `back`.

    It does if it stays at one instruction, and uses no processor time, for a second. A process that
    was stopped looks only once in the meantime, so it finds nothing wrong when it goes on.
    """
    before, alike = _work_of(thread), 0
    while not back.acquire(timeout=LOOK_S):
        now = _work_of(thread)
        alike = alike + 1 if now is not None and now == before else 0
        before = now
        if alike >= LOOKS and not is_exempt(thread.frame):
            return True
    return False


class LoopWatch:
    """Watches the event loop's own thread, while no other thread has the turn.

    That thread may wait for a lock from outside, which a parked thread holds. `pauses` tells that
    it waits for a thread that has the turn.
    """

    def __init__(self, thread: "SimulatedThread", found: Callable[[], None]) -> None:
        self.pauses = False
        self._thread = thread
        self._found = found
        self._stop = make_locked()
        self._real = RealThread(self._watch)

    def stop(self) -> None:
        """End the watch."""
        self._stop.release()
        self._real.join()

    def _watch(self) -> None:
        before, alike = None, 0
        while not self._stop.acquire(timeout=LOOK_S):
            now = None if self.pauses else _work_of(self._thread)
            alike = alike + 1 if now is not None and now == before else 0
            before = now
            if alike >= LOOKS and not is_exempt(self._thread.frame):
                alike = 0
                self._found()


def _work_of(thread: "SimulatedThread") -> tuple[Any, ...] | None:
    """Return a value that changes when the thread does something; None once it is done."""
    frame = sys._current_frames().get(thread.ident)  # noqa: SLF001 - the stack is the question
    place = None if frame is None else (id(frame), frame.f_lasti)
    # In milliseconds: to be interrupted takes some time as well.
    if _clock_of is None:
        return place, _process_time_ns() // _MILLISECOND
    # A thread may end at any moment, and the clock of one that has ended is undefined behaviour.
    with thread.life:
        if thread.is_done:
            return None
        return place, _read_clock(_clock_of(thread.ident)) // _MILLISECOND

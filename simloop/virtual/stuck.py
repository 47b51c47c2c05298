"""The detection of a thread that waits for something real, which virtual time cannot bring.

Not here: what becomes of the thread (threads.py). The rule to keep: a thread that computes is never
stuck, however slow the machine is; nor is one in which a person steps through the program.
"""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simloop.virtual.reaches import is_exempt
from simloop.virtual.simulated_thread import RealThread, make_locked

if TYPE_CHECKING:
    from simloop.virtual.simulated_thread import SimulatedThread

LOOK_S = 0.2
_LOOKS = 5
"""A thread that has done nothing in so many looks, one second, is stuck."""
# The originals: a simulation has others in `time`.
_clock_of: Any = getattr(time, "pthread_getcpuclockid", None)
_read_clock: Any = getattr(time, "clock_gettime_ns", None)
_process_time_ns = time.process_time_ns


def is_stuck(thread: "SimulatedThread", back: Any) -> bool:
    """Return whether a thread waits for something real; False once it gives the turn `back`.

    It does if it stays at one instruction, and uses no processor time, for a second. A process that
    was stopped looks only once in the meantime, so it finds nothing wrong when it goes on.
    """
    before, alike = _progress(thread), 0
    while not back.acquire(timeout=LOOK_S):
        now = _progress(thread)
        alike = alike + 1 if now == before else 0
        before = now
        if alike >= _LOOKS and not is_exempt(thread.frame):
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
            now = None if self.pauses else _progress(self._thread)
            alike = alike + 1 if now is not None and now == before else 0
            before = now
            if alike >= _LOOKS and not is_exempt(self._thread.frame):
                alike = 0
                self._found()


def _progress(thread: "SimulatedThread") -> tuple[Any, ...]:
    """Return a value that changes when the thread does something."""
    frame = sys._current_frames().get(thread.ident)  # noqa: SLF001 - the stack is the question
    place = None if frame is None else (id(frame), frame.f_lasti)
    # In milliseconds: to be interrupted takes some time as well.
    used_ns = _process_time_ns() if _clock_of is None else _read_clock(_clock_of(thread.ident))
    return place, used_ns // 1_000_000

"""The detection of a thread that waits for something real, which virtual time cannot bring.

Not here: what becomes of the thread (threads.py). The rule to keep: a thread that computes is never
stuck, however slow the machine is; nor is one in which a person steps through the program.
"""

import sys
import time
from typing import TYPE_CHECKING, Any

from simloop.virtual.reaches import is_exempt

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


def _progress(thread: "SimulatedThread") -> tuple[Any, ...]:
    """Return a value that changes when the thread does something."""
    frame = sys._current_frames().get(thread.ident)  # noqa: SLF001 - the stack is the question
    place = None if frame is None else (id(frame), frame.f_lasti)
    # In milliseconds: to be interrupted takes some time as well.
    used_ns = _process_time_ns() if _clock_of is None else _read_clock(_clock_of(thread.ident))
    return place, used_ns // 1_000_000

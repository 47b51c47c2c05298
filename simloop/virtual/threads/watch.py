"""Real threads, and the watch that finds one that waits for something real.

Virtual time cannot bring what such a thread waits for, so it is watched in real time. The watch
finds a thread that does nothing: one that computes is never found, however slow the machine is, nor
is one in which a person steps through the program.
"""
# ruff: noqa: SLF001 - `threading` keeps the state of a thread in private attributes

import _thread
import functools
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from simloop.virtual.real_world import is_exempt

LOOK_S = 0.2
LOOKS = 5
"""A thread that has done nothing in so many looks, one second, waits for something real."""
# The originals: a simulation has others in `_thread` and `time`.
make_lock = _thread.allocate_lock
_start_thread = _thread.start_new_thread
# New in Python 3.13. Refused in every module while a simulation runs, unless it is wrapped.
_start_joinable: Any = (
    functools.partial(_thread.start_joinable_thread)
    if hasattr(_thread, "start_joinable_thread")
    else None
)
_clock_of: Any = getattr(time, "pthread_getcpuclockid", None)
_read_clock: Any = getattr(time, "clock_gettime_ns", None)
_process_time_ns = time.process_time_ns
_MILLISECOND = 1_000_000


class _Watched(Protocol):
    """A thread that can be watched. `life` is held while it becomes done."""

    ident: int
    is_done: bool
    life: Any

    @property
    def frame(self) -> Any: ...


def make_locked() -> Any:
    """Return a real lock that is taken."""
    lock = make_lock()
    lock.acquire()
    return lock


class RealThread:
    """A thread of the operating system that can be joined, and for which Python does not wait."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._begun = make_locked()
        self._sentinel: Any = None
        self.handle: Any = None
        if _start_joinable is None:
            self.ident: int = _start_thread(self._run, ())
        else:
            self.handle = _start_joinable(self._run, daemon=True)
            self.ident = self.handle.ident

    def _run(self) -> None:
        if _start_joinable is None:
            # A lock that Python releases when the thread is over, and its local data is gone.
            self._sentinel = _thread._set_sentinel()  # type: ignore[attr-defined]
            self._sentinel.acquire()
        self._begun.release()
        self._function()

    def join(self) -> None:
        """Wait until the thread is over, with what the end of a thread cleans up."""
        self._begun.acquire()
        if _start_joinable is None:
            self._sentinel.acquire()
        else:
            self.handle.join()


class _Idleness:
    """The idleness of a thread: one instruction, and no processor time, for a second.

    A process that was stopped looks only once in the meantime, so it finds nothing wrong when it
    goes on.
    """

    def __init__(self, thread: _Watched) -> None:
        self._thread = thread
        self._before = _work_of(thread)
        self._alike = 0

    def look(self) -> bool:
        now = _work_of(self._thread)
        self._alike = self._alike + 1 if now is not None and now == self._before else 0
        self._before = now
        if self._alike < LOOKS or is_exempt(self._thread.frame):
            return False
        self._alike = 0
        return True


def is_stuck(thread: _Watched, back: Any) -> bool:
    """Return whether a thread waits for something real; False once it gives the turn `back`."""
    idleness = _Idleness(thread)
    while not back.acquire(timeout=LOOK_S):
        if idleness.look():
            return True
    return False


class LoopWatch:
    """Watches the event loop's own thread, while no other thread has the turn.

    That thread may wait for a lock from outside, which a parked thread holds. `pauses` tells that
    it waits for a thread that has the turn.
    """

    def __init__(self, thread: _Watched, found: Callable[[], None]) -> None:
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
        idleness = None
        while not self._stop.acquire(timeout=LOOK_S):
            if self.pauses:
                idleness = None
            elif idleness is None:
                idleness = _Idleness(self._thread)
            elif idleness.look():
                self._found()


def _work_of(thread: _Watched) -> tuple[Any, ...] | None:
    """Return a value that changes when the thread does something; None once it is done."""
    frame = sys._current_frames().get(thread.ident)
    place = None if frame is None else (id(frame), frame.f_lasti)
    # In milliseconds: to be interrupted takes some time as well.
    if _clock_of is None:
        return place, _process_time_ns() // _MILLISECOND
    # A thread may end at any moment, and the clock of one that has ended is undefined behaviour.
    with thread.life:
        if thread.is_done:
            return None
        return place, _read_clock(_clock_of(thread.ident)) // _MILLISECOND

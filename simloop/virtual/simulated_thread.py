"""A simulated thread: a real thread that runs only while it has the turn.

Not here: who gets the turn (threads.py). The rule to keep: only the thread that has the turn runs
code of the program, and a thread that has ended has also cleaned up its local data.
"""
# ruff: noqa: SLF001 - `threading` keeps the state of a thread in private attributes

import _thread
import asyncio
import functools
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simloop.virtual.waiting import callers_place

if TYPE_CHECKING:
    from simloop.virtual.threads import Threads

MOST_ENDS = 100
"""A thread that has caught so many exceptions that should end it never ends."""
# The originals: a simulation has others in `_thread`.
_make_lock = _thread.allocate_lock
_start_thread = _thread.start_new_thread
# New in Python 3.13. Refused in every module while a simulation runs, unless it is wrapped.
_start_joinable: Any = (
    functools.partial(_thread.start_joinable_thread)
    if hasattr(_thread, "start_joinable_thread")
    else None
)


class ThreadEnded(SystemExit):
    """Ends a thread where it is parked. As a SystemExit, it prints nothing."""


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
        if self.handle is None and _start_joinable is None:
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


class SimulatedThread:
    """One thread that takes turns: a thread of the program, or that of the event loop."""

    def __init__(self, threads: "Threads", thread: Any, function: Callable[[], Any]) -> None:
        self.threads = threads
        self.thread = thread
        self.function = function
        self.ident = 0
        self.origin = callers_place()
        self.waits_for: Any = "its start"
        """The object for which the thread is parked; None while it may run."""
        self.is_ready = False
        self.is_timed_out = False
        self.is_ending = False
        self.is_done = False
        self.life = _make_lock()
        """A lock that is held while the thread becomes done, so its holder can ask it anything."""
        self.is_abandoned = False
        self.ends = 0
        self.timer: asyncio.TimerHandle | None = None
        self.error: BaseException | None = None
        self.joiners: list[SimulatedThread] = []
        self.back: Any = None
        self._turn = make_locked()
        self._real: RealThread | None = None

    @property
    def name(self) -> str:
        """Return the name of the thread."""
        return "a thread without a name" if self.thread is None else str(self.thread.name)

    @property
    def handle(self) -> Any:
        """Return Python's handle of the real thread; None before Python 3.13."""
        return None if self._real is None else self._real.handle

    @property
    def is_daemon(self) -> bool:
        """Return whether Python would not wait for the thread at exit."""
        return self.thread is None or bool(self.thread.daemon)

    @property
    def frame(self) -> Any:
        """Return the innermost frame of the thread, or None."""
        return sys._current_frames().get(self.ident)

    @property
    def place(self) -> str:
        """Return the place in the program where the thread is, or else where it was started."""
        frame = self.frame
        return (callers_place(frame) if frame is not None else "") or self.origin

    def start(self) -> None:
        """Start the real thread, which waits for its first turn."""
        self._real = RealThread(self._bootstrap)
        self.ident = self._real.ident

    def run(self) -> None:
        """Give the thread the turn. Called by the event loop's thread."""
        self.is_ready = False
        self._turn.release()

    def pause(self) -> None:
        """Give the turn back, and wait for the next one. Called by the thread itself."""
        self.back.release()
        self._turn.acquire()

    def join(self) -> None:
        """Wait until the real thread is over."""
        if self._real is not None:
            self._real.join()

    def check(self) -> None:
        """Raise the exception that ends the thread, if there is one."""
        error, self.error = self.error, None
        if self.is_abandoned or self.is_ending:
            self.ends += 1
            if self.ends > MOST_ENDS and not self.is_abandoned:
                self.pause()  # for ever: `end` reports the thread
            raise ThreadEnded
        if error is not None:
            raise error

    def _bootstrap(self) -> None:
        self._turn.acquire()
        self._work()
        with self.life:
            self.is_done = True
        if not self.is_abandoned:
            self.threads.has_ended(self)
            self.back.release()

    def _work(self) -> None:
        hooks: Any = threading
        try:
            self.waits_for = None
            self.check()
            if hooks._trace_hook:
                sys.settrace(hooks._trace_hook)
            if hooks._profile_hook:
                sys.setprofile(hooks._profile_hook)
            self.function()
        except ThreadEnded:
            pass
        except BaseException:  # noqa: BLE001 - as Python does, for threads
            if not self.is_ending and not self.is_abandoned:
                self._report()
        finally:
            del self.function

    def _report(self) -> None:
        if self.thread is not None:
            self.thread._invoke_excepthook(self.thread)
        else:
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), None)))


def make_locked() -> Any:
    """Return a real lock that is taken."""
    lock = _make_lock()
    lock.acquire()
    return lock

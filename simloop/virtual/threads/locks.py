"""The locks of simulated threads: waiting for one parks the thread on virtual time.

Everything in Python that blocks is built on them: events, conditions, semaphores, barriers, queues
and futures. A lock that was made in a simulation and outlives it, such as that of a logging
handler, is a real lock for all code outside.
"""

import _thread
from typing import TYPE_CHECKING, Any

from simloop.virtual.threads.scheduler import SimulatedThread, thread_here

if TYPE_CHECKING:
    from types import TracebackType

_make_lock = _thread.allocate_lock  # the original: a simulation has another in `_thread`


class SimulatedLock:
    """A lock as `threading.Lock` makes it. `holder` is the simulated thread that has taken it."""

    __slots__ = ("__weakref__", "_heir", "_losers", "_real", "_waiters", "holder")

    def __init__(self) -> None:
        self._real = _make_lock()
        self.holder: SimulatedThread | None = None
        self._waiters: list[SimulatedThread] = []
        self._losers: set[SimulatedThread] = set()
        self._heir: SimulatedThread | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as in Python
        """Take the lock; in a simulation, a wait for it parks the thread."""
        may_wait = blocking and (timeout > 0 or timeout == -1)
        if self._real.acquire(False) if may_wait else self._real.acquire(blocking, timeout):  # noqa: FBT003
            self.holder = thread_here()
            return True
        if not may_wait:
            return False
        me = thread_here()
        if me is None or self._is_held_outside(me):
            taken = self._real.acquire(True, timeout)  # noqa: FBT003
            self.holder = me if taken else self.holder
            return taken
        return self._wait(me, timeout)

    def _is_held_outside(self, me: SimulatedThread) -> bool:
        """Return whether a real thread holds the lock, or one of another running simulation."""
        holder = self.holder
        return holder is None or (holder.threads is not me.threads and not holder.threads.is_over)

    def _wait(self, me: SimulatedThread, timeout: float) -> bool:
        threads = me.threads
        until_ns = None if timeout == -1 else me.loop.now_ns + max(1, round(timeout * 1e9))
        self._waiters.append(me)
        try:
            while threads.park(me, until_ns, self):
                if self._heir is me or self._real.acquire(False):  # noqa: FBT003
                    self._heir, self.holder = None, me
                    return True
                # Another thread was faster. It must not be so for ever (see `release`).
                self._losers.add(me)
            return False
        finally:
            self._leave(me)

    def _leave(self, me: SimulatedThread) -> None:
        self._waiters.remove(me)
        self._losers.discard(me)
        if self._heir is me:  # an exception ended the wait
            self._heir = None
            self.release()
        elif self._waiters and not self._real.locked():
            self._wake()

    def _wake(self) -> None:
        first = self._waiters[0]
        first.threads.wake(first)

    def release(self) -> None:
        """Release the lock, and make the thread ready that has waited for it the longest.

        As in Python, another thread may take the lock before that one has its turn. If that has
        happened once, the lock is handed over, so a thread that takes the lock again and again
        cannot keep it for ever.
        """
        waiters = self._waiters
        if waiters and waiters[0] in self._losers and self._real.locked():
            self._heir = self.holder = waiters[0]
            self._wake()
            return
        self.holder = None
        self._real.release()
        if waiters:
            self._wake()

    def locked(self) -> bool:
        """Return whether the lock is taken."""
        return self._real.locked()

    __enter__ = acquire

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: "TracebackType | None",
    ) -> None:
        self.release()

    # Older names, which the lock of Python has too.
    acquire_lock, release_lock, locked_lock = acquire, release, locked

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]

    def __repr__(self) -> str:
        state = "locked" if self.locked() else "unlocked"
        return f"<{state} _thread.lock object at {id(self):#x}>"

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle '_thread.lock' object")

"""Timeouts: bounds, in virtual time, on the blocks in which one task waits.

asyncio has `timeout`, which is not enough here: code that swallows its cancellation must be
cancelled again, and an inner bound may not outlast an outer one. Code that catches a CancelledError
which this module caused also calls `uncancel`, so a cancellation from outside is never swallowed.
"""

import asyncio
from typing import Any, Self

from msgspec import Struct

from simloop.virtual.clock.instants import NEVER_NS
from simloop.virtual.clock.loop import VirtualLoop

NS_PER_MS = 1_000_000
# Code that is cancelled may clean up for so long; code that goes on is cancelled again. opencode
# waits as long for its tools to settle.
GRACE_MS = 250
GRACE_NS = GRACE_MS * NS_PER_MS
MOST_CANCELS = 100
"""Code that has swallowed so many cancellations never ends; the bounds of the clock report it."""


class Timeout(Struct, eq=False):
    """A bound, at an instant, on a `with` block of the current task.

    The bound of an enclosing block holds too: the loop keeps the innermost timeout of each task.
    `expired` says afterwards whether the bound was reached. Waiting in inner ones needs no timer.

    The CancelledError of an expired timeout ends at the block; any other passes through. If the
    code in the block swallows the error, `expired` stays true. `broken` says that `break_off`
    ended the block, which is no expiry.
    """

    _loop: VirtualLoop
    when_ns: int
    sets_timer: bool = True
    task: Any = None
    cancels: int = 0
    broken: bool = False
    _timer: asyncio.TimerHandle | None = None
    _outer: "Timeout | None" = None

    def __post_init__(self) -> None:
        # The second is a task in a loop of the program's own, inside of this one.
        self.task = asyncio.current_task(self._loop) or asyncio.current_task()
        outer: Timeout | None = self._loop.innermost.get(self.task)
        if outer is not None:
            self.when_ns = min(self.when_ns, outer.when_ns)

    @classmethod
    def after(cls, loop: VirtualLoop, timeout_ms: int | None) -> Self:
        """Return a timeout of `timeout_ms` of virtual time. None sets no bound of its own."""
        return cls(loop, NEVER_NS if timeout_ms is None else loop.now_ns + timeout_ms * NS_PER_MS)

    @property
    def expired(self) -> bool:
        return self.cancels > 0 and not self.broken

    def break_off(self) -> None:
        """End the block now if its task waits, or when it waits next; do so once."""
        if self.broken or self.cancels:
            return
        self.broken = True
        if asyncio.current_task(self._loop) is self.task:
            # The task is calling, so it does not wait: cancelling it now could hit a later wait.
            self._loop.call_soon(self._cancel)
        else:
            self._cancel()

    def __enter__(self) -> Self:
        innermost = self._loop.innermost
        self._outer, innermost[self.task] = innermost.get(self.task), self
        if self.sets_timer:
            self._arm(self.when_ns)
        return self

    def _arm(self, when_ns: int) -> None:
        if when_ns < NEVER_NS:
            self._timer = self._loop.call_at_ns(when_ns, self._cancel)

    def _cancel(self) -> None:
        """Cancel the task, if this is its innermost timeout; an outer one waits for its turn."""
        # With a second cancellation, by an outer timeout, the inner block would let the error pass
        # (see `__exit__`), and the code after it could not handle its own expiry.
        most, innermost = 1 if self.broken else MOST_CANCELS, self._loop.innermost
        if innermost.get(self.task) is not self or self.cancels >= most:
            return
        self.cancels += 1
        if (own := self.task.get_loop()) is self._loop:
            self.task.cancel()
        else:  # it sleeps, and is to be woken
            own.call_soon_threadsafe(self.task.cancel)
        if not self.broken:  # code that does not look at an abort goes on as it likes
            self._arm(self._loop.now_ns + GRACE_NS)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        outer, loop = self._outer, self._loop
        if self._timer is not None:
            self._timer.cancel()
        if outer is None:
            loop.innermost.pop(self.task, None)
        else:
            loop.innermost[self.task] = outer
            if outer.broken or outer.when_ns <= loop.now_ns:
                outer._arm(loop.now_ns)  # noqa: SLF001 - its turn came while this one was inner
        if not self.cancels:
            return False
        # `uncancel` returns the number of cancellations that remain, which are not of this timeout.
        # The error is theirs then, and passes, as in `asyncio.timeout`.
        others = [self.task.uncancel() for _ in range(self.cancels)][-1]
        return kind is asyncio.CancelledError and not others

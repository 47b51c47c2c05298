"""The means to stop a run from outside, at any place where it waits.

Two mechanisms, both by cancelling a task that waits: `Cancellation` ends the run (abort, wall
clock, a hook that must not fail), a `Timeouts` bounds one thing that a task waits for. In a loop
where an abort is only a flag, it breaks off such waits, and the run goes on. Not here: the course
of the run after that (the loop). The rule to keep: code that catches a CancelledError which this
module caused also calls `uncancel`, so that a cancellation from outside is never swallowed.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from simloop.kernel.signals import AbortRequested, Signal
from simloop.virtual.clock import VirtualLoop
from simloop.virtual.timers import NEVER_NS

_NS_PER_MS = 1_000_000
# Code that is cancelled may clean up for so long; code that goes on is cancelled again. opencode
# waits as long for its tools to settle.
GRACE_MS = 250
GRACE_NS = GRACE_MS * _NS_PER_MS
# What has swallowed so many cancellations never ends: the clock's own bounds report it then.
_TRIES = 100


class Cancellation:
    """Ends the run at its next await or at the driver's next check, whichever is first.

    `pending` is the signal that waits to be taken. Only the first counts, because a run ends once.
    While `polls` is set, an abort cancels nothing; the next check finds it.

    With `note_abort` an abort is a flag and ends nothing: `aborted` is true from then on, and the
    waits that are under way in `breaking` are broken off. `note_abort` is called once.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        task: asyncio.Task[Any],
        note_abort: Callable[[], None] | None = None,
    ) -> None:
        self._loop = loop
        self._note_abort = note_abort
        self.open(task)

    def open(self, task: asyncio.Task[Any]) -> None:
        """Begin a run in `task`: nothing is planned, nothing is pending."""
        self._task = task
        self._outside = task.cancelling()
        self._cancels = 0
        self.closed = False
        self._planned: list[tuple[int, Signal]] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._due_ns = NEVER_NS
        self._found_by_asking = False
        self._breakable: list[Timeout] = []
        self._aborted = False
        self.polls = False
        self.pending: Signal | None = None

    @property
    def aborted(self) -> bool:
        """Return whether the user has aborted the run, where an abort is a flag."""
        if not self._aborted and self._note_abort is not None:
            self._find_due()
        return self._aborted

    def plan(self, when_ns: int, signal: Signal) -> None:
        """Plan the end of the run with `signal` at that time, even if the run never waits."""
        self._planned.append((when_ns, signal))
        self._due_ns = min(self._due_ns, when_ns)
        self._timers.append(self._loop.call_at_ns(when_ns, self.end_run, signal))

    def end_run(self, signal: Signal) -> None:
        """End the run with `signal`; do nothing if an end is pending or the run is over."""
        if (self.pending is not None and not self._found_by_asking) or self.closed:
            return
        if self._note_abort is not None and type(signal) is AbortRequested:
            self._flag_abort(self._note_abort)
            return
        self._found_by_asking = self.polls and type(signal) is AbortRequested
        self.pending = signal
        if self._found_by_asking:
            return
        if asyncio.current_task(self._loop) is self._task:
            # The run is not waiting, it is calling us. It checks before it starts anything more;
            # this is for the case that what called us waits for something first.
            self._loop.call_soon(self._cancel)
        else:
            self._cancel()

    def _cancel(self) -> None:
        if self.pending is not None and self._cancels < _TRIES:
            self._task.cancel()
            self._cancels += 1
            again_ns = self._loop.now_ns + GRACE_NS
            self._timers.append(self._loop.call_at_ns(again_ns, self._cancel))

    def _flag_abort(self, note: Callable[[], None]) -> None:
        if not self._aborted:
            self._aborted = True
            note()
            for deadline in tuple(self._breakable):
                deadline.break_off()

    @contextmanager
    def breaking(self, deadline: "Timeout") -> Iterator[None]:
        """Break off `deadline` if the user aborts the run in the `with` block or before it."""
        self._breakable.append(deadline)
        try:
            if self.aborted:
                deadline.break_off()
            yield
        finally:
            self._breakable.remove(deadline)

    def check(self) -> None:
        """Raise CancelledError if the run is to end; call this before anything new is started."""
        self._find_due()
        if self.pending is not None:
            raise asyncio.CancelledError

    def _find_due(self) -> None:
        """End the run as planned if it is time: time may have passed without any waiting."""
        while self._loop.now_ns >= self._due_ns and self.pending is None:
            due = min(self._planned, key=lambda plan: plan[0])
            self._planned.remove(due)
            self._due_ns = min((when_ns for when_ns, _ in self._planned), default=NEVER_NS)
            self.end_run(due[1])

    def take(self) -> Signal:
        """Return the signal that ends the run.

        Raises CancelledError if others cancelled the task too.
        """
        assert self.pending is not None
        signal = self.pending
        self.close()
        for _ in range(self._cancels):
            self._task.uncancel()
        if self._task.cancelling() > self._outside:
            raise asyncio.CancelledError
        return signal

    def close(self) -> None:
        """Let nothing interrupt the task any more: the run is over, its task may go on."""
        self.pending, self.closed = None, True
        for timer in self._timers:
            timer.cancel()


class Timeouts:
    """The deadlines of one task.

    One timer serves them all: most are never reached, and time that does not pass should cost
    nothing.
    """

    def __init__(self, loop: VirtualLoop, task: asyncio.Task[Any]) -> None:
        self.loop = loop
        self.task = task
        self.current: Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0

    def deadline(self, timeout_ms: int | None) -> "Timeout":
        """Return a bound on a `with` block of `timeout_ms` of virtual time.

        The bound of an enclosing block holds too. None sets no bound.
        """
        allowed_ns = NEVER_NS if timeout_ms is None else timeout_ms * _NS_PER_MS
        when_ns = min(self.loop.now_ns + allowed_ns, NEVER_NS)
        outer = self.current
        return Timeout(self, when_ns if outer is None else min(when_ns, outer.when_ns))

    def arm(self, when_ns: int) -> None:
        """Set the timer to ring at `when_ns` or before."""
        if when_ns < NEVER_NS and (self._timer is None or when_ns < self._timer_ns):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_at_ns(when_ns, self.ring)
            self._timer_ns = when_ns

    def let_go(self) -> bool:
        """Return whether no timeout is active, so that the clock may discard this timer."""
        if self.current is None:
            self._timer = None
        return self.current is None

    def ring(self) -> None:
        """Cancel the task if its innermost deadline is reached; arm the timer for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        current = self.current
        if current is None:
            return
        tries = 1 if current.broken else _TRIES
        if current.when_ns <= self.loop.now_ns and current.cancels < tries:
            current.cancels += 1
            self.task.cancel()
            if not current.broken:  # code that does not look at an abort goes on as it likes
                self.arm(self.loop.now_ns + GRACE_NS)
        elif not current.cancels:
            self.arm(current.when_ns)


class Timeout:
    """A bound on a `with` block. `expired` says afterwards whether it was reached.

    The CancelledError of an expired deadline ends at the block; any other passes through. If code
    swallows the error, `expired` stays true. `broken` says that an abort broke
    the block off, which is no expiry.
    """

    __slots__ = ("_is_open", "_outer", "_watch", "broken", "cancels", "when_ns")

    def __init__(self, watch: Timeouts, when_ns: int) -> None:
        self._watch = watch
        self._is_open = False
        self.when_ns = when_ns
        self.cancels = 0
        self.broken = False

    @property
    def expired(self) -> bool:
        """Return whether the deadline was reached."""
        return self.cancels > 0 and not self.broken

    def break_off(self) -> None:
        """End the block now or when its task waits next; a repeated call does nothing."""
        if self.broken or self.cancels:
            return
        self.broken = True
        watch = self._watch
        if asyncio.current_task(watch.loop) is watch.task:
            watch.loop.call_soon(self._cancel)  # as in `end_run`: the task is calling us
        else:
            self._cancel()

    def _cancel(self) -> None:
        if self._is_open:
            self.when_ns = self._watch.loop.now_ns
            self._watch.ring()

    def __enter__(self) -> Self:
        self._is_open = True
        self._outer = self._watch.current
        self._watch.current = self
        self._watch.arm(self.when_ns)
        return self

    def move(self, when_ns: int) -> None:
        """Move the deadline, for instance further away once the first part has come."""
        self.when_ns = when_ns
        self._watch.arm(when_ns)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        watch = self._watch
        self._is_open = False
        outer = watch.current = self._outer
        if outer is not None:
            watch.arm(outer.when_ns)
        if not self.cancels:
            return False
        others = [watch.task.uncancel() for _ in range(self.cancels)][-1]
        return kind is asyncio.CancelledError and not others

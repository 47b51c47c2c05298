"""The user as an agent sees it: messages sent during a run, and the end of a run from outside.

Code that catches a CancelledError of a `Cancellation` also calls `uncancel`, as its `take` does, so
that one from outside is never swallowed.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import Struct

from simloop.errors import RunawayRun
from simloop.escape import writable
from simloop.kernel.signals import AbortRequested, Signal, WallClockExpired
from simloop.messages import Queue, StopCause
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.instants import NEVER_NS
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.clock.timeouts import GRACE_NS, MOST_CANCELS, NS_PER_MS, Timeout
from simloop.virtual.places import callers_place
from simloop.virtual.threads.calls import is_blocking
from simloop.virtual.threads.scheduler import thread_here

_CAUSES = {AbortRequested: StopCause.ABORT, WallClockExpired: StopCause.WALL_CLOCK}
_MOST_REFUSED = 100  # turns, more than clean-up takes
_GOES_ON = f"the run is to end, and the agent goes on after {_MOST_REFUSED} cancellations"
_ADVICE = "let CancelledError pass: `except Exception` does, `except BaseException` does not"


class TypedLine(Struct):
    """A line that the user types `after_ns` after the program has asked for it."""

    text: str
    place: str  # in the scenario
    after_ns: int = 0
    contains: Sequence[str] = ()  # it answers only what the program asks with all of them
    times: int | None = 1  # None is any number, at least once
    typed: int = 0

    def fits(self, screen: str) -> bool:
        is_left = self.times is None or self.typed < self.times
        return is_left and all(each in screen for each in self.contains)


async def no_turn(**_: bool) -> None:
    """Do nothing: the turn of a port that is in no world."""


class UserPort:
    """The two queues of one conversation, and the cancellation of its runs."""

    def __init__(self, recorder: Recorder, loop: VirtualLoop) -> None:
        self._recorder = recorder
        self._loop = loop
        self._planned: deque[tuple[int, Queue, str]] = deque()
        self._waiting: list[tuple[Queue, str]] = []  # in the order of sending
        self._refused = 0  # turns after an error of simloop or the stop of a run
        self._goes_on = False  # after a stop
        self.cancellation = Cancellation(loop, partial(_record_stop, recorder))

    @property
    def stopped(self) -> bool:
        return self.cancellation.is_due

    async def turn(self, *, starts: bool = False) -> None:
        """Give tasks that are ready their turn. Raises CancelledError if the run is to end.

        A stop that the caller has heard and swallowed is recorded if it `starts` something more. An
        error of simloop ends the run too: code that has swallowed one must not go on. Code that
        swallows each CancelledError as well waits here, so that the event loop can end the run. No
        stop reaches a thread that the agent has started.
        """
        if self._loop.busy:
            await asyncio.sleep(0)
        stop, thread = self.cancellation, thread_here()
        is_due = not stop.closed and stop.is_due and not (thread and thread.is_worker)
        if self._recorder.error is not None or is_due:
            task = asyncio.current_task()
            has_heard = thread is not None and thread.has_heard and task not in thread.before
            if starts and not self._goes_on and (has_heard or (task and task.cancelling())):
                self._goes_on = True
                self._recorder.record(entries.LeftBehind, "stop", "", callers_place())
            self._refused += 1
            if self._refused > _MOST_REFUSED:
                self._recorder.keep(RunawayRun(_GOES_ON, hint=_ADVICE))
                await asyncio.get_running_loop().create_future()
            raise asyncio.CancelledError

    def has(self, queue: Queue | None = None) -> bool:
        if self._planned:
            self._send_due()
        waiting = self._waiting
        return bool(waiting) and any(queue is None or each is queue for each, _ in waiting)

    def take(self, queue: Queue | None = None, *, one: bool = False) -> list[str]:
        """Return the waiting messages of `queue`, or of both; the first of them, or all."""
        if not self.has(queue):
            return []
        asked = [each for each in self._waiting if queue is None or each[0] is queue]
        taken = asked[:1] if one else asked
        for each in taken:
            self._waiting.remove(each)
        return [text for _, text in taken]

    def plan(self, planned: list[tuple[int, Queue, str]]) -> None:
        self._planned = deque(sorted(planned, key=lambda each: each[0]))

    def send(self, text: str, queue: Queue = Queue.STEERING) -> None:
        self._send_due()
        self._add(text, queue)

    def stop(self) -> None:
        """Ask the run to stop, as its user does; without a run, do nothing."""
        self.cancellation.end_run(AbortRequested())

    def begin(self, task: asyncio.Task[Any], wall_clock_ms: int | None) -> None:
        self._refused, self._goes_on = 0, False
        self.cancellation.open(task, wall_clock_ms)

    def _send_due(self) -> None:
        while self._planned and self._planned[0][0] <= self._loop.now_ns:
            _, queue, text = self._planned.popleft()
            self._add(text, queue)

    def _add(self, text: str, queue: Queue) -> None:
        text = writable(text)
        self._waiting.append((queue, text))
        self._recorder.record(entries.Queued, text, queue)


# Not a method of the port: the port has the cancellation, and with a way back, each run would leave
# its world to the garbage collector.
def _record_stop(recorder: Recorder, signal: Signal) -> None:
    if (cause := _CAUSES.get(type(signal))) is not None:  # a hook that ends its run is not the user
        recorder.record(entries.StopRequested, cause)


class Cancellation:
    """Ends the run at its next await or at its next check, whichever is first.

    `pending` is the signal that waits to be taken. Only the first counts, because a run ends once.
    While `polls` is set, an abort cancels nothing; the next check finds it. `tell` is called
    with the signal when it counts.

    With `note_abort` an abort is a flag and ends nothing: `aborted` is true from then on, and the
    waits that are under way in `breaking` are broken off. `note_abort` is called once.
    """

    def __init__(self, loop: VirtualLoop, tell: Callable[[Signal], None] = lambda _: None) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any]
        self._tell = tell
        self.note_abort: Callable[[], None] | None = None
        self.pending: Signal | None = None
        self.closed = True
        self._aborted = False
        self._due_ns = NEVER_NS

    def open(self, task: asyncio.Task[Any], wall_clock_ms: int | None) -> None:
        """Begin a run in `task`: nothing is pending, and only its wall clock is planned."""
        self._wall_clock_ns = NEVER_NS
        if wall_clock_ms is not None:
            self._wall_clock_ns = self._loop.now_ns + wall_clock_ms * NS_PER_MS
        self.reopen(task)

    def reopen(self, task: asyncio.Task[Any] | None = None) -> None:
        """Let the run be ended again: its machine goes on after an end."""
        self._task = task or self._task
        self._outside = self._task.cancelling()
        self._cancels = 0
        self.closed = False
        self._planned: list[tuple[int, Signal]] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._due_ns = NEVER_NS
        self._found_by_asking = False
        self._breakable: list[Timeout] = []
        self._aborted = False
        self.polls = False
        self.pending = None
        if self._wall_clock_ns < NEVER_NS:
            self.plan(self._wall_clock_ns, WallClockExpired())

    @property
    def aborted(self) -> bool:
        """Return whether the user has aborted the run, where an abort is a flag."""
        if not self._aborted and self.note_abort is not None:
            self._find_due()
        return self._aborted

    def plan(self, when_ns: int, signal: Signal) -> None:
        self._planned.append((when_ns, signal))
        self._due_ns = min(self._due_ns, when_ns)
        self._timers.append(self._loop.call_at_ns(when_ns, self.end_run, signal))

    def end_run(self, signal: Signal) -> None:
        """End the run with `signal`; do nothing if an end is pending or the run is over."""
        # An abort that waits for a check cancels nothing, so a later end takes its place. Otherwise
        # a wait that hangs after such an abort would outlast the wall clock.
        if (self.pending is not None and not self._found_by_asking) or self.closed:
            return
        if self.note_abort is not None and type(signal) is AbortRequested:
            if not self._aborted:
                self._aborted = True
                self._tell(signal)
                self.note_abort()
                for timeout in tuple(self._breakable):
                    timeout.break_off()
            return
        self._found_by_asking = self.polls and type(signal) is AbortRequested
        self.pending = signal
        self._tell(signal)
        if self._found_by_asking:
            return
        if asyncio.current_task(self._loop) is self._task or is_blocking(self._task):
            # The run is not waiting, it is calling us. It checks before it starts anything more;
            # this is for the case that what called us waits for something first.
            self._loop.call_soon(self._cancel)
        else:
            self._cancel()

    def _cancel(self) -> None:
        # asyncio cancels once, and user code that swallows that would wait on. Cancelling at every
        # wait was rejected: it breaks off clean-up that waits. So user code has a time of grace.
        if self.pending is not None and self._cancels < MOST_CANCELS:
            self._task.cancel()
            self._cancels += 1
            self._timers.append(self._loop.call_at_ns(self._loop.now_ns + GRACE_NS, self._cancel))

    @contextmanager
    def breaking(self, timeout: Timeout) -> Iterator[None]:
        """Break off `timeout` if the user aborts the run in the `with` block or before it."""
        self._breakable.append(timeout)
        try:
            if self.aborted:
                timeout.break_off()
            yield
        finally:
            self._breakable.remove(timeout)

    def check(self) -> None:
        """Raise CancelledError if the run is to end; call this before anything new is started."""
        if self.is_due:
            raise asyncio.CancelledError

    @property
    def is_due(self) -> bool:
        if self._loop.now_ns >= self._due_ns:
            self._find_due()
        return self.pending is not None

    def _find_due(self) -> None:
        """End the run as planned if it is time: time may have passed without any waiting."""
        while self._loop.now_ns >= self._due_ns and self.pending is None:
            due = min(self._planned, key=lambda plan: plan[0])
            self._planned.remove(due)
            self._due_ns = min((when_ns for when_ns, _ in self._planned), default=NEVER_NS)
            self.end_run(due[1])

    def take(self) -> Signal:
        """Return the signal that ends the run. Raises CancelledError if others cancel its task."""
        assert self.pending is not None
        signal = self.pending
        self.close()
        for _ in range(self._cancels):
            self._task.uncancel()
        # More than were there when the run began: somebody outside cancels the task, too.
        if self._task.cancelling() > self._outside:
            raise asyncio.CancelledError
        return signal

    def close(self) -> None:
        """Let nothing interrupt the task any more: the run is over, its task may go on."""
        self.pending, self.closed = None, True
        for timer in self._timers:
            timer.cancel()

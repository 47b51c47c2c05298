"""The user as an agent sees it: messages sent during a run, and the request to stop.

A message is given out exactly once, in the order in which it was sent. Messages planned for a time
are recorded when they are looked for, because time may also pass in a tool that waits for nothing.
"""

import asyncio
from collections import deque
from functools import partial
from itertools import count
from typing import Any

from simloop.errors import RunawayRun
from simloop.escape import writable
from simloop.kernel.signals import AbortRequested, Signal, WallClockExpired
from simloop.messages import Queue, StopCause
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.loop import VirtualLoop
from simloop.world.cancellation import Cancellation

_CAUSES: dict[type, StopCause] = {
    AbortRequested: StopCause.ABORT,
    WallClockExpired: StopCause.WALL_CLOCK,
}
# Every conversation asks, and iterating over the enum itself takes ten times as long.
_QUEUES = tuple(Queue)
_MOST_REFUSED = 100  # turns, more than clean-up takes
_GOES_ON = f"the run is to end, and the agent goes on after {_MOST_REFUSED} cancellations"
_ADVICE = "let CancelledError pass: `except Exception` does, `except BaseException` does not"


async def no_turn() -> None:
    """Do nothing: the turn of a port that is in no world."""


class UserPort:
    """The two queues of one conversation, and the cancellation of its runs."""

    def __init__(self, recorder: Recorder, loop: VirtualLoop) -> None:
        self._recorder = recorder
        self._loop = loop
        self._planned: deque[tuple[int, Queue, str]] = deque()
        # Where both queues are asked for, the order is that of sending: so each message has an
        # ordinal, and the older of the two first messages is the next.
        self._ordinals = count()
        self._waiting: dict[Queue, deque[tuple[int, str]]] = {queue: deque() for queue in _QUEUES}
        self._count = 0  # of the messages in both
        self._refused = 0  # turns after an error of simloop or the stop of a run
        self.cancellation = Cancellation(loop, partial(_record_stop, recorder))

    # ------------------------------------------------------------------ for the agent

    @property
    def stopped(self) -> bool:
        """Return whether the user, or the wall clock, has asked the run to stop."""
        return self.cancellation.stopped

    async def turn(self) -> None:
        """Give tasks that are ready their turn. Raises CancelledError if the run is to end.

        An error of simloop ends it too: code that has swallowed one must not go on. Code that
        swallows each CancelledError as well waits here, so that the event loop can end the run.
        """
        if self._loop.busy:
            await asyncio.sleep(0)
        if self._recorder.error is not None:
            await self._refuse()
        if not self.cancellation.closed and self.cancellation.is_due:
            await self._refuse()

    async def _refuse(self) -> None:
        self._refused += 1
        if self._refused > _MOST_REFUSED:
            self._recorder.keep(RunawayRun(_GOES_ON, hint=_ADVICE))
            await asyncio.get_running_loop().create_future()
        raise asyncio.CancelledError

    def has(self, queue: Queue | None = None) -> bool:
        """Return whether a message waits in `queue`, or in any."""
        if self._planned:
            self._send_due()
        if not self._count:
            return False
        return queue is None or bool(self._waiting[queue])

    def take(self, queue: Queue | None = None, *, one: bool = False) -> list[str]:
        """Return the waiting messages of `queue`, or of both; the first of them, or all."""
        if not self.has(queue):
            return []
        asked = _QUEUES if queue is None else (queue,)
        queues = [self._waiting[each] for each in asked if self._waiting[each]]
        if one:
            taken = [min(queues).popleft()]
        else:
            taken = sorted(message for each in queues for message in each)
            for each in queues:
                each.clear()
        self._count -= len(taken)
        return [text for _, text in taken]

    # ------------------------------------------------------------------ for the user

    def plan(self, planned: list[tuple[int, Queue, str]]) -> None:
        """Plan messages at these times, in virtual nanoseconds."""
        self._planned = deque(sorted(planned, key=lambda each: each[0]))

    def send(self, text: str, queue: Queue = Queue.STEERING) -> None:
        """Send a message now."""
        if self._planned:
            self._send_due()
        self._add(text, queue)

    def stop(self) -> None:
        """Ask the run to stop, as its user does; without a run, do nothing."""
        self.cancellation.end_run(AbortRequested())

    def begin(self, task: asyncio.Task[Any], wall_clock_ms: int | None) -> None:
        """Begin a run in `task`, which may last for `wall_clock_ms`."""
        self._refused = 0
        self.cancellation.open(task, wall_clock_ms)

    def _send_due(self) -> None:
        while self._planned and self._planned[0][0] <= self._loop.now_ns:
            _, queue, text = self._planned.popleft()
            self._add(text, queue)

    def _add(self, text: str, queue: Queue) -> None:
        text = writable(text)
        self._waiting[queue].append((next(self._ordinals), text))
        self._count += 1
        self._recorder.record(entries.Queued, text, queue)


# Not a method of the port: the port has the cancellation, and with a way back, each run would leave
# its world to the garbage collector.
def _record_stop(recorder: Recorder, signal: Signal) -> None:
    cause = _CAUSES.get(type(signal))
    if cause is not None:  # a hook that ends its run is not the user
        recorder.record(entries.StopRequested, cause)

"""The messages that the user says while a run goes on, until the loop takes them.

The rules to keep: a message is given out exactly once, and in the order in which it was said;
and a message costs the same however many others wait. Due messages are
checked on access; there is no timer, because time may also pass in a tool that waits for nothing.
"""

from collections import deque
from itertools import count

from simloop.kernel.effects import Queue, TakeQueued
from simloop.trace.recorder import Clock


class Queued:
    """The two queues of one conversation; they outlive a run."""

    __slots__ = ("_clock", "_ordinals", "_planned", "_waiting")

    def __init__(self) -> None:
        self._clock: Clock | None = None
        self._planned: deque[tuple[int, Queue, str]] = deque()
        # Where both queues are asked for, the order is that of saying: so each message has an
        # ordinal, and the older of the two first messages is the next.
        self._ordinals = count()
        self._waiting: dict[Queue, deque[tuple[int, str]]] = {queue: deque() for queue in Queue}

    def __bool__(self) -> bool:
        if self._planned:
            self._say_what_is_due()
        return any(self._waiting.values())

    def plan(self, clock: Clock, planned: list[tuple[int, Queue, str]]) -> None:
        """Plan messages of the user at these times, in virtual nanoseconds."""
        self._clock, self._planned = clock, deque(sorted(planned, key=lambda one: one[0]))

    def _say_what_is_due(self) -> None:
        assert self._clock is not None
        while self._planned and self._planned[0][0] <= self._clock.now_ns:
            _, queue, text = self._planned.popleft()
            self._add(text, queue)

    def put(self, text: str, queue: Queue) -> None:
        """Add a message of the user now."""
        if self._planned:
            self._say_what_is_due()
        self._add(text, queue)

    def _add(self, text: str, queue: Queue) -> None:
        self._waiting[queue].append((next(self._ordinals), text))

    def has(self, queue: Queue) -> bool:
        """Return whether a message waits there."""
        return bool(self) and bool(self._waiting[queue])

    def take(self, effect: TakeQueued) -> list[str]:
        """Return the messages that the loop asks for: of one queue or both, the first or all."""
        if not self:
            return []
        asked = Queue if effect.queue is None else (effect.queue,)
        queues = [self._waiting[queue] for queue in asked if self._waiting[queue]]
        if effect.one:
            return [min(queues).popleft()[1]] if queues else []
        taken = sorted(message for queue in queues for message in queue)
        for queue in queues:
            queue.clear()
        return [text for _, text in taken]

    def take_first(self) -> str | None:
        """Return the first message that waits, or None; for a loop that takes none mid-run."""
        return next(iter(self.take(TakeQueued(one=True))), None)

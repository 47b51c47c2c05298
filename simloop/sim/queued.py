"""What the user says while a run goes on, until the loop takes it.

The rule to keep: a message is given out exactly once, and in the order in which it was said (I16).
So what is to be said at a time is looked for wherever somebody looks, and needs no timer: time may
also pass in a tool that waits for nothing.
"""

from simloop.kernel.effects import Queue, TakeQueued
from simloop.trace.recorder import Clock


class Queued:
    """The two queues of one conversation; they outlive a run."""

    __slots__ = ("_clock", "_planned", "_waiting")

    def __init__(self) -> None:
        self._clock: Clock | None = None
        self._planned: list[tuple[int, Queue, str]] = []
        # One list, not one for each queue: where both are asked for, the order is that of saying.
        self._waiting: list[tuple[Queue, str]] = []

    def __bool__(self) -> bool:
        if self._planned:
            self._say_what_is_due()
        return bool(self._waiting)

    def plan(self, clock: Clock, planned: list[tuple[int, Queue, str]]) -> None:
        """Have the user say more at these times, in virtual nanoseconds."""
        self._clock, self._planned = clock, sorted(planned, key=lambda one: one[0])

    def _say_what_is_due(self) -> None:
        assert self._clock is not None
        while self._planned and self._planned[0][0] <= self._clock.now_ns:
            _, queue, text = self._planned.pop(0)
            self._waiting.append((queue, text))

    def put(self, text: str, queue: Queue) -> None:
        """Have the user say more now."""
        if self._planned:
            self._say_what_is_due()
        self._waiting.append((queue, text))

    def has(self, queue: Queue) -> bool:
        """Whether something waits there."""
        return bool(self) and any(waiting is queue for waiting, _ in self._waiting)

    def take(self, effect: TakeQueued) -> list[str]:
        """What the loop asks for."""
        if not self:
            return []
        asked = [one for one in self._waiting if effect.queue in (None, one[0])]
        taken = asked[:1] if effect.one else asked
        for one in taken:
            self._waiting.remove(one)
        return [text for _, text in taken]

    def take_first(self) -> str | None:
        """The first message that waits, or None: for a loop that takes none while it runs."""
        return next(iter(self.take(TakeQueued(one=True))), None)

"""What the user says while a run goes on, until the loop takes it.

The rule to keep: a message is given out exactly once, and in the order in which it was said (I16).
"""

from simloop.kernel.effects import Queue, TakeQueued


class Queued:
    """The two queues of one conversation; they outlive a run."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        # One list, not one for each queue: where both are asked for, the order is that of saying.
        self._waiting: list[tuple[Queue, str]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, text: str, queue: Queue) -> None:
        """Have the user say more."""
        self._waiting.append((queue, text))

    def has(self, queue: Queue) -> bool:
        """Whether something waits there."""
        return any(waiting is queue for waiting, _ in self._waiting)

    def take(self, effect: TakeQueued) -> list[str]:
        """What the loop asks for."""
        asked = [one for one in self._waiting if effect.queue in (None, one[0])]
        taken = asked[:1] if effect.one else asked
        for one in taken:
            self._waiting.remove(one)
        return [text for _, text in taken]

    def take_first(self) -> str | None:
        """The first message that waits, or None: for a loop that takes none while it runs."""
        return next(iter(self.take(TakeQueued(one=True))), None)

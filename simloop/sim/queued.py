"""What the user says while a run goes on, until the loop takes it.

The rule to keep: a message is given out exactly once, and in the order in which it was said (I16).
"""

from simloop.kernel.effects import Queue, TakeQueued


class Queued:
    """The two queues of one conversation; they outlive a run."""

    __slots__ = ("follow_up", "steering")

    def __init__(self) -> None:
        # Not a mapping by Queue: both are looked at in every step, and hashing an enum is slow.
        self.steering: list[str] = []
        self.follow_up: list[str] = []

    def put(self, text: str, queue: Queue) -> None:
        """Have the user say more."""
        (self.steering if queue is Queue.STEERING else self.follow_up).append(text)

    def take(self, effect: TakeQueued) -> list[str]:
        """What the loop asks for."""
        taken: list[str] = []
        for queue, texts in ((Queue.STEERING, self.steering), (Queue.FOLLOW_UP, self.follow_up)):
            if effect.queue is None or effect.queue is queue:
                count = 1 if effect.one else len(texts)
                taken += texts[:count]
                del texts[:count]
        return taken

    def take_first(self) -> str | None:
        """The first message that waits, or None: for a loop that takes none while it runs."""
        texts = self.steering or self.follow_up
        return texts.pop(0) if texts else None

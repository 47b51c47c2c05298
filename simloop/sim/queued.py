"""What the user says while a run goes on, until the loop takes it.

The rule to keep: a message is given out exactly once, and in the order in which it was said (I16).
"""

from simloop.kernel.effects import Queue, TakeQueued


class Queued:
    """The two queues of one conversation; they outlive a run."""

    def __init__(self) -> None:
        self._waiting: dict[Queue, list[str]] = {queue: [] for queue in Queue}

    def put(self, text: str, queue: Queue) -> None:
        """Have the user say more."""
        self._waiting[queue].append(text)

    def has(self, queue: Queue) -> bool:
        """Whether something waits there."""
        return bool(self._waiting[queue])

    def take(self, effect: TakeQueued) -> list[str]:
        """What the loop asks for."""
        taken: list[str] = []
        for queue, texts in self._waiting.items():
            if effect.queue in (None, queue):
                count = 1 if effect.one else len(texts)
                taken += texts[:count]
                del texts[:count]
        return taken

    def take_first(self) -> str | None:
        """The first message that waits, or None: for a loop that takes none while it runs."""
        texts = next((texts for texts in self._waiting.values() if texts), None)
        return texts.pop(0) if texts else None

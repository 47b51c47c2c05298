"""The conversation as its owner sees it, beside the history that requests carry.

Not here: sending it (handlers.py) and shortening it (compaction.py). The rule to keep: where a loop
sends back all that was said, the transcript is the history, and nothing is kept twice.
"""

from simloop.engine.context import History
from simloop.engine.model_calls import ReplySoFar
from simloop.messages import AssistantMessage, Message


class Transcript:
    """The messages of one conversation.

    With `is_own` it has failed replies, which no request carries, and lacks the results that only
    complete a request, as in pi-agent-core.
    """

    def __init__(self, history: History, *, is_own: bool) -> None:
        self._history = history
        self._own: list[Message] | None = list(history.messages) if is_own else None

    @property
    def messages(self) -> list[Message]:
        """Return the messages so far."""
        return self._history.messages if self._own is None else self._own

    def add(self, message: Message, *, made_up: bool = False) -> None:
        """Add a message that later requests carry. A `made_up` one is for the requests alone."""
        self._history.append(message)
        if self._own is not None and not made_up:
            self._own.append(message)

    def add_failed(self, reply: ReplySoFar, failed: str) -> None:
        """Add a reply that no request carries, with its half calls. `failed`: error or aborted.

        Without a list of its own the transcript has no such replies.
        """
        if self._own is not None:
            calls = (*reply.calls, *reply.half_calls())
            self._own.append(AssistantMessage(reply.text, calls, reply.reasoning, failed))

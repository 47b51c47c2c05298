"""The conversation as the model sees it, and as its owner does.

Adding a message costs the same however long the history is. So it is append-only, a request shares
it by a view, and compaction starts a new list instead of changing the one that older views look at.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Any

from simloop.kernel.policies import TokenEstimator, message_tokens
from simloop.messages import AssistantMessage, Message
from simloop.trace.requests import View


class History:
    """The messages of a conversation; `tokens` is their estimated size."""

    def __init__(self, messages: Iterable[Message], estimate: TokenEstimator) -> None:
        self.estimate = estimate
        self.replace(messages)

    def replace(self, messages: Iterable[Message]) -> None:
        """Replace all messages with `messages`, as compaction does."""
        self.messages: list[Message] = []
        self.tokens = 0
        self.extend(messages)

    def append(self, message: Message) -> None:
        """Add one message at the end."""
        self.extend((message,))

    def extend(self, messages: Iterable[Message]) -> None:
        """Add messages at the end."""
        append, estimate = self.messages.append, self.estimate
        for message in messages:
            append(message)
            self.tokens += message_tokens(message, estimate)

    def view(self, *tail: Message) -> Sequence[Message]:
        """Return a snapshot, with `tail` at its end, that later changes do not affect."""
        whole: Any = View(self.messages, len(self.messages), tail)  # a registered Sequence
        return whole  # type: ignore[no-any-return]


class Transcript:
    """The messages of one conversation, beside the history that requests carry.

    With `is_own` it has failed replies, which no request carries, and lacks the results that only
    complete a request, as in pi-agent-core. Else it is the history, and nothing is kept twice.
    """

    def __init__(self, history: History, *, is_own: bool) -> None:
        self._history = history
        self._own: list[Message] | None = list(history.messages) if is_own else None

    @property
    def messages(self) -> list[Message]:
        """Return the messages so far."""
        return self._history.messages if self._own is None else self._own

    def add(self, messages: Iterable[Message], made_up: Container[Message] = ()) -> None:
        """Add messages that later requests carry. Those `made_up` are for the requests alone."""
        self._history.extend(messages)
        if self._own is not None:
            self._own += [message for message in messages if message not in made_up]

    def add_failed(self, reply: AssistantMessage) -> None:
        """Add a reply that no request carries, if the transcript is a list of its own."""
        if self._own is not None:
            self._own.append(reply)

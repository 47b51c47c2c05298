"""The conversation as the model sees it, with its size kept up to date.

Not here: when and how it is shortened (compaction.py). The rule to keep: adding a message costs
the same however long the history is. So it is append-only, a request shares it by a view, and
compaction starts a new list instead of changing the one that older views look at.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from simloop.kernel.tokens import TokenEstimator, message_tokens
from simloop.messages import Message
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
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> None:
        """Add one message at the end."""
        self.messages.append(message)
        self.tokens += message_tokens(message, self.estimate)

    def view(self, *tail: Message) -> Sequence[Message]:
        """Return a snapshot, with `tail` at its end, that later changes do not affect."""
        whole: Any = View(self.messages, len(self.messages), tail)  # a registered Sequence
        return whole  # type: ignore[no-any-return]

"""The conversation as the model sees it, with its size kept up to date.

Not here: when and how it is shortened (compaction.py). The rule to keep: adding a message costs
the same however long the history is. So it is append-only, a request shares it by a view, and
compaction starts a new list instead of changing the one that older views look at.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from simloop.messages import AssistantMessage, Message
from simloop.trace.requests import View

TokenEstimator = Callable[[str], int]


def utf8_bytes_over_4(text: str) -> int:
    """Return the default token estimate: a quarter of the UTF-8 bytes, rounded up.

    Deterministic and of integers. English comes out about right, Chinese at three quarters of a
    token a character, where characters over 4 would give a quarter.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) >> 2


def message_tokens(message: Message, estimate: TokenEstimator) -> int:
    """Return the estimate for one message: text, reasoning, calls, and 4 for its frame."""
    tokens = 4 + estimate(message.text)
    if type(message) is AssistantMessage:
        tokens += estimate(message.reasoning) if message.reasoning else 0
        for call in message.calls:
            tokens += estimate(call.name) + estimate(call.arguments)
    return tokens


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

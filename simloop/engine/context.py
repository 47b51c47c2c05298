"""The conversation as the model sees it, with its size and its digest kept up to date.

Not here: when and how it is shortened (compaction.py). The rule to keep: adding a message costs
the same however long the history is. So it is append-only, a request shares it by a view, and
compaction starts a new list instead of changing the one that older views look at.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import overload

import msgspec

from simloop.messages import AssistantMessage, Message

TokenEstimator = Callable[[str], int]

_ENCODER = msgspec.json.Encoder()
_START = b""


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
    if isinstance(message, AssistantMessage):
        tokens += estimate(message.reasoning) if message.reasoning else 0
        for call in message.calls:
            tokens += estimate(call.name) + estimate(call.arguments)
    return tokens


class View(Sequence[Message]):
    """The first `length` messages of a list that only grows: a snapshot without a copy."""

    __slots__ = ("_length", "_messages")

    def __init__(self, messages: list[Message], length: int) -> None:
        self._messages = messages
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return self._messages[: self._length][index]
        if not -self._length <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._messages[index if index >= 0 else self._length + index]


class History:
    """The messages of a run. `tokens` is their estimated size, `digest` a chained BLAKE2b."""

    def __init__(self, messages: Iterable[Message], estimate: TokenEstimator) -> None:
        self.estimate = estimate
        self._sent: list[Message] = []
        self._sent_count = 0
        self.replace(messages)

    def replace(self, messages: Iterable[Message]) -> None:
        """Replace all messages with `messages`, as compaction does."""
        self.messages: list[Message] = []
        self.tokens = 0
        self._chain = _START
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> None:
        """Add one message at the end."""
        self.messages.append(message)
        self.tokens += message_tokens(message, self.estimate)
        self._chain = hashlib.blake2b(
            self._chain + _ENCODER.encode(message), digest_size=16
        ).digest()

    @property
    def digest(self) -> str:
        """Return the digest of all messages; equal histories have equal digests."""
        return self._chain.hex()

    def view(self) -> View:
        """Return a snapshot of the messages that later changes do not affect."""
        return View(self.messages, len(self.messages))

    def since_last_sent(self) -> tuple[int, tuple[Message, ...]]:
        """Return how many messages the last request had, and the later ones; mark them sent."""
        kept = self._sent_count if self._sent is self.messages else self._common_start()
        self._sent, self._sent_count = self.messages, len(self.messages)
        return kept, tuple(self.messages[kept:])

    def _common_start(self) -> int:
        sent = self._sent[: self._sent_count]
        pairs = zip(sent, self.messages, strict=False)
        return next(
            (i for i, (a, b) in enumerate(pairs) if a is not b), min(len(sent), len(self.messages))
        )

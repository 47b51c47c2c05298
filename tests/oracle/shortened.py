"""A context that compactions have shortened, and the sizes and differences of messages.

Sizes are computed here again, so that an error of the engine's estimate is found.
"""

from collections.abc import Sequence
from typing import Any

from simloop.messages import AssistantMessage, Message, ToolMessage, UserMessage
from simloop.trace import entries
from simloop.trace.facts import ReceivedReply


class Shortened:
    """A context before and after the compactions between two requests.

    `before` and `after` are the messages of the two contexts, and `tokens` is the size of `after`.
    `compactions` are the entries. `removed` is the number of removed messages, and `summary` has
    the messages and the reply of the summary request that was used, both as the entries state.
    """

    __slots__ = ("after", "before", "compactions", "removed", "summary", "tokens")

    def __init__(self, before: Sequence[Message]) -> None:
        self.before = before
        self.after: Sequence[Message] = ()
        self.compactions: list[entries.Compaction] = []
        self.removed = self.tokens = 0
        self.summary: tuple[Sequence[Message], ReceivedReply] | None = None


def may_shrink(messages: Sequence[Message], keep_turns: int) -> bool:
    """Return whether a normal compaction may remove a message that is worth removing.

    A compaction keeps the newest turns and the newest user message, and it gains nothing if it
    removes only a summary.
    """
    start, turns = len(messages), 0
    while start and turns < keep_turns:
        start -= 1
        turns += type(messages[start]) is not ToolMessage
    users = 0
    for place in range(start):
        kind = type(messages[place])
        if kind is AssistantMessage or kind is ToolMessage:
            return True
        users += kind is UserMessage
    newer = any(type(m) is UserMessage for m in messages[start:])
    return users > (0 if newer else 1)


def tokens_of(message: Message) -> int:
    """Return the size of a message: a quarter of the bytes of each text, and 4 for its frame."""
    text = message.text
    if type(message) is not AssistantMessage:
        return 4 + ((len(text) + 3) >> 2 if text.isascii() else _quarter(text))
    tokens = 4 + _quarter(text) + _quarter(message.reasoning)
    for call in message.calls:
        tokens += _quarter(call.name) + _quarter(call.arguments)
    return tokens


def _quarter(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + 3) >> 2


def difference(expected: Sequence[Message], sent: Sequence[Message], tail: Any) -> str:
    """Return the first message in which a request differs from the ledger, in words."""
    wanted = [*expected, *tail]
    for place, (one, other) in enumerate(zip(wanted, sent, strict=False)):
        if one != other:
            return f"message {place} is {_short(other)}, and must be {_short(one)}"
    if len(sent) > len(wanted):
        return f"message {len(wanted)} is {_short(sent[len(wanted)])}, and must not be there"
    return f"message {len(sent)} is missing: {_short(wanted[len(sent)])}"


def _short(message: Message) -> str:
    role = type(message).__name__.removesuffix("Message").lower()
    calls = f" with {len(message.calls)} calls" if isinstance(message, AssistantMessage) else ""
    return f"{role}{calls} {message.text[:40]!r}"

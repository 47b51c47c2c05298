"""The estimate of the size of a message in tokens."""

from collections.abc import Callable

from simloop.messages import AssistantMessage, Message

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

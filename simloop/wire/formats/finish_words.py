"""The words with which each format says that a reply ends.

Scripts say a finish reason in simloop's words or in any provider's. Not here: reading a provider's
word (FinishReason.read). The rule to keep: a word of the format itself, or one that nobody knows,
goes out as it is; any other goes out as the format's word for the same reason.
"""

from collections.abc import Mapping
from typing import NamedTuple

from simloop.messages import Finish, FinishReason

REFUSAL = "refusal"
"""The finish of a model that refuses: the text of the reply says why."""


class FinishWords(NamedTuple):
    """The words of a format: one for each reason that it can say, and all that it knows."""

    by_reason: Mapping[FinishReason, str]
    known: frozenset[str]


CHAT_WORDS = FinishWords(
    {
        FinishReason.STOP: "stop",
        FinishReason.TOOL_CALLS: "tool_calls",
        FinishReason.LENGTH: "length",
        FinishReason.CONTENT_FILTER: "content_filter",
        FinishReason.ERROR: "error",  # OpenRouter's
    },
    frozenset({"stop", "tool_calls", "function_call", "length", "content_filter", "error"}),
)
ANTHROPIC_WORDS = FinishWords(
    {
        FinishReason.STOP: "end_turn",
        FinishReason.TOOL_CALLS: "tool_use",
        FinishReason.LENGTH: "max_tokens",
        FinishReason.CONTENT_FILTER: REFUSAL,
    },
    frozenset({
        "end_turn", "stop_sequence", "max_tokens", "tool_use", "pause_turn", "refusal",
        "compaction", "model_context_window_exceeded",
    }),
)  # fmt: skip


def wire_word(finish: Finish, words: FinishWords) -> str:
    """Return the format's word for a finish."""
    word = finish.raw.lower().replace("-", "_")
    if word in words.known:
        return word
    return words.by_reason.get(finish.reason) or finish.raw or finish.reason.value

"""The wire formats that simloop speaks.

Not here: the formats themselves. The rule to keep: the ends of their paths exclude each other.
"""

from simloop.adapters.dialects.anthropic_messages import AnthropicMessages
from simloop.adapters.dialects.dialect import Dialect
from simloop.adapters.dialects.openai_chat import OpenAIChat
from simloop.adapters.dialects.openai_responses import OpenAIResponses
from simloop.world.wire_options import WireOptions


def dialects(options: WireOptions | None = None) -> tuple[Dialect, ...]:
    """Return all formats."""
    chosen = options or WireOptions()
    return OpenAIChat(chosen), OpenAIResponses(chosen), AnthropicMessages(chosen)

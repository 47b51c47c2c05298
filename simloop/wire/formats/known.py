"""The wire formats that simloop speaks.

Not here: the formats themselves. The rule to keep: the ends of their paths exclude each other.
"""

from simloop.wire.formats.anthropic_messages import AnthropicMessages
from simloop.wire.formats.openai_chat import OpenAIChat
from simloop.wire.formats.openai_responses import OpenAIResponses
from simloop.wire.formats.wire_format import WireFormat
from simloop.world.wire_options import WireOptions


def wire_formats(options: WireOptions | None = None) -> tuple[WireFormat, ...]:
    """Return all formats."""
    chosen = options or WireOptions()
    return OpenAIChat(chosen), OpenAIResponses(chosen), AnthropicMessages(chosen)

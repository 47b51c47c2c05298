"""The wire formats that simloop speaks."""

from simloop.wire.formats.anthropic_messages import AnthropicMessages
from simloop.wire.formats.openai_chat import OpenAIChat
from simloop.wire.formats.openai_responses import OpenAIResponses
from simloop.wire.formats.wire_format import MakeFormat, WireFormat
from simloop.world.wire_options import WireOptions

# The requests that they answer exclude each other.
FORMATS: tuple[MakeFormat, ...] = (OpenAIChat, OpenAIResponses, AnthropicMessages)


def wire_formats(options: WireOptions | None = None) -> list[WireFormat]:
    """Return all formats, as the provider writes them."""
    return [make(options or WireOptions()) for make in FORMATS]

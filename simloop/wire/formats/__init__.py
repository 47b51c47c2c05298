"""The wire formats that simloop speaks: one file each, and its name here."""

from simloop.wire.formats.anthropic_messages import AnthropicMessages
from simloop.wire.formats.bedrock import Bedrock
from simloop.wire.formats.gemini import Gemini
from simloop.wire.formats.openai_chat import OpenAIChat
from simloop.wire.formats.openai_responses import OpenAIResponses
from simloop.wire.formats.replies import WireFormat

# The requests that they answer exclude each other.
FORMATS: tuple[type[WireFormat], ...] = (
    OpenAIChat, OpenAIResponses, AnthropicMessages, Gemini, Bedrock,
)  # fmt: skip

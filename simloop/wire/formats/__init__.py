"""The wire formats that simloop speaks: one file each, and its name here."""

from simloop.wire.formats.anthropic_messages import AnthropicMessages
from simloop.wire.formats.bedrock import Bedrock
from simloop.wire.formats.gemini import Gemini
from simloop.wire.formats.openai_chat import OpenAIChat
from simloop.wire.formats.openai_responses import OpenAIResponses
from simloop.wire.formats.wire_format import MakeFormat

# The requests that they answer exclude each other.
FORMATS: tuple[MakeFormat, ...] = (OpenAIChat, OpenAIResponses, AnthropicMessages, Gemini, Bedrock)

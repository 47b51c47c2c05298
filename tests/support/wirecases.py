"""Cases for the tests of the wire formats: calls, ends of replies, and requests of one format."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simloop.messages import Finish, FinishReason, Message, ToolCall

Json = dict[str, Any]
CALL, OTHER = ToolCall("call-1", "look", '{"at":1}'), ToolCall("call-2", "look", '{"at":2}')
STOP, CALLS = Finish(FinishReason.STOP, "stop"), Finish(FinishReason.TOOL_CALLS, "tool-calls")
USER = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"at": {"type": "integer"}}}
CANONICAL = b'{"properties":{"at":{"type":"integer"}},"type":"object"}'
"""The schema above as it is read."""
ANYTHING = b'{"type":"object"}'
"""The schema of a tool that states none."""


class RequestCases(NamedTuple):
    """What the bodies of requests in one format are read as, and which bodies are refused."""

    read: Mapping[str, tuple[Json, str, list[Message]]]
    """A body, its system prompt and its messages."""
    tools: tuple[Json, list[tuple[str, str, bytes]]]
    """A body, and the name, the description and the schema of each of its tools."""
    streams: Sequence[tuple[Json, bool, bool]]
    """A body, whether it asks for a stream, and whether it asks for the usage in it."""
    refused: Mapping[str, tuple[Json, str, str]]
    """A body, the key at fault, and a part of the provider's words."""

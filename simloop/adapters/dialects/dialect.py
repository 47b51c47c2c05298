"""The protocol of a wire format: reading a request, and writing the parts of its reply.

Not here: the formats. The rules to keep: a request is read into the same messages whatever its
format, so that expectations and snapshots do not depend on the SDK; and an encoder is fed the parts
of one reply, in order, and says for each what goes on the wire.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from simloop.messages import Fault, Message, Part, ToolSpec


class WireEvent(NamedTuple):
    """One server-sent event: its name, which may be empty, and its data."""

    name: str
    data: str


@dataclass(frozen=True, slots=True)
class WireRequest:
    """The contents of a request. `streams` is whether the reply is to come in events.

    `reports_usage` is whether a stream reports its token counts.
    """

    model: str
    system_prompt: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    streams: bool
    reports_usage: bool = True


class ErrorReply(NamedTuple):
    """A failed call as an HTTP reply."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Encoder(Protocol):
    """Writes the reply to one request."""

    def begin(self) -> Sequence[WireEvent]:
        """Return the events that come before the first part."""
        ...

    def feed(self, part: Part) -> Sequence[WireEvent]:
        """Return the events of the next part; a StreamError is an error inside the stream."""
        ...

    def whole(self) -> bytes:
        """Return the body of a reply that does not stream, after its last part."""
        ...


class Dialect(Protocol):
    """One wire format. `path` is the end of the paths that it answers."""

    name: str
    path: str

    def read(self, body: Mapping[str, Any]) -> WireRequest:
        """Return the contents of a request's body. Raises WrongRequest."""
        ...

    def encoder(self, request: WireRequest, number: int, created_s: int) -> Encoder:
        """Return the encoder of the reply to request `number`, at the Unix time `created_s`."""
        ...

    def error(self, fault: Fault, number: int) -> ErrorReply:
        """Return the HTTP reply that a failed call has in the place of any output."""
        ...


class WrongRequest(Exception):  # noqa: N818 - an error of the client's code, answered with status 400
    """A request that the provider would refuse: where in its body, and why."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key

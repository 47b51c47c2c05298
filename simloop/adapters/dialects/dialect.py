"""The protocol of a wire format: reading a request, and writing the parts of its reply.

Not here: the formats. The rules to keep: a request is read into the same messages whatever its
format, so that expectations and snapshots do not depend on the SDK; and an encoder is fed the parts
of one reply, in order, and says for each what goes on the wire.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from simloop.messages import Finish, Message, Part, StreamError, ToolSpec

Headers = tuple[tuple[str, str], ...]
"""Names, in lower case, and values."""


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
    headers: Headers
    body: bytes


class Encoder(Protocol):
    """Writes the reply to one request."""

    def begin(self, ahead: Finish | None = None) -> Sequence[WireEvent]:
        """Return the events that come with the headers, before the first part.

        `ahead` is the finish that the script has for this reply, if it is known: Anthropic's first
        event reports its usage, and OpenAI's formats send the text of a refusal as such.
        """
        ...

    def feed(self, part: Part) -> Sequence[WireEvent]:
        """Return the events of the next part; a StreamError is an error inside the stream."""
        ...

    def whole(self) -> bytes:
        """Return the body of a reply that does not stream, after its last part."""
        ...


class Dialect(Protocol):
    """One wire format. `path` is the end of the paths that it answers.

    Requests are counted from 1, and their ids are made of their `number`. `created_s` is the Unix
    time of the reply.
    """

    @property
    def name(self) -> str:
        """The name of the format."""
        ...

    @property
    def path(self) -> str:
        """The end of its paths."""
        ...

    def read(self, body: Mapping[str, Any]) -> WireRequest:
        """Return the contents of a request's body. Raises WrongRequest."""
        ...

    def encoder(self, request: WireRequest, number: int, created_s: int) -> Encoder:
        """Return the encoder of the reply to request `number`."""
        ...

    def headers(self, request: WireRequest, number: int, created_s: int) -> Headers:
        """Return the headers of a reply that has not failed."""
        ...

    def error(self, failure: StreamError, number: int, created_s: int) -> ErrorReply:
        """Return the HTTP reply that a failed call has in the place of any output."""
        ...

    def refuse(self, wrong: "WrongRequest", number: int, created_s: int) -> ErrorReply:
        """Return the HTTP reply to a request that cannot be read: its status is 400."""
        ...


class WrongRequest(Exception):  # noqa: N818 - an error of the client's code, answered with status 400
    """A request that the provider would refuse: where in its body, and why.

    `code` is the provider's code of the mistake, if it has one.
    """

    def __init__(self, key: str, message: str, code: str = "") -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key
        self.message = message
        self.code = code

"""The protocol of a wire format: it reads requests as messages, and writes parts as replies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from simloop.messages import Message, StreamError, StructuredOutput, ToolSpec
from simloop.world.http import Headers, HttpRequest
from simloop.world.wire_options import WireOptions

if TYPE_CHECKING:
    from simloop.wire.formats.replies import BlockEncoder
    from simloop.wire.formats.storage import Storage


class WireEvent(NamedTuple):
    """One server-sent event: its name, which may be empty, and its data."""

    name: str
    data: str


@dataclass(frozen=True, slots=True)
class WireRequest:
    """The contents of a request; `reports_usage`: a stream reports its token counts.

    `size_reply` is set if it asks for its size in tokens alone: the reply, with `%d` for them.
    """

    model: str
    system_prompt: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    streams: bool
    reports_usage: bool = True
    size_reply: str = ""
    output: StructuredOutput | None = None


class Stamp(NamedTuple):
    """The number of a request, counted from 1, and the Unix time of its reply."""

    number: int
    created_s: int


class ErrorReply(NamedTuple):
    """A failed call as an HTTP reply."""

    status: int
    headers: Headers
    body: bytes


class WireFormat(Protocol):
    """One wire format: one file, and its name in `FORMATS`. It gets whole requests."""

    name: ClassVar[str]
    hosts: ClassVar[str]
    """The hosts at which its SDKs look for models, as a regular expression."""
    sdk: ClassVar[str]
    """The package of the provider's SDK."""
    marks_failed_tools: ClassVar[bool]
    """Whether a request marks the results of tools that failed."""

    @property
    def endpoint(self) -> str:
        """The requests that it answers, in words, such as `POST /messages`."""

    def answers(self, request: HttpRequest) -> bool:
        """Return whether a request is one of this format, by its method and its URL."""

    def read(self, request: HttpRequest) -> WireRequest:
        """Return the contents of a request. Raises WrongRequest."""

    def framed(self, events: Sequence[WireEvent]) -> Sequence[bytes]:
        """Return the pieces of the next events of a reply."""

    def encoder(self, request: WireRequest, stamp: Stamp) -> "BlockEncoder":
        """Return the encoder of the reply to a request."""

    def headers(self, request: WireRequest, stamp: Stamp) -> Headers:
        """Return the headers of a reply that has not failed."""

    def error(self, failure: StreamError, stamp: Stamp) -> ErrorReply:
        """Return the HTTP reply that a failed call has in the place of any output."""

    def refuse(self, wrong: "WrongRequest", stamp: Stamp) -> ErrorReply:
        """Return the HTTP reply to a request that cannot be read."""


MakeFormat = Callable[[WireOptions, "Storage"], WireFormat]


class WrongRequest(Exception):  # noqa: N818 - an error of the client's code, answered with its status
    """A request that the provider would refuse: where in its body, and why.

    `code` is the provider's code of the mistake, if it has one. `is_limit` is true if a provider
    could take the request, and only the script cannot.
    """

    def __init__(
        self, key: str, message: str, code: str = "", *, status: int = 400, is_limit: bool = False
    ) -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key
        self.message = message
        self.code = code
        self.status = status
        self.is_limit = is_limit

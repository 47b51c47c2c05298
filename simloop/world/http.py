"""Requests and replies of HTTP as values, and the ways in which a connection fails.

Nothing in here depends on an HTTP client, so that each transport only converts.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

Headers = tuple[tuple[str, str], ...]
"""Names, in lower case, and values."""
Phase = Literal["connect", "read"]


class HttpRequest(Struct, frozen=True):
    """A request as a client sends it. The names of `headers` are lower case.

    The timeouts are seconds, or None for no limit. `sender` is the task that waits for the reply,
    where it is not the one that answers.
    """

    method: str
    url: str
    headers: Headers
    body: bytes
    connect_timeout_s: float | None = None
    read_timeout_s: float | None = None
    sender: asyncio.Task[Any] | None = None

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    @property
    def query(self) -> dict[str, str]:
        """Return the parameters of the query; of several with one name, the last."""
        return dict(parse_qsl(urlsplit(self.url).query, keep_blank_values=True))

    @property
    def text(self) -> str:
        """Return the body as text; bytes that are no UTF-8 are written as escapes."""
        return self.body.decode("utf-8", "backslashreplace")

    def json(self) -> Any:
        """Return the body, read as JSON. Raises ValueError for any other body."""
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class HttpBody:
    """The pieces of a reply, each at the virtual time at which it arrives: here, all at once.

    Iterating waits for the next piece; the synchronous form blocks its thread meanwhile. Either
    raises ConnectionLost or TimedOut.
    """

    data: bytes | None = None
    """The whole body, if it is there."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self.data:
            yield self.data

    def __iter__(self) -> Iterator[bytes]:
        return iter([self.data] if self.data else [])

    async def aclose(self) -> None: ...
    def close(self) -> None: ...


class HttpReply(NamedTuple):
    """The start of a reply, and its body."""

    status: int
    headers: Headers
    body: HttpBody


class Head(NamedTuple):
    """The status and the headers of a reply."""

    status: int
    headers: Headers


ReplySteps = Generator[Head | HttpReply | bytes | None]
"""The head of a reply, then its pieces, or all at once; None asks the caller to wait."""


class ReplyCourse:
    """The course of a reply: its steps, none of which waits, and the waits between them."""

    is_unreachable = False
    """No connection is made: the client counts its limit for connecting."""
    needs_closing = False
    """`aclose` has work to do after the last step, too."""

    def at_once(self) -> HttpReply | None:
        """Return the reply if all of it is there without a wait: then there are no steps."""
        return None

    def steps(self) -> ReplySteps:
        """Yield the head and the pieces. Raises ConnectionLost or TimedOut."""
        raise NotImplementedError

    async def wait(self) -> None:
        """Wait until another step may be there."""
        raise NotImplementedError

    def time_out(self, silence: str) -> None:
        """Hear that a limit of the client is over, in these words."""

    async def aclose(self) -> None: ...


class ConnectionLost(Exception):  # noqa: N818 - a failure of the simulated network, not of simloop
    """The connection broke; each transport raises the error of its client in its place."""

    phase: Phase = "read"


class ConnectionRefused(ConnectionLost):
    """No connection was made: the provider refused it."""

    phase = "connect"


class TimedOut(Exception):  # noqa: N818 - as ConnectionLost
    """A time limit of the client is over, in that phase."""

    def __init__(self, phase: Phase, seconds: float) -> None:
        super().__init__(f"no {phase} within {seconds:g} s")
        self.phase = phase

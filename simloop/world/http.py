"""Requests and replies of HTTP as values, and the ways in which a connection fails.

Nothing in here depends on an HTTP client, so that each transport only converts.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Headers = tuple[tuple[str, str], ...]
"""Names, in lower case, and values."""
Phase = Literal["connect", "read"]


@dataclass(frozen=True, slots=True)
class HttpRequest:
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


class HttpBody(Protocol):
    """The pieces of a reply, each at the virtual time at which it arrives.

    Iterating waits for the next piece; the synchronous form blocks its thread meanwhile. Either
    raises ConnectionLost or TimedOut.
    """

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None:
        """Give up the rest of the reply."""

    def __iter__(self) -> Iterator[bytes]: ...

    def close(self) -> None:
        """Give up the rest of the reply."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """The start of a reply, and its body."""

    status: int
    headers: Headers
    body: HttpBody


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

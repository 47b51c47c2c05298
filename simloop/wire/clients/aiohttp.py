"""The connections of aiohttp in a run: a transport of asyncio that the endpoint answers.

Everything above the transport is aiohttp's own code, so that its timeouts, its errors and its
reading of a body are the real ones.
"""

import asyncio
import dataclasses
import errno
import math
import sys
from collections.abc import Iterable
from typing import Any

from simloop.errors import SimloopError
from simloop.wire.endpoint import Endpoint
from simloop.wire.http import ConnectionLost, ConnectionRefused, HttpRequest, TimedOut
from simloop.wire.http1 import ServerSide


async def connected(endpoint: Endpoint, connector: Any, request: Any, limits: Any) -> Any:
    """Return a protocol of aiohttp whose connection `endpoint` answers.

    Raises CancelledError if the run is to end.
    """
    await endpoint.port.turn()
    protocol = connector._factory()  # noqa: SLF001 - so do aiohttp's connectors
    transport = WireTransport(endpoint, protocol, request, _connect_limit_s(limits))
    protocol.connection_made(transport)
    return protocol


def _connect_limit_s(limits: Any) -> float | None:
    """Return the seconds that a connection may take, by the shorter limit of a ClientTimeout."""
    limit_s = min((each for each in (limits.connect, limits.sock_connect) if each), default=None)
    if limit_s is None or limit_s <= limits.ceil_threshold:
        return limit_s
    now_s = asyncio.get_running_loop().time()
    whole_s: int = math.ceil(now_s + limit_s)  # as aiohttp does, so that timers coincide
    return whole_s - now_s


class WireTransport(asyncio.Transport):
    """A connection to the endpoint, for one request."""

    def __init__(
        self, endpoint: Endpoint, protocol: Any, asked: Any, connect_timeout_s: float | None
    ) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._protocol = protocol
        self._asked = asked
        self._connect_timeout_s = connect_timeout_s
        self._sender = asyncio.current_task()
        self._side = ServerSide(str(asked.url.origin()))
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take a piece of the request, and answer it when it is complete."""
        request = self._side.feed(bytes(data)) if self._task is None else None
        if request is not None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._answer(request))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Take pieces of the request."""
        self.write(b"".join(list_of_data))

    async def _answer(self, request: HttpRequest) -> None:
        protocol, error = self._protocol, None
        try:
            reply = await self._endpoint.answer(
                dataclasses.replace(
                    request, connect_timeout_s=self._connect_timeout_s, sender=self._sender
                ),
                unreachable=self._end_timer_for_reading,
            )
            protocol.data_received(self._side.head(reply))
            try:
                async for piece in reply.body:
                    protocol.data_received(self._side.chunk(piece))
            except (ConnectionLost, SimloopError):
                error = ConnectionResetError(104, "Connection reset by peer")
            else:
                protocol.data_received(self._side.end())
        except (ConnectionLost, TimedOut) as failure:
            unconnected = self._unconnected(failure)
            if unconnected is not None:  # else the end of the connection says it
                protocol.set_exception(unconnected)
        self._is_closing = True
        protocol.connection_lost(error)

    def _end_timer_for_reading(self) -> None:
        """End the timer of aiohttp that runs since the request was written.

        Only the whole request shows that no connection is made, so that it is written before.
        """
        self._protocol.read_timeout = None
        self._protocol.start_timeout()

    def _unconnected(self, failure: Exception) -> Exception | None:
        """Return the error of aiohttp for a connection that is not made, or None for others."""
        aiohttp: Any = sys.modules["aiohttp"]
        made: Exception | None = None
        if isinstance(failure, ConnectionRefused):
            refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            made = aiohttp.ClientConnectorError(self._asked.connection_key, refused)
        elif isinstance(failure, TimedOut) and failure.phase == "connect":
            kind = getattr(aiohttp, "ConnectionTimeoutError", aiohttp.ServerTimeoutError)
            made = kind(f"Connection timeout to host {self._asked.url}")  # the kind of 3.10
        return made

    def get_write_buffer_size(self) -> int:
        """Return 0: what is written is there."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: no buffer fills up."""

    def pause_reading(self) -> None:
        """Do nothing: a model does not wait for its reader."""

    def resume_reading(self) -> None:
        """Do nothing, as above."""

    def is_closing(self) -> bool:
        """Return whether the connection is over."""
        return self._is_closing

    def close(self) -> None:
        """Give up the reply."""
        self._is_closing = True
        if self._task is not None and not self._task.done():
            self._task.cancel()

    abort = close

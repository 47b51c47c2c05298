"""The connections of aiohttp in a run: a transport of asyncio that the endpoint answers.

Not here: when they are made (interception.py). The rule to keep: everything above the transport is
aiohttp's own code, so that its timeouts, its errors and its reading of a body are the real ones.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from simloop.adapters.endpoint import Endpoint
from simloop.adapters.http import ConnectionLost, HttpRequest, TimedOut
from simloop.adapters.http1 import END, RequestReader, chunk_of, head_of
from simloop.errors import SimloopError


async def connected(endpoint: Endpoint, connector: Any, request: Any) -> Any:
    """Return a protocol of aiohttp whose connection `endpoint` answers.

    Raises CancelledError if the run is to end.
    """
    await endpoint.port.turn()
    protocol = connector._factory()  # noqa: SLF001 - so do aiohttp's connectors
    origin = str(request.url.origin())
    protocol.connection_made(WireTransport(endpoint, protocol, origin))
    return protocol


class WireTransport(asyncio.Transport):
    """A connection to the endpoint, for one request."""

    def __init__(self, endpoint: Endpoint, protocol: Any, origin: str) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._protocol = protocol
        self._reader = RequestReader(origin)
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take a piece of the request, and answer it when it is complete."""
        request = self._reader.feed(bytes(data)) if self._task is None else None
        if request is not None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._answer(request))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Take pieces of the request."""
        self.write(b"".join(list_of_data))

    async def _answer(self, request: HttpRequest) -> None:
        protocol, error = self._protocol, None
        try:
            reply = await self._endpoint.answer(request)
            protocol.data_received(head_of(reply))
            try:
                async for piece in reply.body:
                    protocol.data_received(chunk_of(piece))
            except (ConnectionLost, SimloopError):
                error = ConnectionResetError(104, "Connection reset by peer")
            else:
                protocol.data_received(END)
        except (ConnectionLost, TimedOut):
            pass  # without a reply, the end of the connection says it
        self._is_closing = True
        protocol.connection_lost(error)

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

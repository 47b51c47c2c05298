"""The clients that are answered at their connection: aiohttp, urllib3 with requests, and urllib.

All above the connection is the client's own code. A reply is chunked and its connection closes, so
that it can break off at any byte, and no connection outlives its request.
"""

import asyncio
import errno
import io
import re
import sys
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

import h11
import msgspec

from simloop.errors import SimloopError
from simloop.wire.endpoint import Endpoint
from simloop.world.http import ConnectionLost, ConnectionRefused, HttpReply, HttpRequest, TimedOut

_FRAMING = {"connection", "content-length", "transfer-encoding"}
_NOT_IN_VALUES = re.compile(r"[^\t\x20-\x7e\x80-\xff]+")


class ServerSide:
    """The server's side of the connection from a client to `origin`, such as https://host."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._connection = h11.Connection(h11.SERVER)
        self._head: h11.Request | None = None
        self._body = b""
        self._has_body = True

    def feed(self, data: bytes) -> HttpRequest | None:
        if data:  # else h11 takes it for the end of the connection
            self._connection.receive_data(data)
        while True:
            event = self._connection.next_event()
            if isinstance(event, h11.Request):
                self._head = event
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage):
                head = self._head
                assert head is not None
                target = head.target.decode("latin-1")
                url = target if "://" in target else self._origin + target
                named = ((n.decode("latin-1"), v.decode("latin-1")) for n, v in head.headers)
                return HttpRequest(head.method.decode("latin-1"), url, tuple(named), self._body)
            else:
                return None

    def head(self, reply: HttpReply) -> bytes:
        kept = ((name, value) for name, value in reply.headers if name.lower() not in _FRAMING)
        pairs = ((name, " ".join(_NOT_IN_VALUES.sub("?", value).split())) for name, value in kept)
        headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in pairs]
        headers.append((b"connection", b"close"))
        self._has_body = reply.status != HTTPStatus.NOT_MODIFIED
        return self._sent(h11.Response(status_code=reply.status, headers=headers))

    def chunk(self, piece: bytes) -> bytes:
        """Return a piece of the body as a chunk; nothing for a status that has no body."""
        return self._sent(h11.Data(data=piece)) if self._has_body else b""

    def end(self) -> bytes:
        return self._sent(h11.EndOfMessage())

    def _sent(self, event: h11.Event) -> bytes:
        return self._connection.send(event) or b""


async def connected(endpoint: Endpoint, connector: Any, request: Any, limits: Any) -> Any:
    """Return a protocol of aiohttp whose connection `endpoint` answers."""
    await endpoint.port.turn()
    protocol = connector._factory()  # noqa: SLF001 - so do aiohttp's connectors
    set_s = [each for each in (limits.connect, limits.sock_connect) if each]
    protocol.connection_made(WireTransport(endpoint, protocol, request, min(set_s, default=None)))
    return protocol


class WireTransport(asyncio.Transport):
    """A connection to the endpoint, for one request. No buffer of it fills up."""

    def __init__(
        self, endpoint: Endpoint, protocol: Any, asked: Any, connect_timeout_s: float | None
    ) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._protocol = protocol
        self._asked = asked
        task = asyncio.current_task()
        self._of_client: Any = {"connect_timeout_s": connect_timeout_s, "sender": task}
        self._side = ServerSide(str(asked.url.origin()))
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if (request := self._side.feed(bytes(data)) if self._task is None else None) is not None:
            self._task = asyncio.get_running_loop().create_task(self._answer(request))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    async def _answer(self, request: HttpRequest) -> None:
        protocol, error = self._protocol, None
        try:
            given = msgspec.structs.replace(request, **self._of_client)
            reply = await self._endpoint.answer(given, self._end_timer_for_reading)
            protocol.data_received(self._side.head(reply))
            try:
                async for piece in reply.body:
                    protocol.data_received(self._side.chunk(piece))
            except (ConnectionLost, SimloopError):
                error = ConnectionResetError(104, "Connection reset by peer")
            else:
                protocol.data_received(self._side.end())
        except (ConnectionLost, TimedOut) as failure:
            if (unconnected := self._unconnected(failure)) is not None:  # else its end says it
                protocol.set_exception(unconnected)
        self._is_closing = True
        protocol.connection_lost(error)

    def _end_timer_for_reading(self) -> None:
        # Only the whole request shows that no connection is made, so that it is written before.
        self._protocol.read_timeout = None
        self._protocol.start_timeout()

    def _unconnected(self, failure: Exception) -> Exception | None:
        aiohttp: Any = sys.modules["aiohttp"]
        made: Exception | None = None
        if isinstance(failure, ConnectionRefused):
            refused = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            key = self._asked.connection_key
            if hasattr(key.ssl, "verify_mode"):  # its text would have an address in memory
                key = key._replace(ssl=True)
            made = aiohttp.ClientConnectorError(key, refused)
        elif isinstance(failure, TimedOut) and failure.phase == "connect":
            made = aiohttp.ConnectionTimeoutError(f"Connection timeout to host {self._asked.url}")
        return made

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        if self._task is not None and not self._task.done():
            self._task.cancel()

    abort = close


_REFUSED = "Failed to establish a new connection: [Errno 111] Connection refused"


class WireSocket:
    """A socket to the endpoint, for one request."""

    def __init__(self, endpoint: Endpoint, connection: Any, origin: str) -> None:
        self._endpoint = endpoint
        self._connection = connection
        limit_s = connection.timeout  # urllib3 sets the one for reading later
        self._connect_timeout_s = limit_s if isinstance(limit_s, (int, float)) else None
        self._side = ServerSide(origin)
        self._request: HttpRequest | None = None
        self._timeout_s: float | None = None

    def settimeout(self, seconds: float | None) -> None:
        self._timeout_s = seconds

    def gettimeout(self) -> float | None:
        return self._timeout_s

    def setsockopt(self, *_: Any) -> None:
        """Do nothing: no option changes a run."""

    def sendall(self, data: Any) -> None:
        self._request = self._side.feed(bytes(data)) or self._request

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_Pieces(self._pieces()))

    def close(self) -> None:
        """Do nothing: the file gives up the reply."""

    shutdown = detach = close

    def _pieces(self) -> Iterator[bytes]:
        reply = self._open() if self._request else None
        if isinstance(reply, Exception):
            raise reply
        if reply is None:
            return
        try:
            yield self._side.head(reply)
            yield from map(self._side.chunk, reply.body)
        except ConnectionLost as error:
            raise ConnectionResetError(104, "Connection reset by peer") from error
        except TimedOut as error:
            raise TimeoutError("timed out") from error
        finally:
            reply.body.close()
        yield self._side.end()

    def _open(self) -> HttpReply | Exception | None:
        """Return the reply, the error of the one who waits for it, or None for the end.

        Raises the client's error of a connection that is not made.
        """
        assert self._request is not None
        given = msgspec.structs.replace(
            self._request, connect_timeout_s=self._connect_timeout_s, read_timeout_s=self._timeout_s
        )
        try:
            return self._endpoint.answer_blocking(given)
        except ConnectionRefused as error:
            raise self._unconnected("NewConnectionError", _REFUSED) from error
        except ConnectionLost:
            return None
        except TimedOut as error:
            if error.phase == "connect":
                limit = f"(connect timeout={self._connect_timeout_s})"
                message = f"Connection to {self._connection.host} timed out. {limit}"
                raise self._unconnected("ConnectTimeoutError", message) from error
            return TimeoutError("timed out")

    def _unconnected(self, name: str, message: str) -> Exception:
        # Only the whole request shows it, so that the error comes later than that of urllib3.
        exceptions = sys.modules["urllib3.exceptions"]
        made: Exception = getattr(exceptions, name)(self._connection, message)
        return made


class StandardSocket(WireSocket):
    """A socket of `http.client`, and so of urllib.

    urllib makes its own error of what goes wrong before the request is sent, and not later.
    """

    def __init__(self, endpoint: Endpoint, connection: Any, origin: str) -> None:
        super().__init__(endpoint, connection, origin)
        self._timeout_s = self._connect_timeout_s
        self._opened: list[HttpReply | Exception | None] = []

    def sendall(self, data: Any) -> None:
        super().sendall(data)
        if self._request and not self._opened:
            self._opened.append(super()._open())

    def _open(self) -> HttpReply | Exception | None:
        return self._opened[0]

    def _unconnected(self, name: str, message: str) -> Exception:  # noqa: ARG002 - of urllib3
        if name == "ConnectTimeoutError":
            return TimeoutError("timed out")
        return ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces: Any = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._rest = piece
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def close(self) -> None:
        self._pieces.close()
        super().close()

"""The connections of urllib3, and so of requests, in a run: a socket that the endpoint answers.

Everything above the socket is the client's own code, so that its timeouts, its retries and its
errors are the real ones.
"""

import dataclasses
import io
import sys
from collections.abc import Iterator
from typing import Any

from simloop.wire.endpoint import Endpoint
from simloop.wire.http import ConnectionLost, ConnectionRefused, HttpRequest, TimedOut
from simloop.wire.http1 import ServerSide

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
        """Set the limit of each wait, in virtual seconds."""
        self._timeout_s = seconds

    def gettimeout(self) -> float | None:
        """Return the limit of each wait."""
        return self._timeout_s

    def setsockopt(self, *_: Any) -> None:
        """Do nothing: no option changes a run."""

    def sendall(self, data: Any) -> None:
        """Take a piece of the request."""
        self._request = self._side.feed(bytes(data)) or self._request

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        """Return a file with the bytes of the reply."""
        return io.BufferedReader(_Pieces(self._pieces()))

    def close(self) -> None:
        """Do nothing: the file gives up the reply."""

    shutdown = detach = close

    def _pieces(self) -> Iterator[bytes]:
        request = self._request
        if request is None:
            return
        given = dataclasses.replace(
            request, connect_timeout_s=self._connect_timeout_s, read_timeout_s=self._timeout_s
        )
        try:
            reply = self._endpoint.answer_blocking(given)
        except ConnectionRefused as error:
            raise self._unconnected("NewConnectionError", _REFUSED) from error
        except ConnectionLost:
            return
        except TimedOut as error:
            if error.phase == "connect":
                limit = f"(connect timeout={self._connect_timeout_s})"
                message = f"Connection to {self._connection.host} timed out. {limit}"
                raise self._unconnected("ConnectTimeoutError", message) from error
            raise TimeoutError("timed out") from error
        try:
            yield self._side.head(reply)
            for piece in reply.body:
                yield self._side.chunk(piece)
        except ConnectionLost as error:
            raise ConnectionResetError(104, "Connection reset by peer") from error
        except TimedOut as error:
            raise TimeoutError("timed out") from error
        finally:
            reply.body.close()
        yield self._side.end()

    def _unconnected(self, name: str, message: str) -> Exception:
        """Return an error of urllib3 for a connection that is not made.

        Only the whole request shows that, so that it comes later than urllib3 would raise it.
        """
        exceptions = sys.modules["urllib3.exceptions"]
        made: Exception = getattr(exceptions, name)(self._connection, message)
        return made


class _Pieces(io.RawIOBase):
    """A file of the pieces of a reply, each when it arrives."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces: Any = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = piece
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def close(self) -> None:
        self._pieces.close()
        super().close()

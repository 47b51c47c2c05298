"""HTTP/1.1 on the socket of a client that is answered below its own protocol code.

A reply is chunked and its connection closes, so that it can break off at any byte, and no
connection outlives its request.
"""

import re
from http import HTTPStatus

import h11

from simloop.wire.http import HttpReply, HttpRequest

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
        """Return the request when it is complete."""
        if data:  # else h11 takes it for the end of the connection
            self._connection.receive_data(data)
        while True:
            event = self._connection.next_event()
            if isinstance(event, h11.Request):
                self._head = event
            elif isinstance(event, h11.Data):
                self._body += event.data
            elif isinstance(event, h11.EndOfMessage):
                return self._request()
            else:
                return None

    def _request(self) -> HttpRequest:
        assert self._head is not None
        target = self._head.target.decode("latin-1")
        return HttpRequest(
            self._head.method.decode("latin-1"),
            target if "://" in target else self._origin + target,
            tuple(
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in self._head.headers
            ),
            self._body,
        )

    def head(self, reply: HttpReply) -> bytes:
        """Return the status line and the headers of a reply."""
        headers = [
            (
                name.encode("latin-1"),
                " ".join(_NOT_IN_VALUES.sub("?", value).split()).encode("latin-1"),
            )
            for name, value in reply.headers
            if name.lower() not in _FRAMING
        ]
        headers.append((b"connection", b"close"))
        self._has_body = reply.status != HTTPStatus.NOT_MODIFIED
        return self._sent(h11.Response(status_code=reply.status, headers=headers))

    def chunk(self, piece: bytes) -> bytes:
        """Return a piece of the body as a chunk; nothing for a status that has no body."""
        return self._sent(h11.Data(data=piece)) if self._has_body else b""

    def end(self) -> bytes:
        """Return the end of the body."""
        return self._sent(h11.EndOfMessage())

    def _sent(self, event: h11.Event) -> bytes:
        return self._connection.send(event) or b""

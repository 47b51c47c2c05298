"""HTTP/1.1 as bytes, for the clients that are answered below their own protocol code.

Not here: the connections that carry the bytes (aiohttp_transport.py, requests_transport.py). The
rule to keep: a reply is chunked and its connection closes, so that it can break off at any byte,
and no connection outlives its request.
"""

from http import HTTPStatus

from simloop.adapters.http import HttpReply, HttpRequest

END = b"0\r\n\r\n"
_FRAMING = ("connection", "content-length", "transfer-encoding")


class RequestReader:
    """Reads one request from the bytes that a client sends to `origin`, such as https://host."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._data = b""

    def feed(self, data: bytes) -> HttpRequest | None:
        """Return the request when it is complete."""
        self._data += data
        head, blank, rest = self._data.partition(b"\r\n\r\n")
        if not blank:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        pairs = [line.partition(":") for line in lines]
        headers = tuple((name.lower(), value.strip()) for name, _, value in pairs)
        body = _body(dict(headers), rest)
        if body is None:
            return None
        url = target if "://" in target else self._origin + target
        return HttpRequest(method, url, headers, body)


def _body(headers: dict[str, str], data: bytes) -> bytes | None:
    """Return the body that `data` begins with, or None if some of it is to come."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        size = int(headers.get("content-length", 0))
        return data[:size] if len(data) >= size else None
    pieces: list[bytes] = []
    while True:
        line, end, data = data.partition(b"\r\n")
        if not end:
            return None
        size = int(line.partition(b";")[0], 16)
        if len(data) < size + 2:
            return None
        if not size:
            return b"".join(pieces)
        pieces.append(data[:size])
        data = data[size + 2 :]


def head_of(reply: HttpReply) -> bytes:
    """Return the status line and the headers of a reply."""
    try:
        phrase = HTTPStatus(reply.status).phrase
    except ValueError:  # 529, and what else providers have made up
        phrase = ""
    given = [(name, " ".join(value.split())) for name, value in reply.headers]
    headers = [each for each in given if each[0] not in _FRAMING]
    headers += [("transfer-encoding", "chunked"), ("connection", "close")]
    lines = [f"HTTP/1.1 {reply.status} {phrase}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def chunk_of(piece: bytes) -> bytes:
    """Return a piece of the body as a chunk; an empty one would be the end."""
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""

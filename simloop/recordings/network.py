"""The process that makes a real request of a recording: it has no simulation around it.

It reads the request from standard input and writes the answer to standard output, as MessagePack.
`live.py` starts it.
"""

import sys
import time
import urllib.request

import msgspec

_PIECE = 65_536
_NOT_SENT = frozenset({
    "host", "content-length", "connection", "transfer-encoding", "accept-encoding",
})  # fmt: skip


class RealRequest(msgspec.Struct):
    """A request that is to be made."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes


class RealAnswer(msgspec.Struct):
    """Its answer: the pieces with the nanoseconds after the request. `error`: why it has no end."""

    status: int = 0
    headers: list[tuple[str, str]] = []
    pieces: list[tuple[int, bytes]] = []
    head_ns: int = 0
    error: str = ""


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener that takes any status as an answer, and follows no redirect."""
    opener = urllib.request.OpenerDirector()
    for name in ("Proxy", "HTTP", "HTTPS"):
        opener.add_handler(getattr(urllib.request, f"{name}Handler")())
    return opener


def answer(asked: RealRequest) -> RealAnswer:
    """Make a request, and return its answer with its times."""
    headers = {name: value for name, value in asked.headers if name.lower() not in _NOT_SENT}
    start_ns = time.monotonic_ns()
    told = RealAnswer()
    try:
        request = urllib.request.Request(  # noqa: S310 - an HTTP client has made the URL
            asked.url,
            asked.body or None,
            headers | {"accept-encoding": "identity"},
            method=asked.method,
        )
        with _opener().open(request, timeout=600) as response:
            told.status, told.headers = response.status, list(response.headers.items())
            told.head_ns = time.monotonic_ns() - start_ns
            while piece := response.read1(_PIECE):
                told.pieces.append((time.monotonic_ns() - start_ns, piece))
    except (OSError, ValueError, EOFError) as error:
        told.error = str(error) or type(error).__name__
    return told


if __name__ == "__main__":
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=RealRequest)
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer(request)))

"""The process that makes a real request of a recording: it has no simulation around it.

It reads the request from standard input and writes the answer to standard output, as MessagePack.
`live.py` starts it.
"""

import sys
import time
import urllib.request

import msgspec

_PIECE = 65_536
_NOT_SENT = ("host", "content-length", "connection", "transfer-encoding", "accept-encoding")


class RealAnswer(msgspec.Struct):
    """An answer: the pieces with the nanoseconds after the request. `error`: why it has no end."""

    status: int = 0
    headers: list[tuple[str, str]] = []  # with names in lower case
    pieces: list[tuple[int, bytes]] = []
    head_ns: int = 0
    error: str = ""


def answer(method: str, url: str, given: list[tuple[str, str]], body: bytes) -> RealAnswer:
    """Make a request, and return its answer with its times."""
    headers = {name: value for name, value in given if name not in _NOT_SENT}
    headers["accept-encoding"] = "identity"
    # It takes any status as an answer, and follows no redirect.
    opener = urllib.request.OpenerDirector()
    for name in ("Proxy", "HTTP", "HTTPS"):
        opener.add_handler(getattr(urllib.request, f"{name}Handler")())
    start_ns = time.monotonic_ns()
    told = RealAnswer()
    try:
        request = urllib.request.Request(url, body or None, headers, method=method)  # noqa: S310 - an HTTP client has made the URL
        with opener.open(request, timeout=600) as response:
            told.status = response.status
            told.headers = [(name.lower(), value) for name, value in response.headers.items()]
            told.head_ns = time.monotonic_ns() - start_ns
            while piece := response.read1(_PIECE):
                told.pieces.append((time.monotonic_ns() - start_ns, piece))
    except (OSError, ValueError, EOFError) as error:
        told.error = str(error) or type(error).__name__
    return told


if __name__ == "__main__":
    request = msgspec.msgpack.decode(sys.stdin.buffer.read())
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer(*request)))

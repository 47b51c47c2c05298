"""A real server on the loopback interface, which fails in real ways."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Literal

End = Literal["closed", "reset", "silent", "done"]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@contextlib.contextmanager
def serving(pieces: Sequence[bytes], end: End) -> Iterator[str]:
    """Serve one connection with those bytes, then that end; yield the server's address."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            _read_request(connection)
            for piece in pieces:
                connection.sendall(piece)
            if end == "silent":
                over.wait(10)
            elif end == "reset":
                # What is sent must arrive first: a reset throws away what has not.
                over.wait(0.2)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        over.set()
        thread.join()
        listener.close()


@contextlib.contextmanager
def unreachable(how: Literal["refuses", "silent"]) -> Iterator[str]:
    """Yield an address at which no connection is made: it refuses, or nobody answers."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        if how == "silent":
            listener.listen(0)
            for _ in range(4):  # no more fit in the queue: the system drops the rest
                waiting = opened.enter_context(socket.socket())
                waiting.settimeout(0)
                waiting.connect_ex(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


@contextlib.contextmanager
def accepting() -> Iterator[tuple[str, list[bytes]]]:
    """Accept each POST; yield the server's address, and the bodies that have come."""
    bodies: list[bytes] = []

    class Accepting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Accepting) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()
            thread.join()


def _read_request(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    size = next(int(line[15:]) for line in lines if line.startswith("content-length:"))
    while len(body) < size:
        body += connection.recv(65536)

"""HTTP/1.1 as bytes: requests in any pieces, and replies that an HTTP client reads."""

import http.client
import io
import itertools
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from simloop.wire.clients.sockets import ServerSide
from simloop.world.http import HttpBody, HttpReply

SIZED = b"POST /v1/x?a=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-A:  b \r\n\r\nhello"
CHUNKED = (
    b"POST /v1/x?a=1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\nhe\r\n3;a=b\r\nllo\r\n0\r\n\r\n"
)


@given(st.sampled_from([SIZED, CHUNKED]), st.lists(st.integers(0, len(SIZED)), max_size=4))
def test_a_request_is_read_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(data)]
    reader = ServerSide("https://h")
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    found = [request for piece in pieces if (request := reader.feed(piece)) is not None]
    assert (found[0].method, found[0].url, found[0].body) == (
        "POST",
        "https://h/v1/x?a=1",
        b"hello",
    )


def test_the_names_of_headers_are_lower_case_and_their_values_bare() -> None:
    request = ServerSide("https://h").feed(SIZED)
    assert request is not None
    assert ("x-a", "b") in request.headers


class _Socket:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, *_: Any) -> io.BytesIO:
        return io.BytesIO(self.data)


def read_back(reply: HttpReply, *pieces: bytes) -> http.client.HTTPResponse:
    side = ServerSide("https://h")
    side.feed(SIZED)
    data = side.head(reply) + b"".join(map(side.chunk, pieces)) + side.end()
    response = http.client.HTTPResponse(_Socket(data))  # type: ignore[arg-type]
    response.begin()
    return response


def test_a_reply_is_read_back() -> None:
    reply = HttpReply(529, (("retry-after", "7"), ("content-length", "99")), HttpBody(b""))
    response = read_back(reply, b"one", b"", b"two")
    assert (response.status, response.read()) == (529, b"onetwo")
    assert (response.getheader("retry-after"), response.getheader("content-length")) == ("7", None)


@given(st.text(), st.integers(300, 599))
@example("", 304)
def test_no_header_of_a_script_breaks_the_reply(value: str, status: int) -> None:
    response = read_back(HttpReply(status, (("x-a", value),), HttpBody(b"")), b"body")
    assert (response.status, response.read()) == (status, b"" if status == 304 else b"body")

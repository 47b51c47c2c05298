"""The transports of httpx and of httpx2, which agree in everything that is used here.

Whatever a client is configured to, its errors are those of the module's own transport.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

from simloop.virtual.threads.calls import run_blocking
from simloop.wire.endpoint import Endpoint
from simloop.world import http


class HttpxConversion:
    """The conversion between the requests and replies of `module` and those of the endpoint."""

    def __init__(self, module: ModuleType) -> None:
        self._module: Any = module

        class ReplyStream(module.AsyncByteStream, module.SyncByteStream):  # type: ignore[misc, name-defined]
            def __init__(stream, body: http.HttpBody, request: Any) -> None:  # noqa: N805 - `self` is the conversion
                stream.body = body
                stream.request = request

            async def __aiter__(stream) -> AsyncIterator[bytes]:  # noqa: N805
                try:
                    async for piece in stream.body:
                        yield piece
                except (http.ConnectionLost, http.TimedOut) as error:
                    raise self.error(error, stream.request, in_body=True) from error

            def __iter__(stream) -> Iterator[bytes]:  # noqa: N805
                try:
                    yield from stream.body
                except (http.ConnectionLost, http.TimedOut) as error:
                    raise self.error(error, stream.request, in_body=True) from error

            async def aclose(stream) -> None:  # noqa: N805
                await stream.body.aclose()

            def close(stream) -> None:  # noqa: N805
                stream.body.close()

        self._stream = ReplyStream
        self._headers = lru_cache(maxsize=256)(module.Headers)  # the client makes a copy of them

    async def answer(self, endpoint: Endpoint, transport: Any, request: Any) -> Any:
        """Return the endpoint's response to a request that a transport is to send."""
        given, delays_s = _given(request, await request.aread()), _delays_s(transport)
        while True:
            try:
                return self._response(await endpoint.answer(given), request)
            except (http.ConnectionLost, http.TimedOut) as error:
                await asyncio.sleep(self._delay_s(error, request, delays_s))

    def answer_blocking(self, endpoint: Endpoint, transport: Any, request: Any) -> Any:
        """Return the endpoint's response to a request of a synchronous client, as `answer` does."""
        given, delays_s = _given(request, request.read()), _delays_s(transport)
        while True:
            try:
                return self._response(endpoint.answer_blocking(given), request)
            except (http.ConnectionLost, http.TimedOut) as error:
                run_blocking(asyncio.sleep(self._delay_s(error, request, delays_s)))

    def _delay_s(self, error: Any, request: Any, delays_s: Iterator[float]) -> float:
        if (delay_s := next(delays_s, None) if error.phase == "connect" else None) is None:
            raise self.error(error, request) from error
        return delay_s

    def _response(self, reply: http.HttpReply, request: Any) -> Any:
        body, whole = reply.body, reply.body.data
        response = self._module.Response(
            reply.status, headers=self._headers(reply.headers),
            stream=self._stream(body, request) if whole is None else self._module.ByteStream(whole),
            extensions={"http_version": b"HTTP/1.1"},
        )  # fmt: skip
        response.headers.encoding = "ascii"  # what the client finds out at length
        return response

    def error(self, error: Exception, request: Any, *, in_body: bool = False) -> Exception:
        """Return the exception of the module for a connection that failed."""
        module = self._module
        if isinstance(error, http.TimedOut):
            kind = module.ConnectTimeout if error.phase == "connect" else module.ReadTimeout
            message = ""
        elif isinstance(error, http.ConnectionRefused):
            kind, message = module.ConnectError, "All connection attempts failed"
        elif in_body:
            kind, message = module.ReadError, ""
        else:
            kind = module.RemoteProtocolError
            message = "Server disconnected without sending a response."
        made: Exception = kind(message, request=request)
        return made


conversion_of = cache(HttpxConversion)
"""The conversion for a module, which is made once: it has a class of its own."""


def _delays_s(transport: Any) -> Iterator[float]:
    """Yield the waits before the retries of a connection, as httpcore 1.0 has them."""
    if (retries := getattr(getattr(transport, "_pool", None), "_retries", 0)) > 0:
        yield 0
        yield from (0.5 * 2**n for n in range(retries - 1))


def _given(request: Any, body: bytes) -> http.HttpRequest:
    limits, headers = request.extensions.get("timeout") or {}, request.headers
    texts = _texts(tuple(headers.raw), headers.encoding)
    times_s = limits.get("connect"), limits.get("read")
    return http.HttpRequest(request.method, str(request.url), texts, body, *times_s)


@lru_cache(maxsize=256)  # a client sends equal headers again and again
def _texts(headers: tuple[tuple[bytes, bytes], ...], code: str) -> http.Headers:
    return tuple([(name.lower().decode(code), value.decode(code)) for name, value in headers])

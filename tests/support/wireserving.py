"""A transport of httpx or httpx2 that answers an SDK with given parts, without a simulation."""

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from wirereading import CREATED_S, ahead

from simloop.messages import Finish, Part, StreamError
from simloop.wire.formats import FORMATS
from simloop.wire.formats.wire_format import WireRequest, WrongRequest
from simloop.wire.http import HttpRequest
from simloop.world.wire_options import WireOptions


def module_of(sdk: Any) -> Any:
    """Return the HTTP client that an SDK is built on."""
    newer = {"openai": 3, "anthropic": 2}[sdk.__name__]
    return importlib.import_module(
        "httpx2" if int(sdk.__version__.split(".")[0]) >= newer else "httpx"
    )


class Served:
    """What the transport answers, and the requests that it has read."""

    def __init__(self, parts: Sequence[Part], options: WireOptions | None = None) -> None:
        self.parts = parts
        self.options = options or WireOptions()
        self.requests: list[WireRequest] = []

    def answer(self, path: str, body: bytes) -> tuple[int, Any, list[bytes]]:
        """Return status, headers and the pieces of the body."""
        sent = HttpRequest("POST", path, (), body)
        form = next(one for one in (make(self.options) for make in FORMATS) if one.answers(sent))
        number = len(self.requests) + 1
        try:
            request = form.read(sent)
        except WrongRequest as wrong:
            refused = form.refuse(wrong, number, CREATED_S)
            return refused.status, refused.headers, [refused.body]
        self.requests.append(request)
        first = self.parts[0] if self.parts else None
        if isinstance(first, StreamError) and (
            first.fault.status or first.body or not request.streams
        ):
            failed = form.error(first, number, CREATED_S)
            return failed.status, failed.headers, [failed.body]
        writer = form.encoder(request, number, CREATED_S)
        framer = form.framer()
        pieces = [*framer.frame(writer.begin(ahead(self.parts)))]
        for part in self.parts:
            last = isinstance(part, Finish | StreamError)
            pieces += framer.frame(writer.feed(part), is_last=last)
        body_pieces = pieces if request.streams else [writer.whole()]
        return 200, form.headers(request, number, CREATED_S), body_pieces


def http_client(sdk: Any, served: Served) -> Any:
    """Return a client for the SDK's `http_client` that `served` answers."""
    module = module_of(sdk)

    class Pieces(module.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, pieces: list[bytes]) -> None:
            self.pieces = pieces

        def __iter__(self) -> Iterator[bytes]:
            yield from self.pieces

    class Transport(module.BaseTransport):  # type: ignore[misc, name-defined]
        def handle_request(self, request: Any) -> Any:
            status, headers, pieces = served.answer(request.url.path, request.read())
            return module.Response(status, headers=list(headers), stream=Pieces(pieces))

    return module.Client(transport=Transport())


def openai_client(served: Served) -> Any:
    """Return an OpenAI client that `served` answers."""
    sdk = importlib.import_module("openai")
    return sdk.OpenAI(api_key="none", max_retries=0, http_client=http_client(sdk, served))


def anthropic_client(served: Served) -> Any:
    """Return an Anthropic client that `served` answers."""
    sdk = importlib.import_module("anthropic")
    return sdk.Anthropic(api_key="none", max_retries=0, http_client=http_client(sdk, served))

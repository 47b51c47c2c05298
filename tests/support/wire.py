"""HTTP requests to the endpoint of a run, without any client."""

import json
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any

from simloop import Reply, Result, Scenario, run
from simloop.virtual.simulate import running_loop
from simloop.wire.endpoint import current_endpoint
from simloop.world.http import ConnectionLost, HttpRequest, TimedOut

SDKS = [name for name in ("openai", "anthropic") if find_spec(name)]
HTTPX = [name for name in ("httpx", "httpx2") if find_spec(name)]


CHAT = "https://api.openai.com/v1/chat/completions"
ASK = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def posted(
    body: Any = ASK, url: str = CHAT, *, read_timeout_s: float | None = None, method: str = "POST"
) -> HttpRequest:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return HttpRequest(method, url, (), data, 5.0, read_timeout_s)


class Heard:
    """What a client hears of one reply, and when: the headers, the pieces, the end."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.pieces: list[tuple[float, bytes]] = []
        self.headers_at = -1.0
        self.error = ""
        self.ended_at = -1.0

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)

    async def listen(self, request: HttpRequest) -> "Heard":
        loop, endpoint = running_loop(), current_endpoint()
        assert endpoint is not None
        try:
            reply = await endpoint.answer(request)
            self.status, self.headers = reply.status, dict(reply.headers)
            self.headers_at = loop.time()
            async for piece in reply.body:
                self.pieces.append((loop.time(), piece))
        except (ConnectionLost, TimedOut) as error:
            self.error = type(error).__name__
        self.ended_at = loop.time()
        return self


def in_run(main: Callable[[], Awaitable[object]], *replies: Reply, **given: Any) -> Result:
    """Run `main` as an agent, against a script of `replies`."""

    async def agent(_: str) -> None:
        await main()

    return run(Scenario(prompt="Go.", model=[*replies]), loop=agent, **given)


def heard(
    *replies: Reply, request: HttpRequest | None = None, streams: bool = False, **given: Any
) -> Heard:
    """Return what a client hears of the reply to its one request."""
    request = request or posted({**ASK, "stream": True} if streams else ASK, **given)
    found = Heard()

    async def main() -> None:
        await found.listen(request)

    in_run(main, *replies)
    return found

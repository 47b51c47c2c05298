"""Real HTTP clients at the services of a run, sync and async, whole and streamed."""

import asyncio
import contextlib
import http.client
import importlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from importlib.util import find_spec
from typing import Any

import pytest
from builders import simulation
from services import ORDERS, replies

from simloop import Reply
from simloop.trace.codec import encode

pytestmark = pytest.mark.sdks

ROUTES: list[dict[str, Any]] = [
    {"get": "/orders/{id}", "json": {"id": "{id}"}, "takes": "80ms"},
    {"get": "/log", "pieces": ["ab", "cd", "ef"], "per_piece": "1s"},
    {"get": "/silent", "stall": "before-headers"},
    {"get": "/refused", "lost": "before-connect"},
    {"get": "/lost", "lost": "before-headers"},
    {"get": "/broken", "text": "x" * 20, "lost": "mid-output"},
    {"delete": "/orders/{id}", "status": 204},
    {"head": "/log", "text": "abc"},
]
Heard = list[Any]
Ask = Callable[..., Coroutine[Any, Any, Heard]]


def _httpx(name: str, *, is_async: bool) -> Ask:
    async def ask(method: str, path: str, *, streams: bool = False, body: Any = None) -> Heard:
        module: Any = importlib.import_module(name)
        found: Heard = []
        try:
            if is_async:
                async with module.AsyncClient(timeout=5) as client:
                    if streams:
                        async with client.stream(method, ORDERS + path) as reply:
                            async for piece in reply.aiter_bytes():
                                found.append((time.monotonic(), piece))
                    else:
                        reply = await client.request(method, ORDERS + path, json=body)
                        found += [reply.status_code, reply.content]
                return found
            with module.Client(timeout=5) as client:
                if streams:
                    with client.stream(method, ORDERS + path) as reply:
                        found += [(time.monotonic(), piece) for piece in reply.iter_bytes()]
                else:
                    reply = client.request(method, ORDERS + path, json=body)
                    found += [reply.status_code, reply.content]
        except module.HTTPError as error:
            found.append(type(error).__name__)
        return found

    return ask


async def _aiohttp(method: str, path: str, *, streams: bool = False, body: Any = None) -> Heard:
    module: Any = importlib.import_module("aiohttp")
    found: Heard = []
    try:
        timeout = module.ClientTimeout(sock_read=5)
        async with (
            module.ClientSession(timeout=timeout) as session,
            session.request(method, ORDERS + path, json=body) as reply,
        ):
            if streams:
                async for piece in reply.content.iter_any():
                    found.append((time.monotonic(), piece))
            else:
                found += [reply.status, await reply.read()]
    except module.ClientError as error:
        found.append(type(error).__name__)
    return found


async def _requests(method: str, path: str, *, streams: bool = False, body: Any = None) -> Heard:
    module: Any = importlib.import_module("requests")
    found: Heard = []
    try:
        with module.request(method, ORDERS + path, json=body, stream=streams, timeout=5) as reply:
            if streams:
                pieces = reply.iter_content(chunk_size=None)
                found += [(time.monotonic(), piece) for piece in pieces]
            else:
                found += [reply.status_code, reply.content]
    except module.RequestException as error:
        found.append(type(error).__name__)
    return found


async def _urllib(method: str, path: str, *, streams: bool = False, body: Any = None) -> Heard:
    found: Heard = []
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ORDERS + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:  # noqa: ASYNC210 - as requests
            if streams:
                found += [(time.monotonic(), piece) for piece in iter(reply.read1, b"")]
            else:
                found += [reply.status, reply.read()]
    except urllib.error.HTTPError as error:
        found += [error.code, error.read()]
    except (OSError, http.client.HTTPException) as error:
        found.append(type(getattr(error, "reason", error)).__name__)
    return found


CLIENTS: dict[str, Ask] = {
    **{f"{name} async": _httpx(name, is_async=True) for name in ("httpx", "httpx2")},
    **{f"{name} sync": _httpx(name, is_async=False) for name in ("httpx", "httpx2")},
    "aiohttp": _aiohttp,
    "requests": _requests,
    "urllib": _urllib,
}


@pytest.fixture(params=[name for name in CLIENTS if find_spec(name.partition(" ")[0])])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def heard(
    client: str,
    *asked: Any,
    services: Any = None,
    script: Sequence[Reply] = (),
    in_thread: bool = False,
) -> tuple[Any, Any]:
    """What the client hears, for each request, and the result of the run."""
    found: list[Heard] = []

    async def agent(_: str) -> None:
        for method, path, *more in asked:
            ask = CLIENTS[client](method, path, **(more[0] if more else {}))
            found.append(await (asyncio.to_thread(asyncio.run, ask) if in_thread else ask))

    known = services or {ORDERS: ROUTES}
    run = simulation(*script, services=known, loop=agent, tools={})
    return found, run.run()


def test_a_client_gets_the_answer_of_the_service(client: str) -> None:
    ((status, body),), result = heard(client, ("GET", "/orders/7"))
    assert (status, json.loads(body)) == (200, {"id": "7"})
    assert (result.elapsed_s, replies(result)) == (0.08, [(200, "", '{"id":"7"}')])


def test_a_client_in_a_thread_gets_the_answer(client: str) -> None:
    ((status, _),), result = heard(client, ("GET", "/orders/7"), in_thread=True)
    assert (status, result.elapsed_s) == (200, 0.08)


def test_answers_come_in_their_order(client: str) -> None:
    routes = [
        {"post": "/tickets", "status": 503, "times": 1},
        {"post": "/tickets", "json": {"id": 1}, "when": {"body": {"text": "Hi"}}},
    ]
    asked = ("POST", "/tickets", {"body": {"text": "Hi"}})
    found, _ = heard(client, asked, asked, services={ORDERS: routes})
    assert [status for status, _ in found] == [503, 200]


def test_a_streamed_body_comes_piece_by_piece(client: str) -> None:
    (pieces,), _ = heard(client, ("GET", "/log", {"streams": True}))
    assert pieces == [(0.0, b"ab"), (1.0, b"cd"), (2.0, b"ef")]


def test_replies_without_a_body_are_read(client: str) -> None:
    found, _ = heard(client, ("DELETE", "/orders/7"), ("HEAD", "/log"))
    assert found == [[204, b""], [200, b""]]


@pytest.mark.parametrize(
    ("path", "errors"),
    [
        ("/silent", "ReadTimeout SocketTimeoutError ReadTimeout TimeoutError"),
        ("/refused", "ConnectError ClientConnectorError ConnectionError ConnectionRefusedError"),
        ("/lost", "RemoteProtocolError ServerDisconnectedError ConnectionError RemoteDisconnected"),
        ("/broken", "ReadError ClientPayloadError ChunkedEncodingError ConnectionResetError"),
    ],
)
def test_a_failure_is_the_error_of_the_client(client: str, path: str, errors: str) -> None:
    (found,), result = heard(client, ("GET", path))
    kind = ("aiohttp", "requests", "urllib").index(client) + 1 if " " not in client else 0
    assert found[-1:] == [errors.split()[kind]]
    assert result.elapsed_s == (5.0 if path == "/silent" else 0.0)


def test_an_app_answers_each_client(client: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = (await receive())["body"]
        await asyncio.sleep(1)
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b"got ", "more_body": True})
        await send({"type": "http.response.body", "body": body})

    ((status, body),), result = heard(
        client, ("POST", "/x", {"body": {"a": 1}}), services={ORDERS: app}
    )
    assert (status, json.loads(body.removeprefix(b"got "))) == (201, {"a": 1})
    assert result.elapsed_s == 1.0


def test_equal_runs_have_equal_traces(client: str) -> None:
    asked = [("GET", path) for path in ("/orders/7", "/log", "/silent", "/broken", "/none")]
    one, two = (heard(client, *asked)[1] for _ in range(2))
    assert encode(one.trace) == encode(two.trace)


def test_a_model_and_a_service_at_one_address_both_answer(client: str) -> None:
    chat = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    services = {"https://orders.example": [{"any": "/api/orders/...", "text": "mine"}]}
    found, result = heard(
        client,
        ("GET", "/orders/7"),
        ("POST", "/chat/completions", {"body": chat}),
        services=services,
        script=[Reply(say="Hello.")],
    )
    assert found[0] == [200, b"mine"]
    assert (found[1][0], len(result.requests)) == (200, 1)


def test_a_large_body_is_read_whole(client: str) -> None:
    size = 5_000_000
    ((status, body),), result = heard(
        client, ("GET", "/x"), services={ORDERS: lambda _: b"x" * size}
    )
    assert (status, len(body)) == (200, size)
    assert replies(result)[0][2].endswith(f"... ({size} bytes)")


def test_control_characters_are_left_as_they_are(client: str) -> None:
    ((_, body),), result = heard(client, ("GET", "/x"), services={ORDERS: lambda _: "\x1b[31m\0"})
    assert (body, replies(result)[0][2]) == (b"\x1b[31m\0", "\x1b[31m\0")


def test_an_app_of_starlette_answers_from_threads_streams_and_shuts_down(client: str) -> None:
    applications: Any = pytest.importorskip("starlette.applications")
    responses: Any = importlib.import_module("starlette.responses")
    routing: Any = importlib.import_module("starlette.routing")
    log: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[dict[str, str]]:
        log.append("startup")
        await asyncio.sleep(1)
        yield {"pool": "open"}
        log.append("shutdown")

    def order(request: Any) -> Any:  # it is not async, so starlette runs it in a thread
        time.sleep(2)
        return responses.JSONResponse({"id": request.path_params["id"], **request.state._state})

    async def pieces() -> AsyncIterator[str]:
        for piece in ("a", "b"):
            yield piece
            await asyncio.sleep(1)

    async def stream(_: Any) -> Any:
        return responses.StreamingResponse(pieces())

    routes = [routing.Route("/orders/{id}", order), routing.Route("/log", stream)]
    app = applications.Starlette(routes=routes, lifespan=lifespan)
    asked = (("GET", "/orders/7"), ("GET", "/log", {"streams": True}))
    (whole, streamed), result = heard(client, *asked, services={ORDERS: app})
    assert json.loads(whole[1]) == {"id": "7", "pool": "open"}
    assert streamed == [(3.0, b"a"), (4.0, b"b")]
    assert (log, result.elapsed_s) == (["startup", "shutdown"], 5.0)

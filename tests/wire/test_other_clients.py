"""aiohttp and requests in a run: their own code, over connections that the script answers."""

import asyncio
import gc
import importlib
import ssl
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from loopback import unreachable
from wire import ASK, CHAT, in_run

from simloop import Deadlock, Pace, Reply, Scenario, run
from simloop.trace.codec import encode
from simloop.trace.entries import LeftBehind, Refused

pytestmark = pytest.mark.sdks

HELLO = Reply(say="Hello you", pace=Pace(first_part="250ms", per_part="100ms"))
Heard = list[Any]


async def by_aiohttp(*, streams: bool = True, url: str = CHAT, **more: Any) -> Heard:
    aiohttp = importlib.import_module("aiohttp")
    found: Heard = []
    try:
        asked = {**ASK, "stream": streams}
        async with (
            aiohttp.ClientSession(**more) as session,
            session.post(url, json=asked) as reply,
        ):
            found.append(reply.status)
            async for piece in reply.content.iter_any():
                found.append((time.monotonic(), piece))
    except (aiohttp.ClientError, TimeoutError) as error:
        found.append((time.monotonic(), type(error).__name__))
    return found


async def by_requests(*, streams: bool = True, url: str = CHAT, **more: Any) -> Heard:
    requests = importlib.import_module("requests")
    found: Heard = []
    try:
        asked = {**ASK, "stream": streams}
        with requests.post(url, json=asked, stream=True, **more) as reply:
            found.append(reply.status_code)
            for piece in reply.iter_content(chunk_size=None):
                found.append((time.monotonic(), piece))
    except requests.RequestException as error:
        found.append((time.monotonic(), type(error).__name__))
    return found


@pytest.fixture(params=[by_aiohttp, by_requests])
def client(request: pytest.FixtureRequest) -> Any:
    return request.param


def heard(client: Any, *replies: Reply, **more: Any) -> Heard:
    found: list[Heard] = []

    async def main() -> None:
        found.append(await client(**more))

    in_run(main, *replies)
    return found[0]


def test_a_stream_comes_piece_by_piece(client: Any) -> None:
    status, *pieces = heard(client, HELLO)
    assert (status, [at for at, _ in pieces]) == (200, [0.25, 0.35, 0.45])


def test_a_whole_reply_comes_at_its_end(client: Any) -> None:
    status, (at, body) = heard(client, HELLO, streams=False)
    assert (status, at, b"Hello you" in body) == (200, 0.45, True)


@pytest.mark.parametrize(
    ("reply", "status", "by"),
    [
        (Reply(lost="before-connect"), [], ("ClientConnectorError", "ConnectionError")),
        (Reply(lost="before-headers"), [], ("ServerDisconnectedError", "ConnectionError")),
        (Reply(lost="after-headers"), [200], ("ClientPayloadError", "ChunkedEncodingError")),
    ],
)
def test_a_lost_connection_is_the_error_of_the_client(
    client: Any, reply: Reply, status: list[int], by: tuple[str, str]
) -> None:
    *before, (_, error) = heard(client, reply)
    assert (before, error) == (status, by[client is by_requests])


@pytest.mark.parametrize(
    ("place", "by"),
    [
        ("before-headers", ("SocketTimeoutError", "ReadTimeout")),
        ("after-headers", ("SocketTimeoutError", "ConnectionError")),
    ],
)
def test_a_silent_server_is_a_timeout_of_the_client(
    client: Any, place: Any, by: tuple[str, str]
) -> None:
    if client is by_aiohttp:
        timeout: Any = importlib.import_module("aiohttp").ClientTimeout(total=None, sock_read=20)
    else:
        timeout = 20
    *_, (at, error) = heard(client, Reply(stall=place), timeout=timeout)
    assert (at, error) == (20.0, by[client is by_requests])


@pytest.mark.parametrize("how", ["refuses", "silent"])
def test_a_client_without_a_connection_raises_what_it_raises_in_reality(
    client: Any, how: Any
) -> None:
    timeout: Any = (0.5, 5)
    if client is by_aiohttp:
        timeout = importlib.import_module("aiohttp").ClientTimeout(sock_connect=0.5)
    with unreachable(how) as url:
        *_, (_, real) = asyncio.run(client(url=url, timeout=timeout))
    reply = Reply(lost="before-connect") if how == "refuses" else Reply(stall="before-connect")
    *_, (_, simulated) = heard(client, reply, timeout=timeout)
    assert simulated == real


@pytest.mark.parametrize(
    ("limits", "at"),
    [
        ({"sock_connect": 5}, 5.0),
        ({"sock_connect": 5, "sock_read": 3}, 5.0),
        ({"sock_connect": 5, "connect": 4}, 4.0),
    ],
)
def test_a_connection_of_aiohttp_that_is_not_made_is_a_timeout_of_it(
    limits: dict[str, float], at: float
) -> None:
    timeout = importlib.import_module("aiohttp").ClientTimeout(**limits)
    found = heard(by_aiohttp, Reply(stall="before-connect"), timeout=timeout)
    assert found == [(at, "ConnectionTimeoutError")]


@pytest.mark.parametrize(("timeout", "at"), [((5, 20), 5.0), ((5, 3), 5.0), (7, 7.0)])
def test_a_connection_of_requests_that_is_not_made_is_a_timeout_of_it(
    timeout: Any, at: float
) -> None:
    found = heard(by_requests, Reply(stall="before-connect"), timeout=timeout)
    assert found == [(at, "ConnectTimeout")]


def test_a_connection_is_waited_for_without_end_if_no_timeout_is_set(client: Any) -> None:
    aiohttp = importlib.import_module("aiohttp")
    timeout = None if client is by_requests else aiohttp.ClientTimeout(sock_read=3)
    with pytest.raises(Deadlock):
        heard(client, Reply(stall="before-connect"), timeout=timeout)


def test_urllib3_repeats_the_attempt_to_connect_as_often_as_it_should() -> None:
    urllib3 = importlib.import_module("urllib3")
    found: list[tuple[int, float]] = []

    async def main() -> None:
        pool = urllib3.PoolManager(
            retries=urllib3.Retry(connect=2, read=0), timeout=urllib3.Timeout(connect=5, read=3)
        )
        found.append((pool.request("POST", CHAT, json=ASK).status, time.monotonic()))

    in_run(main, Reply(lost="before-connect"), Reply(stall="before-connect"), Reply(say="Hi"))
    assert found == [(200, 5.0)]


def test_an_unknown_host_is_refused_as_the_client_says_it(client: Any) -> None:
    found: Heard = []

    async def main() -> None:
        found.extend(await client(url="https://api.weather.test/v1/today"))

    result = in_run(main)
    (refused,) = [each for each in result.trace.entries if type(each) is Refused]
    assert refused.asked == "POST https://api.weather.test/v1/today"
    assert refused.place.startswith("test_other_clients.py:")
    assert [name for _, name in found] in (["ClientConnectorError"], ["ConnectionError"])


def test_a_refusal_of_aiohttp_has_no_address_of_an_object() -> None:
    async def agent(_: str) -> str:
        aiohttp, context = importlib.import_module("aiohttp"), ssl.create_default_context()
        async with aiohttp.ClientSession() as session:
            try:
                await session.get("https://api.weather.test/", ssl=context)
            except aiohttp.ClientConnectorError as error:
                return str(error)
        return "no error"

    said = run(Scenario(prompt="Go.", model=[]), loop=agent).text
    assert said == "Cannot connect to host api.weather.test:443 ssl:default [Connection refused]"


async def leaves_a_session(_: str) -> str:
    aiohttp = importlib.import_module("aiohttp")
    aiohttp.ClientSession()
    return "Done."


def leaves_a_session_in_a_thread(prompt: str) -> str:
    return asyncio.run(leaves_a_session(prompt))


@pytest.fixture
def silent_collection() -> Iterator[None]:
    """Collect the sessions of a test here, where their warnings are no errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


class KeepsASession:
    session: Any = None

    async def __call__(self, prompt: str) -> str:
        aiohttp = importlib.import_module("aiohttp")
        self.session = self.session or aiohttp.ClientSession()
        return prompt


@pytest.mark.parametrize(
    "agent",
    [leaves_a_session, leaves_a_session_in_a_thread, KeepsASession],
)
@pytest.mark.usefixtures("silent_collection")
def test_a_session_of_aiohttp_that_is_never_closed_is_left_behind_at_its_place(agent: Any) -> None:
    result = run(Scenario(prompt="Hi", then=["Again."]), loop=agent)
    assert result.outcomes == ("completed", "completed")
    left = [entry for entry in result.trace.entries if isinstance(entry, LeftBehind)]
    assert [(each.what, each.name) for each in left[:1]] == [("session", "aiohttp.ClientSession")]
    assert left[0].place.startswith("test_other_clients.py:")
    assert len(left) == (1 if agent is KeepsASession else 2)
    assert encode(run(Scenario(prompt="Hi", then=["Again."]), loop=agent).trace) == encode(
        result.trace
    )


SHARED: list[Any] = []


async def shares(_: str) -> None:
    aiohttp = importlib.import_module("aiohttp")
    if not SHARED:
        SHARED.append(aiohttp.ClientSession())
    async with SHARED[0].post(CHAT, json=ASK) as reply:
        await reply.read()


def test_a_session_that_a_module_keeps_is_left_behind_by_each_run_that_uses_it() -> None:
    SHARED.clear()
    runs = [run(Scenario(prompt="Go.", model=[HELLO]), loop=shares) for _ in range(2)]
    assert encode(runs[0].trace) == encode(runs[1].trace)
    assert [entry.what for entry in runs[1].trace.entries if isinstance(entry, LeftBehind)] == [
        "session"
    ]
    asyncio.run(SHARED.pop().close())


async def by_httpx(url: str) -> str:
    httpx = importlib.import_module("httpx")
    async with httpx.AsyncClient() as client:
        said: str = (await client.get(url)).text
        return said


async def text_by_aiohttp(url: str) -> str:
    aiohttp = importlib.import_module("aiohttp")
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        said: str = await reply.text()
        return said


async def in_thread(name: str, url: str) -> str:
    get = importlib.import_module(name).get
    said: str = await asyncio.to_thread(lambda: get(url).text)
    return said


def test_a_server_of_the_agents_own_is_reached_by_each_client() -> None:
    uvicorn = importlib.import_module("uvicorn")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(3)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"you asked " + scope["raw_path"]})

    async def agent(prompt: str) -> str:
        server = uvicorn.Server(uvicorn.Config(app, port=8000, log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve())
        await asyncio.sleep(1)
        found = [
            await by_httpx("http://127.0.0.1:8000/a"),
            await text_by_aiohttp("http://localhost:8000/b"),
            await in_thread("requests", "http://127.0.0.1:8000/c"),
            await in_thread("httpx", "http://127.0.0.1:8000/d"),
        ]
        server.should_exit = True
        await serving
        return f"{prompt} {', '.join(found)} in {time.monotonic():.1f} s"

    first, second = (run(Scenario(prompt="Go:"), loop=agent) for _ in range(2))
    assert first.text.startswith(
        "Go: you asked /a, you asked /b, you asked /c, you asked /d in 13."
    )
    assert encode(first.trace) == encode(second.trace)

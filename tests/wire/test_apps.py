"""ASGI and WSGI apps as services of a run: they live in its virtual time."""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from builders import simulation
from services import ORDERS, asked, replies, sent
from wire import Heard

from simloop import (
    Deadlock,
    Outcome,
    Result,
    RunawayRun,
    ScenarioError,
    simulate,
)
from simloop.trace import entries
from simloop.trace.codec import encode
from simloop.wire.endpoint import current_endpoint
from simloop.world import services
from simloop.world.http import HttpRequest

START: dict[str, Any] = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"Content-Type", b"text/plain")],
}


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


class Shop:
    """An ASGI app that counts what it is asked, and notes what happens to it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.live(scope, receive, send)
            return
        path = scope["path"]
        message = await receive()
        self.seen.append((scope["method"], scope["root_path"], path, scope["query_string"]))
        if path.endswith("/slow"):
            await asyncio.sleep(2)
        if path.endswith("/fails"):
            raise ValueError("no such order")
        await send(START)
        if path.endswith("/breaks"):
            await send(body(b"half", more=True))
            raise ValueError("broken")
        if path.endswith("/stream"):
            for piece in (b"a", b"b", b"c"):
                await send(body(piece, more=True))
                await asyncio.sleep(1)
        if path.endswith("/waits"):
            await send(body(b"x", more=True))
            self.seen.append((await receive())["type"])
        await send(body(b"got " + message["body"]))

    async def live(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "lifespan.startup"
        scope["state"]["pool"] = "open"
        self.seen.append("startup")
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        self.seen.append("shutdown")
        await send({"type": "lifespan.shutdown.complete"})


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
    path = environ["PATH_INFO"]
    if path == "/slow":
        time.sleep(2)
    if path == "/fails":
        raise ValueError("no such order")
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/breaks":
        yield b"half"
        raise ValueError("broken")
    if path == "/stream":
        for piece in (b"a", b"b", b"c"):
            yield piece
            time.sleep(1)
    yield b"got " + environ["wsgi.input"].read()


def sleeps(result: Result) -> list[entries.Sleep]:
    return [entry for entry in result.trace.entries if isinstance(entry, entries.Sleep)]


@pytest.fixture(params=["asgi", "wsgi"])
def app(request: pytest.FixtureRequest) -> Any:
    return Shop() if request.param == "asgi" else wsgi


def test_an_app_answers_in_virtual_time(app: Any) -> None:
    (found,), result = asked(app, sent("POST /slow", b"it"))
    assert (found.status, found.headers, found.pieces) == (
        200,
        {"content-type": "text/plain"},
        [(2.0, b"got it")],
    )
    assert replies(result) == [(200, "", "got it")]
    assert result.trace.header.python == (f"service {ORDERS}", "loop")
    left = [entry for entry in result.trace.entries if isinstance(entry, entries.LeftBehind)]
    assert (left, sleeps(result)) == ([], [])  # the app is no code of the agent


def test_the_pieces_of_an_app_come_when_it_sends_them(app: Any) -> None:
    (found,), _ = asked(app, sent("GET /stream"))
    assert found.pieces == [(0.0, b"a"), (1.0, b"b"), (2.0, b"c"), (3.0, b"got ")]


def test_an_app_that_fails_is_an_error_of_the_server(app: Any) -> None:
    (found,), result = asked(app, sent("GET /fails"))
    assert (found.status, found.body) == (500, b"Internal Server Error")
    assert [str(each.error) for each in result.exceptions] == ["no such order"]


def test_an_app_that_fails_in_its_answer_loses_the_connection(app: Any) -> None:
    (found,), result = asked(app, sent("GET /breaks"))
    assert (found.body, found.error) == (b"half", "ConnectionLost")
    assert replies(result) == [(200, "lost", "half")]


def test_a_limit_of_the_client_ends_the_wait_for_an_app(app: Any) -> None:
    (found,), result = asked(app, sent("GET /slow", read_timeout_s=1.5))
    assert (found.error, found.ended_at) == ("TimedOut", 1.5)
    assert replies(result) == [(0, "timed-out", "")]


def test_an_app_answers_several_requests_at_once(app: Any) -> None:
    found, _ = asked(app, *[sent("GET /slow")] * 3, at_once=True)
    assert [each.ended_at for each in found] == [2.0] * 3


def test_equal_runs_have_equal_traces(app: Any) -> None:
    requests = [sent(f"GET /{name}") for name in ("slow", "stream", "breaks", "x")]
    one, two = (asked(app, *requests, at_once=True)[1] for _ in range(2))
    assert encode(one.trace) == encode(two.trace)


def test_an_asgi_app_is_started_once_for_each_run_and_shut_down() -> None:
    shop = Shop()
    asked(shop, sent("GET /a%20b?c=d"), sent("GET /x"))
    asked(shop, sent("GET /y"))
    assert shop.seen == [
        "startup", ("GET", "/api", "/api/a b", b"c=d"), ("GET", "/api", "/api/x", b""), "shutdown",
        "startup", ("GET", "/api", "/api/y", b""), "shutdown",
    ]  # fmt: skip


def test_an_app_that_nobody_asks_is_not_started() -> None:
    shop = Shop()
    asked(shop)
    assert shop.seen == []


def test_an_app_hears_that_its_client_is_gone() -> None:
    shop = Shop()
    (found,), _ = asked(shop, sent("GET /waits", read_timeout_s=1.0))
    assert (found.body, found.error) == (b"x", "TimedOut")
    assert "http.disconnect" in shop.seen


def test_an_app_without_a_lifespan_answers() -> None:
    async def plain(scope: Any, _: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await send(START)
        await send(body(b"Hello"))

    (found,), _ = asked(plain, sent())
    assert found.body == b"Hello"


@pytest.mark.parametrize(
    "head", [{"status": 42}, {"headers": [(b"a b", b"c")]}, {"headers": [(b"a", b"b\r\nc: d")]}]
)
def test_a_head_that_no_server_sends_is_an_error_of_the_app(head: dict[str, Any]) -> None:
    async def wrong(scope: Any, _: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({**START, **head})

    (found,), result = asked(wrong, sent())
    assert (found.status, type(result.exceptions[0].error)) == (500, ValueError)


def test_an_app_that_does_not_start_refuses_connections() -> None:
    async def broken(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    (found,), result = asked(broken, sent())
    assert found.error == "ConnectionRefused"
    assert str(result.exceptions[0].error) == "the startup failed: no database"


def test_an_app_that_returns_without_an_answer_is_an_error_of_the_server() -> None:
    async def silent(_: Any, __: Any, ___: Any) -> None:
        return

    (found,), _ = asked(silent, sent())
    assert found.status == 500


def test_a_synchronous_client_is_answered_too(app: Any) -> None:
    found: list[bytes] = []

    def ask() -> None:
        endpoint = current_endpoint()
        assert endpoint is not None
        found.extend(endpoint.answer_blocking(sent("GET /stream")).body)

    async def main(_: str) -> None:
        await asyncio.to_thread(ask)
        ask()

    result = simulation(services={ORDERS: app}, loop=main, tools={}).run()
    assert (found, result.elapsed_s) == ([b"a", b"b", b"c", b"got "] * 2, 6.0)


def test_an_app_without_end_waits_for_its_client() -> None:
    given: list[int] = []

    async def endless(_: Any, __: Any, send: Any) -> None:
        await send(START)
        while True:
            given.append(1)
            await send(body(b"x" * 10_000, more=True))

    async def main(_: str) -> None:
        endpoint = current_endpoint()
        assert endpoint is not None
        reply = await endpoint.answer(sent())
        async for __ in reply.body:
            await asyncio.sleep(1)
            break
        await reply.body.aclose()

    result = simulation(services={ORDERS: endless}, loop=main, tools={}).run()
    assert len(given) < 10
    assert replies(result)[0][:2] == (200, "closed")


def test_a_body_without_end_is_a_runaway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_BYTES", 200_000)

    async def endless(_: Any, __: Any, send: Any) -> None:
        await send(START)
        while True:
            await send(body(b"x" * 10_000, more=True))

    with pytest.raises(RunawayRun, match="passed 200000 bytes"):
        asked(endless, sent())


def test_what_is_no_app_is_refused() -> None:
    with pytest.raises(ScenarioError, match="the service is function, which is neither an app"):
        asked(lambda: None)


async def dies(_: str) -> None:
    await Heard().listen(sent("GET /x"))
    await asyncio.Event().wait()


def test_an_app_of_a_run_without_an_end_is_shut_down() -> None:
    shop = Shop()
    with pytest.raises(Deadlock):
        simulation(services={ORDERS: shop}, loop=dies, tools={}).run()
    assert shop.seen == ["startup", ("GET", "/api", "/api/x", b""), "shutdown"]


@pytest.mark.filterwarnings("error")
def test_an_app_of_a_conversation_ends_with_its_clock() -> None:
    shop = Shop()

    async def agent(_: str) -> None:
        await Heard().listen(sent("GET /x"))

    async def main() -> Outcome:
        conversation = simulation(services={ORDERS: shop}, loop=agent, tools={})
        return (await conversation.send("Go.")).outcome

    assert simulate(main()) is Outcome.COMPLETED
    gc.collect()  # nothing is said of tasks that nobody ended
    assert shop.seen == ["startup", ("GET", "/api", "/api/x", b"")]


def test_an_app_asks_another_service() -> None:
    async def front(_: HttpRequest) -> bytes:
        found = await Heard().listen(sent("GET https://b.example/stock"))
        return b"front of " + found.body

    both = {"https://a.example": front, "https://b.example": Shop()}
    (found,), result = asked(both, sent("GET https://a.example/x"))
    assert found.body == b"front of got "
    shown = [(entry.number, entry.service) for entry in result.trace.entries
             if isinstance(entry, entries.ServiceRequest)]  # fmt: skip
    assert shown == [(1, "https://a.example"), (2, "https://b.example")]
    assert [body for _, _, body in replies(result)] == ["got ", "front of got "]

"""Apps as services: an ASGI app, a WSGI app, or a function, inside the simulation of a run.

An ASGI app has a thread with an event loop for the whole run, a WSGI app one for each request.
"""

import asyncio
import contextlib
import io
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from simloop.errors import ScenarioError
from simloop.virtual.clock.listener import WAKE
from simloop.virtual.clock.tasks import is_coroutine
from simloop.virtual.threads.calls import InnerLoop
from simloop.virtual.threads.scheduler import ThreadEnded
from simloop.world import http, services
from simloop.world.user_functions import keep, parameters_of

_UNREAD = 65_536  # the bytes that an app may send before the client reads them, as uvicorn has it
_SHUTDOWN_S = 60
_VERSIONS = {"version": "3.0", "spec_version": "2.4"}
OVER: Any = object()


def kind_of(app: Any, address: str) -> type[services.App]:
    """Return the kind of an app that is the service at an address. Raises ScenarioError."""
    if (kind := _KINDS.get(_arguments(app))) is None:
        message = f"the service is {type(app).__name__}, which is neither an app nor a function"
        hint = "give an ASGI app, a WSGI app, or a function that takes a request"
        raise ScenarioError(message, key=f"services.{address}", hint=hint)
    return kind


def _arguments(app: Any) -> int:
    """Return how many arguments a call of `app` needs: 1 of a function, 2 of WSGI, 3 of ASGI."""
    parameters = (parameters_of(app) or {}).values()
    positional = (p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD)
    return sum(p.default is p.empty for p in positional)


class Channel(http.ReplyCourse):
    """The course of a reply that another thread makes: it puts steps, and the client takes them."""

    def __init__(self) -> None:
        self.unread = 0
        self.is_closed = self.has_begun = False
        self.on_taken: Callable[[], object] = lambda: None  # if the client takes a piece, or ends
        self._steps: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, *steps: Any) -> None:
        """Add a head, pieces, OVER, or the exception that breaks the reply."""
        if self.is_closed:
            return
        for step in steps:
            self.has_begun = self.has_begun or type(step) is http.Head
            self.unread += len(step) if type(step) is bytes else 0
            self._steps.append(step)
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.get_loop().call_soon_threadsafe(WAKE, waiter, None)

    def fail(self, answer: services.TimedAnswer, request: http.HttpRequest) -> None:
        """End the reply of an app that has failed, as a server does."""
        if self.has_begun:
            self.put(http.ConnectionLost())
        else:
            self.put(services.ScriptedCourse(answer, request).at_once(), OVER)

    def steps(self) -> http.ReplySteps:
        while True:
            while not self._steps:
                yield None
            if (step := self._steps.popleft()) is OVER:
                return
            if isinstance(step, BaseException):
                raise step
            if type(step) is bytes:
                self.unread -= len(step)
                self.on_taken()
            yield step

    async def wait(self) -> None:
        if not self._steps:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def aclose(self) -> None:
        self.is_closed = True
        self.on_taken()


def _path_of(request: http.HttpRequest, address: str) -> tuple[str, str]:
    base = urlsplit(address).path.rstrip("/")
    return unquote(base), unquote(request.path[len(base) :]) or "/"


class _FunctionApp(services.App):
    def course(self, request: http.HttpRequest, port: services.ServicesPort) -> http.ReplyCourse:
        return _FunctionCourse(request, partial(self._answer, request, port))

    async def _answer(
        self, request: http.HttpRequest, port: services.ServicesPort
    ) -> services.TimedAnswer:
        before = services.SERVES.set(True)
        try:
            value = self.app(request)
            return services.answer_of(await value if is_coroutine(value) else value)
        except Exception as error:  # noqa: BLE001 - a service is user code
            return self.failed(error, port)
        finally:
            services.SERVES.reset(before)


class _FunctionCourse(services.ScriptedCourse):
    def __init__(
        self, request: http.HttpRequest, call: Callable[[], Awaitable[services.TimedAnswer]]
    ) -> None:
        super().__init__(services.TimedAnswer(), request)
        self._call: Callable[[], Awaitable[services.TimedAnswer]] | None = call

    def at_once(self) -> None:
        return None

    def steps(self) -> http.ReplySteps:
        while self._call is not None:
            yield None
        yield from super().steps()

    async def wait(self) -> None:
        if self._call is None:
            await super().wait()
        else:
            self._answer = await self._call()
            self._call = None


class _AsgiApp(services.App):
    _thread: services.ServiceThread | None = None  # from the first request on

    def course(self, request: http.HttpRequest, port: services.ServicesPort) -> Channel:
        if self._thread is None:
            self._begin(port)
        channel = Channel()
        self._tell((request, channel))
        return channel

    def _begin(self, port: services.ServicesPort) -> None:
        self._port, self._loop = port, InnerLoop(port.loop)
        self._requests: asyncio.Queue[tuple[http.HttpRequest, Channel] | None] = asyncio.Queue()
        self._tasks: dict[asyncio.Task[None], None] = {}  # a set has no order
        self._ended: Callable[[], object] = lambda: None
        self._state: dict[str, Any] = {}
        name = f"service {self.address}"
        self._thread = services.ServiceThread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _tell(self, what: tuple[http.HttpRequest, Channel] | None) -> None:
        self._loop.call_soon_threadsafe(self._requests.put_nowait, what)

    async def aclose(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            return
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        self._ended = lambda: loop.call_soon_threadsafe(WAKE, over, None)
        self._tell(None)
        await asyncio.wait([over], timeout=_SHUTDOWN_S)

    def _run(self) -> None:
        services.SERVES.set(True)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:  # of a run that is broken off, as far as they do not wait again
                task.cancel()
            if tasks:
                with contextlib.suppress(ThreadEnded):
                    self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.close()
            self._ended()

    async def _serve(self) -> None:
        async with _lifespan(self.app, self._state) as failure:
            if failure is not None:
                keep(self._port.raised, f"the service {self.address}", failure)
            while (submitted := await self._requests.get()) is not None:
                request, channel = submitted
                if failure is not None:
                    channel.put(http.ConnectionRefused())
                    continue
                task = self._loop.create_task(self._answer(request, channel))
                self._tasks[task] = None
                task.add_done_callback(self._tasks.pop)
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)

    async def _answer(self, request: http.HttpRequest, channel: Channel) -> None:
        conversation = _Conversation(request, channel, self._loop)
        try:
            await self.app(self._scope(request), conversation.receive, conversation.send)
            conversation.check()
        except Exception as error:  # noqa: BLE001 - an app is user code
            if not (channel.is_closed and isinstance(error, OSError)):
                channel.fail(self.failed(error, self._port), request)

    def _scope(self, request: http.HttpRequest) -> dict[str, Any]:
        parts, (base, path) = urlsplit(request.url), _path_of(request, self.address)
        pairs = request.headers
        headers = [(n.encode("latin-1"), v.encode("latin-1", "replace")) for n, v in pairs]
        if not any(name == b"host" for name, _ in headers):
            headers.insert(0, (b"host", parts.netloc.encode()))
        return {
            "type": "http", "asgi": _VERSIONS, "http_version": "1.1", "method": request.method,
            "scheme": parts.scheme, "path": base + path, "raw_path": request.path.encode(),
            "query_string": parts.query.encode(), "root_path": base, "headers": headers,
            "client": ("127.0.0.1", 50_000),
            "server": (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)),
            "state": dict(self._state),
        }  # fmt: skip


class _Conversation:
    def __init__(self, request: http.HttpRequest, channel: Channel, loop: InnerLoop) -> None:
        self._request: http.HttpRequest | None = request
        self._is_head = request.method == "HEAD"
        self._channel = channel
        self._head: http.Head | None = None
        self._taken = asyncio.Event()
        self.is_over = False
        channel.on_taken = lambda: loop.call_soon_threadsafe(self._taken.set)

    def check(self) -> None:
        if not self.is_over:
            raise RuntimeError("the app returned before its response was complete")

    async def receive(self) -> dict[str, Any]:
        request, self._request = self._request, None
        if request is not None:
            return {"type": "http.request", "body": request.body, "more_body": False}
        while not (self.is_over or self._channel.is_closed):
            await self._wait()
        return {"type": "http.disconnect"}

    async def _wait(self) -> None:
        self._taken.clear()
        await self._taken.wait()

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = message.get("headers", ())
            texts = ([part.decode("latin-1") for part in pair] for pair in given)
            headers = tuple((name.lower(), value) for name, value in texts)
            services.check_head(message["status"], headers)
            self._head = http.Head(message["status"], headers)
            return
        if self._channel.is_closed:
            raise ConnectionResetError("the client is gone")  # as ASGI says since version 2.4
        if message["type"] != "http.response.body":
            raise RuntimeError(f"no answer of an app: {message['type']}")
        head, self._head = self._head, None
        body = b"" if self._is_head else bytes(message.get("body", b""))
        self._channel.put(*filter(None, (head, body)))
        if not message.get("more_body", False):
            self.is_over = True
            self._channel.put(OVER)
            self._taken.set()
        while self._channel.unread > _UNREAD and not self._channel.is_closed:
            await self._wait()


@contextlib.asynccontextmanager
async def _lifespan(app: Any, state: dict[str, Any]) -> AsyncIterator[Exception | None]:
    """Start an app and shut it down. The value is the failure of the startup, or None.

    An app that knows no lifespan raises, or returns. What goes wrong at its end is nobody's.
    """
    asked: asyncio.Queue[str] = asyncio.Queue()
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def receive() -> dict[str, Any]:
        return {"type": f"lifespan.{await asked.get()}"}

    async def send(message: dict[str, Any]) -> None:
        if not message["type"].startswith("lifespan."):  # it takes the scope for a request
            raise RuntimeError(f"no reply to lifespan: {message['type']}")
        told.put_nowait(message)

    async def reply_to(what: str) -> dict[str, Any]:
        asked.put_nowait(what)
        reply = asyncio.ensure_future(told.get())
        await asyncio.wait([reply, task], return_when=asyncio.FIRST_COMPLETED)
        if reply.done():
            return reply.result()
        reply.cancel()
        task.exception()  # looked at
        return {"type": ""}

    scope = {"type": "lifespan", "asgi": _VERSIONS, "state": state}
    task: asyncio.Task[None] = asyncio.ensure_future(app(scope, receive, send))
    begun = await reply_to("startup")
    has_failed = begun["type"] == "lifespan.startup.failed"
    yield RuntimeError(f"the startup failed: {begun.get('message', '')}") if has_failed else None
    await reply_to("shutdown")
    task.cancel()
    await asyncio.wait([task])


class _WsgiApp(services.App):
    def course(self, request: http.HttpRequest, port: services.ServicesPort) -> Channel:
        channel, taken = Channel(), threading.Event()
        channel.on_taken = taken.set

        def answer() -> None:
            services.SERVES.set(True)
            try:
                self._respond(request, channel, taken)
            except Exception as error:  # noqa: BLE001 - an app is user code
                channel.fail(self.failed(error, port), request)

        services.ServiceThread(target=answer, name=f"service {self.address}", daemon=True).start()
        return channel

    def _respond(self, request: http.HttpRequest, channel: Channel, taken: threading.Event) -> None:
        def send(body: bytes) -> None:
            if head and body:
                channel.put(head.pop())
            channel.put(*([body] if body and request.method != "HEAD" else []))
            while channel.unread > _UNREAD and not channel.is_closed:
                taken.clear()
                taken.wait()

        def start_response(status: str, headers: Any, exc_info: Any = None) -> Any:
            if exc_info is not None and channel.has_begun:
                raise exc_info[1].with_traceback(exc_info[2])
            pairs = tuple((name.lower(), value) for name, value in headers)
            code = int(status.split(maxsplit=1)[0])
            services.check_head(code, pairs)
            head[:] = [http.Head(code, pairs)]
            return send

        head: list[http.Head] = []
        body = self.app(_environ(request, self.address), start_response)
        try:
            for piece in body:
                send(piece)
                if channel.is_closed:
                    return
        finally:
            getattr(body, "close", lambda: None)()
        channel.put(*head)
        channel.put(OVER)


def _environ(request: http.HttpRequest, address: str) -> dict[str, Any]:
    parts, (base, path) = urlsplit(request.url), _path_of(request, address)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        # PEP 3333: the bytes of a path, read as Latin-1.
        "SCRIPT_NAME": base.encode().decode("latin-1"),
        "PATH_INFO": path.encode().decode("latin-1"),
        "QUERY_STRING": parts.query, "SERVER_NAME": parts.hostname or "",
        "SERVER_PORT": str(parts.port or (443 if parts.scheme == "https" else 80)),
        "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.version": (1, 0), "wsgi.url_scheme": parts.scheme,
        "wsgi.input": io.BytesIO(request.body), "wsgi.errors": sys.stderr,
        "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False,
        "HTTP_HOST": parts.netloc,
    }  # fmt: skip
    for name, value in request.headers:
        if (key := name.upper().replace("-", "_")) == "CONTENT_TYPE":
            environ[key] = value
        elif key != "CONTENT_LENGTH":
            environ[f"HTTP_{key}"] = value
    return environ


_KINDS: dict[int, type[services.App]] = {1: _FunctionApp, 2: _WsgiApp, 3: _AsgiApp}

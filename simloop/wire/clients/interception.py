"""The interception: while an agent runs, the world answers the HTTP clients' own transports.

The code that sends a request decides which run answers it, and code outside of runs gets the
original. A client that the program has given another transport is left alone. Everything is put
back when the last simulation with a run ends, because tasks that a run left behind end after it.
"""

import functools
import marshal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from simloop.virtual.clock.listener import OpenSession, report_session
from simloop.virtual.clock.loop import loop_here
from simloop.virtual.places import callers_place
from simloop.wire.api_keys import dummy_keys
from simloop.wire.endpoint import Endpoint, current_endpoint


def intercept(endpoint: Endpoint) -> None:
    """Let `endpoint` answer the HTTP requests of its run's code until the simulation ends."""
    interception.__enter__()
    endpoint.port.loop.at_end.append(interception.__exit__)


Undo = Callable[[], None]


def _patched(owner: Any, name: str, function: Callable[..., Any]) -> Undo:
    original = vars(owner)[name]

    @functools.wraps(original)
    def ours(*args: Any, **kwargs: Any) -> Any:
        return function(original, *args, **kwargs)

    def undo() -> None:
        if vars(owner).get(name) is ours:  # else the program has put something there
            setattr(owner, name, original)

    setattr(owner, name, ours)
    return undo


def _endpoint_for(host_and_port: Callable[[], tuple[str, int | None]]) -> Endpoint | None:
    """Return the endpoint that answers for a host; None for a server of the program itself."""
    endpoint = current_endpoint()
    network = None if endpoint is None else endpoint.port.loop.network
    # Asked only then: httpx reads them from the address each time.
    return None if network is not None and network.serves(*host_and_port()) else endpoint


# The conversions are loaded with the client that needs them.
# ruff: noqa: PLC0415
def _httpx(module: Any) -> Iterator[Undo]:
    from simloop.wire.clients.httpx import conversion_of

    conversion = conversion_of(module)

    def sending(method: str, answer: Any, original: Any, transport: Any, request: Any) -> Any:
        endpoint = _endpoint_for(lambda: (request.url.host, request.url.port))
        if endpoint is not None and _is_mocked(original, transport, method):
            endpoint = endpoint if endpoint.knows(request.method, str(request.url)) else None
        if endpoint is None:
            return original(transport, request)
        return answer(endpoint, transport, request)

    for owner, method, answer in (
        (module.AsyncHTTPTransport, "handle_async_request", conversion.answer),
        (module.HTTPTransport, "handle_request", conversion.answer_blocking),
    ):
        yield _patched(owner, method, functools.partial(sending, method, answer))


def _is_mocked(original: Any, transport: Any, method: str) -> bool:
    """Return whether pytest-httpx has put its code into a transport, or respx into the pool."""
    below = getattr(type(getattr(transport, "_pool", None)), method, None)
    return _is_of_another(original) or (below is not None and _is_of_another(below))


@functools.lru_cache(maxsize=64)
def _is_of_another(function: Any) -> bool:
    home = str(getattr(function, "__module__", "")).partition(".")[0]
    return not home.startswith(("httpx", "httpcore"))


_SESSIONS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""The places at which sessions of aiohttp were opened, by their connectors."""


def _aiohttp(module: Any) -> Iterator[Undo]:
    from simloop.wire.clients.sockets import connected

    def report(connector: Any) -> None:
        place, is_closed = _SESSIONS[connector], lambda: bool(connector.closed)
        session = OpenSession("aiohttp.ClientSession", connector, place, is_closed)
        report_session(loop_here(), session)

    async def connecting(original: Any, connector: Any, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109 - aiohttp's signature
        if (endpoint := _endpoint_for(lambda: (req.url.host, req.url.port))) is None:
            return await original(connector, req, traces, timeout)
        return await connected(endpoint, connector, req, timeout)

    def using(original: Any, connector: Any, *args: Any, **kwargs: Any) -> Any:
        if connector in _SESSIONS:  # perhaps of an earlier run, which a module has kept
            report(connector)
        return original(connector, *args, **kwargs)

    def opening(original: Any, session: Any, *args: Any, **kwargs: Any) -> None:
        original(session, *args, **kwargs)
        _SESSIONS[session.connector] = callers_place()
        report(session.connector)

    yield _patched(module.TCPConnector, "_create_connection", connecting)
    yield _patched(module.BaseConnector, "connect", using)
    yield _patched(module.ClientSession, "__init__", opening)


def _connected(module: Any, kind: str) -> Iterator[Undo]:
    from simloop.wire.clients import sockets

    def connecting(original: Any, connection: Any) -> None:
        host = connection._tunnel_host or connection.host  # noqa: SLF001 - what a proxy is asked for
        port = connection._tunnel_port or connection.port  # noqa: SLF001
        if (endpoint := _endpoint_for(lambda: (str(host), port))) is None:
            original(connection)
            return
        is_https = isinstance(connection, module.HTTPSConnection)
        origin = f"{'https' if is_https else 'http'}://{host}:{port}"
        connection.sock = getattr(sockets, kind)(endpoint, connection, origin)
        connection.is_verified = True

    for connection in (module.HTTPConnection, module.HTTPSConnection):
        if "connect" in vars(connection):  # vcrpy puts classes without it in their place
            yield _patched(connection, "connect", connecting)


def _agents_tracing(module: Any) -> Iterator[Undo]:
    """Let no span of a simulation into the queue of openai-agents, which is sent at exit."""
    if not hasattr(module, "BackendSpanExporter"):  # another package with the name `agents`
        return

    def queueing(original: Any, processor: Any, item: Any) -> None:
        is_sent = isinstance(getattr(processor, "_exporter", None), module.BackendSpanExporter)
        if not is_sent or loop_here() is None:
            original(processor, item)

    yield _patched(module.BatchTraceProcessor, "on_trace_start", queueing)
    yield _patched(module.BatchTraceProcessor, "on_span_end", queueing)


_CONVERTED: dict[tuple[Any, ...], bytes] = {}
"""The parts of requests as the SDK has converted them, by their types and values."""
_MOST_CONVERTED = 2_000
_SCALARS = (str, bool, int, float, type(None))


def _openai_parameters(module: Any) -> Iterator[Undo]:
    """Convert equal values once: the SDK tries each of thirty types, which takes half of a run."""
    is_of_several = functools.cache(lambda a: module.is_union_type(module.strip_annotated_type(a)))

    def key_of(data: Any, annotation: Any, inner_type: Any = None) -> tuple[Any, ...] | None:
        if type(data) is dict and is_of_several(inner_type or annotation):
            with suppress(ValueError):  # of an object of a class; later formats count references
                return annotation, inner_type, marshal.dumps(data, 2)
        return None

    def kept(key: tuple[Any, ...] | None, converted: Any) -> Any:
        if key and len(_CONVERTED) < _MOST_CONVERTED:
            with suppress(ValueError):
                _CONVERTED[key] = marshal.dumps(converted)
        return converted

    def converting(original: Any, data: Any, **types: Any) -> Any:
        if type(data) in _SCALARS:
            return data
        if (key := key_of(data, **types)) in _CONVERTED:
            return marshal.loads(_CONVERTED[key])  # noqa: S302 - simloop's own bytes
        return kept(key, original(data, **types))

    async def converting_async(original: Any, data: Any, **types: Any) -> Any:
        if type(data) in _SCALARS:
            return data
        if (key := key_of(data, **types)) in _CONVERTED:
            return marshal.loads(_CONVERTED[key])  # noqa: S302
        return kept(key, await original(data, **types))

    yield _patched(module, "_transform_recursive", converting)
    yield _patched(module, "_async_transform_recursive", converting_async)


class _InOrder(dict[Any, None]):
    add, remove = dict.setdefault, dict.__delitem__

    def discard(self, each: Any) -> None:
        self.pop(each, None)


def _anyio(module: Any) -> Iterator[Undo]:
    """Cancel what is inside a scope in the order of its entries: a set has that of addresses."""

    def making(original: Any, scope: Any, *args: Any, **kwargs: Any) -> None:
        original(scope, *args, **kwargs)
        scope._child_scopes = _InOrder()  # noqa: SLF001

    yield _patched(module.CancelScope, "__init__", making)


_PATCHES: dict[str, Callable[[ModuleType], Iterator[Undo]]] = {
    "httpx": _httpx, "httpx2": _httpx, "aiohttp": _aiohttp,
    "urllib3": lambda module: _connected(module.connection, "WireSocket"),
    "http.client": lambda module: _connected(module, "StandardSocket"),
    "agents.tracing.processors": _agents_tracing, "anyio._backends._asyncio": _anyio,
    "openai._utils._transform": _openai_parameters,
}  # fmt: skip


class Interception:
    """The patches of all clients, from the first run to the last, and a finder of their imports."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._kept = ExitStack()  # what is put back

    hides_addresses = True
    """Whether the addresses of providers in the environment are hidden."""

    def __enter__(self) -> None:
        with self._lock:
            self._runs += 1
            if self._runs > 1:
                return
            self._kept.enter_context(dummy_keys(hides_addresses=self.hides_addresses))
            sys.meta_path.insert(0, self)
            for module in filter(None, map(sys.modules.get, _PATCHES)):
                self.patch(module)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._runs -= 1
            if self._runs:
                return
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self._kept.close()

    def patch(self, module: ModuleType) -> None:
        for undo in _PATCHES[module.__name__](module) if self._runs else ():
            self._kept.callback(undo)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _PATCHES:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        loader: Any = None if spec is None else spec.loader

        def executing(module: ModuleType) -> None:
            del loader.exec_module  # the loader may be that of other modules, too
            loader.exec_module(module)
            if module.__name__ == fullname:
                self.patch(module)

        if loader is not None:
            loader.exec_module = executing
        return spec


interception = Interception()
"""In place from a run to its end, and between runs as well inside of a `with` block."""

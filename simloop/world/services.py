"""The services of a world: the HTTP requests that are not for a model, and their answers.

A reply is a course, as that of a model is, for the answers of a script, a function and an app.
"""

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, structs

from simloop.errors import ScenarioError, SimloopError
from simloop.escape import MOST_RECORDED, writable
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.progress import runaway
from simloop.world import chance, http, user_functions, user_port
from simloop.world.faults import SERVICE_FAULTS, FaultPlace, SiteFault, Stage
from simloop.world.http import Head, Headers, HttpReply, HttpRequest, ReplyCourse, ReplySteps

MOST_BYTES = 200_000_000
"""The bytes of a body after which the run is a runaway."""
MOST_REQUESTS = 10_000
"""The requests to services after which the run is a runaway."""
_ADVICE = "let the agent give up: a program that asks again and again never ends"
_STATUSES = range(200, 600)
_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_BREAK = re.compile(r"[\r\n\0]")
_PORTS = {"http": 80, "https": 443}
_JSON = ("content-type", "application/json")
_TEXT = ("content-type", "text/plain; charset=utf-8")
_BYTES = ("content-type", "application/octet-stream")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

SERVES: ContextVar[bool] = ContextVar("serves", default=False)
"""Whether the code of a service runs: its sleeps are not those of the agent."""


class TimedAnswer(Struct, frozen=True):
    """The answer to a request, with its times: before the head, and before each further piece."""

    status: int = 200
    headers: Headers = ()
    pieces: tuple[bytes, ...] = ()
    takes_ns: int = 0
    per_piece_ns: int = 0
    lost: FaultPlace | None = None
    stall: FaultPlace | None = None


class ServiceThread(threading.Thread):
    """A thread of the app of a service: a restart of the agent does not end it."""


class ServiceRule(Struct, frozen=True):
    """One rule of a service: the requests that it answers, how, and how often."""

    # Gets a request and its path after the address of the service, with the query; returns the
    # values of the path's parameters for `play`, or None.
    matches: Callable[[HttpRequest, str], Mapping[str, str] | None]
    play: Callable[[Mapping[str, str]], TimedAnswer]
    position: str  # in the file
    times: int | None = None  # None is any number


class App:
    """Code of the user's that answers the requests to the service at an address."""

    def __init__(self, app: Any, address: str) -> None:
        self.app, self.address = app, address

    def course(self, request: HttpRequest, port: "ServicesPort") -> ReplyCourse:
        raise NotImplementedError

    async def aclose(self) -> None:
        """End what answers, after the run."""

    def failed(self, error: Exception, port: "ServicesPort") -> TimedAnswer:
        """Return the answer of a server whose code fails; raise an error of simloop again."""
        if isinstance(error, SimloopError):
            raise port.recorder.keep(error)
        user_functions.keep(port.raised, f"the service {self.address}", error)
        return answer_of((500, "Internal Server Error"))


class Service:
    """One service: its address, and its rules, in order, or its app."""

    def __init__(
        self, address: str, rules: Iterable[ServiceRule] = (), app: App | None = None
    ) -> None:
        try:
            check_address(address)
        except ValueError as error:
            raise ScenarioError(f"`{address}` {error}", key="services") from None
        self.address = address
        self.app = app
        self.requests: list[HttpRequest] = []
        self._rules = [*rules]
        self._played: Counter[str] = Counter()
        self._in_front = 0

    def add(self, rules: Sequence[ServiceRule], *, in_front: bool = False) -> int:
        """Add rules after or before the others, and return their place. Raises ScenarioError."""
        if self.app is not None:
            hint = "give it another address, or answer in the app"
            raise ScenarioError(f"an app answers {self.address}", key="services", hint=hint)
        place = self._in_front if in_front else len(self._rules)
        self._rules[place:place] = rules
        self._in_front += len(rules) * in_front
        return place

    def find(self, request: HttpRequest, rest: str) -> tuple[ServiceRule, Mapping[str, str]] | None:
        """Return the first rule that matches and is not used up, with the values; or None."""
        for rule in self._rules:
            if rule.times is not None and self._played[rule.position] >= rule.times:
                continue
            if (values := rule.matches(request, rest)) is not None:
                return rule, values
        return None

    def use(self, rule: ServiceRule) -> None:
        self._played[rule.position] += 1

    def unused(self) -> list[str]:
        limited = ((rule.position, rule.times) for rule in self._rules if rule.times is not None)
        return [position for position, times in limited if self._played[position] < times]


@lru_cache(maxsize=1_000)
def split_address(url: str) -> tuple[str, str]:
    """Return the origin of a URL, with its port, and the rest: the path and the query."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.hostname}:{parts.port or _PORTS.get(parts.scheme)}"
    return origin, f"{parts.path}?{parts.query}" if parts.query else parts.path


def check_address(address: str) -> str:
    """Return the address of a service. Raises ValueError, with the correct form, for another."""
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise ValueError("must be the address of a service, such as https://orders.example/api")
    return address


class ServicesPort(Struct, eq=False):
    """The services of one conversation; `play` gives the answer of a fault of chance."""

    recorder: Recorder
    loop: VirtualLoop
    raised: list[user_functions.UserError]
    cancellation: user_port.Cancellation
    sites: chance.FaultSites | None
    play: Callable[[SiteFault], TimedAnswer]
    _services: dict[str, list[tuple[str, tuple[str, ...], Service]]] = {}
    _requests: int = 0

    def add(self, service: Service) -> None:
        """Add a service. Raises ScenarioError if there is one at its address."""
        origin, base = split_address(service.address)
        base, here = base.rstrip("/"), self._services.setdefault(origin, [])
        if any(base == other for other, *_ in here):
            problem = f"there are two services at {service.address}"
            raise ScenarioError(problem, key="services", hint="state its answers in one place")
        here.append((base, (f"{base}/", f"{base}?"), service))
        here.sort(key=lambda each: -len(each[0]))

    def at(self, url: str) -> tuple[Service, str] | None:
        """Return the service with the longest address that begins `url`, and the rest of it."""
        origin, rest = split_address(url)
        for base, begins, service in self._services.get(origin, ()):
            if rest.startswith(begins) or rest == base:
                return service, rest[len(base) :]
        return None

    def course(
        self, service: Service, rest: str, request: HttpRequest
    ) -> ReplyCourse | HttpReply | None:
        """Record a request to a service and return its reply, or the course of that.

        Returns None, and records nothing, if no rule of the service answers the request.
        """
        found = service.find(request, rest) if service.app is None else None
        if service.app is None and found is None:
            return None
        number = self._record(service, rest, request)
        drawn = {} if self.sites is None else self.sites.drawn(SERVICE_FAULTS)
        late_ns = self.play(drawn[Stage.LATE]).takes_ns if drawn and Stage.LATE in drawn else 0
        if drawn and Stage.INSTEAD in drawn:  # no rule is used up: a retry gets its answer
            inner: ReplyCourse = ScriptedCourse(self.play(drawn[Stage.INSTEAD]), request)
        elif found is not None:
            rule, values = found
            service.use(rule)
            inner = ScriptedCourse(rule.play(values), request)
        else:
            assert service.app is not None
            inner = service.app.course(request, self)
        if (reply := None if late_ns else inner.at_once()) is None:
            return _RecordedCourse(self, number, inner, late_ns)
        self.record_whole(number, reply)
        return reply

    def unscripted(self, service: Service, rest: str, request: HttpRequest) -> ReplyCourse:
        """Record a request that no rule answers, and return the course of a reply with 404."""
        number = self._record(service, rest, request)
        told = {"error": f"no answer is scripted for {request.method} {rest}"}
        return _RecordedCourse(self, number, ScriptedCourse(answer_of((404, told)), request))

    def _record(self, service: Service, rest: str, request: HttpRequest) -> int:
        self._requests = number = self._requests + 1
        if number > MOST_REQUESTS:
            passed = f"the run passed {MOST_REQUESTS} requests to services"
            raise self.recorder.keep(runaway(passed, _ADVICE))
        # Without the task that waits for it, which would outlive its run.
        kept = request if request.sender is None else structs.replace(request, sender=None)
        service.requests.append(kept)
        body = shown(request.body[: MOST_RECORDED + 1], len(request.body)) if request.body else ""
        path, method = writable(rest[:MOST_RECORDED]), writable(request.method)
        once = dict(request.headers[::-1]).get("idempotency-key", "")  # the first of several
        recorded = service.address, method, path, body, once and writable(once[:MOST_RECORDED])
        self.recorder.record(entries.ServiceRequest, number, *recorded)
        return number

    def count(self, number: int, size: int) -> None:
        """Count a piece of a reply, of `size` bytes with those before. Raises RunawayRun."""
        self.loop.progress.count(1)
        if size > MOST_BYTES:
            body = f"the body of the reply to request {number} to a service"
            raise self.recorder.keep(runaway(f"{body} passed {MOST_BYTES} bytes"))

    def record_whole(self, number: int, reply: HttpReply) -> None:
        body = reply.body.data or b""
        self.count(number, len(body))
        asked = dict(reply.headers).get("retry-after", "")
        self.record_reply(number, reply.status, body, len(body), failure="", asked=asked)

    def record_reply(
        self, number: int, status: int, body: bytes, size: int, *, failure: str, asked: str
    ) -> None:
        """Record the end of a reply, whose body is of `size` bytes and begins with `body`."""
        told = shown(body[: MOST_RECORDED + 1], size)
        asked = writable(asked[:MOST_RECORDED])
        self.recorder.record(entries.ServiceReply, number, status, told, failure, asked)

    async def aclose(self) -> None:
        for *_, service in chain(*self._services.values()):
            if service.app is not None:
                await service.app.aclose()


def shown(body: bytes, size: int) -> str:
    """Return a body of `size` bytes, of which `body` is the beginning, as the trace has it."""
    text = body.decode("utf-8", "backslashreplace")
    if size <= MOST_RECORDED and len(text) <= MOST_RECORDED:
        return text
    return f"{text[:MOST_RECORDED]}... ({size} bytes)"


def timed(
    status: int, body: Any, *, is_json: bool, headers: Mapping[str, str], **more: Any
) -> TimedAnswer:
    """Return an answer with a body: JSON, text, bytes, a list of texts, or None.

    Its kind is told in a header, unless `headers` does. Raises TypeError or ValueError for a value
    that is no JSON, and for what is no status or no header.
    """
    check_head(status, headers.items())
    if not is_json and body is None:
        return TimedAnswer(status, tuple(headers.items()), (), **more)
    kind = _JSON if is_json else _BYTES if isinstance(body, bytes) else _TEXT
    texts = [json_bytes(body)] if is_json else body if isinstance(body, list) else [body]
    pieces = tuple(t if isinstance(t, bytes) else t.encode("utf-8", "replace") for t in texts)
    return TimedAnswer(status, tuple({kind[0]: kind[1], **headers}.items()), pieces, **more)


def answer_of(value: Any) -> TimedAnswer:
    """Return an answer for a value, or one after a status. Raises TypeError or ValueError."""
    if hasattr(value, "play"):
        return value.play({})  # type: ignore[no-any-return]
    status = 204 if value is None else 200
    if type(value) is tuple and len(value) == 2 and type(value[0]) is int:  # noqa: PLR2004
        status, value = value
    return timed(status, value, is_json=not isinstance(value, str | bytes | None), headers={})


def check_head(status: int, headers: Iterable[tuple[str, str]]) -> None:
    """Raise ValueError for what is no status of an answer, and for what is no header."""
    if status not in _STATUSES:
        raise ValueError(f"{status} is no status of an answer")
    for name, value in headers:
        if not _NAME.fullmatch(name) or _BREAK.search(value):
            raise ValueError(f"{name!r} with {value!r} is no header")


def json_bytes(value: Any) -> bytes:
    """Return JSON with the keys in the order of `value`. Raises TypeError or ValueError."""
    return _encode(value).encode("utf-8", "replace")


class ScriptedCourse(ReplyCourse):
    """The course of an answer that is known."""

    def __init__(self, answer: TimedAnswer, request: HttpRequest) -> None:
        self._answer = answer
        self._has_no_body = answer.status in {204, 304} or request.method == "HEAD"
        self._wait_ns: int | None = None

    def at_once(self) -> HttpReply | None:
        answer = self._answer
        waits = answer.takes_ns or answer.per_piece_ns or answer.lost or answer.stall
        return None if waits else self._whole()

    def _whole(self) -> HttpReply:
        pieces, headers = self._answer.pieces, self._answer.headers
        if len(pieces) == 1 and "content-length" not in dict(headers):
            headers = (*headers, ("content-length", str(len(pieces[0]))))
        body = http.HttpBody(b"" if self._has_no_body else b"".join(pieces))
        return HttpReply(self._answer.status, headers, body)

    def steps(self) -> ReplySteps:
        answer = self._answer
        place = answer.lost or answer.stall
        self.is_unreachable = place == "before-connect"
        if answer.takes_ns:
            yield from self._pause(answer.takes_ns)
        whole = self._whole()
        if place is None and not answer.per_piece_ns:
            yield whole
            return
        if place in ("before-connect", "before-headers"):
            yield from self._fail()
        yield Head(answer.status, whole.headers if place is None else answer.headers)
        if place == "after-headers":
            yield from self._fail()
        pieces = () if self._has_no_body else answer.pieces
        for number, piece in enumerate(pieces if place is None else _half(pieces)):
            if number and answer.per_piece_ns:
                yield from self._pause(answer.per_piece_ns)
            yield piece
        if place is not None and not self._has_no_body:
            yield from self._fail()

    def _pause(self, wait_ns: int) -> ReplySteps:
        self._wait_ns = wait_ns
        yield None
        self._wait_ns = None

    def _fail(self) -> ReplySteps:
        if self._answer.lost is not None:
            raise http.ConnectionRefused if self.is_unreachable else http.ConnectionLost
        while True:
            yield None

    async def wait(self) -> None:
        if self._wait_ns is None:  # a stall
            await asyncio.get_running_loop().create_future()
        else:
            await asyncio.sleep(self._wait_ns / 1e9)


def _half(pieces: tuple[bytes, ...]) -> list[bytes]:
    left, found = -(-sum(map(len, pieces)) // 2), []
    for piece in pieces:
        if left > 0:
            found.append(piece[:left])
            left -= len(piece)
    return found


@dataclass(eq=False)
class _RecordedCourse(ReplyCourse):
    """The course of a reply, recorded as it ends; it may begin late."""

    _port: ServicesPort
    _number: int
    _inner: ReplyCourse
    _late_ns: int = 0
    _status: int = 0
    _size: int = 0
    _kept: list[bytes] = field(default_factory=list)
    _is_recorded: bool = False

    def steps(self) -> ReplySteps:
        if self._late_ns:
            yield None
        try:
            for step in self._inner.steps():
                self.is_unreachable = self._inner.is_unreachable
                if type(step) is HttpReply:
                    self._is_recorded = True
                    self._port.record_whole(self._number, step)
                elif type(step) is Head:
                    self._status = step.status
                elif step is not None:
                    self._take(step)  # type: ignore[arg-type]
                yield step
        except http.ConnectionLost as error:
            self._record("refused" if error.phase == "connect" else "lost")
            raise
        self._record("")

    def _take(self, piece: bytes) -> None:
        if self._size <= MOST_RECORDED:
            self._kept.append(piece)
        self._size += len(piece)
        self._port.count(self._number, self._size)

    def _record(self, failure: str) -> None:
        if not self._is_recorded:
            self._is_recorded = True
            told = self._status, b"".join(self._kept), self._size
            self._port.record_reply(self._number, *told, failure=failure, asked="")

    async def wait(self) -> None:
        if self._late_ns:
            late_ns, self._late_ns = self._late_ns, 0
            await asyncio.sleep(late_ns / 1e9)
        else:
            await self._inner.wait()

    def time_out(self, silence: str) -> None:
        self._inner.time_out(silence)
        self._record("timed-out")

    async def aclose(self) -> None:
        await self._inner.aclose()
        if not self._port.cancellation.closed:  # what goes on after a run is not in its trace
            self._record("closed")

"""The endpoint: answers the HTTP requests of one run as its model provider and its services do.

An error of simloop is kept for the end of the run: a client may swallow it or try again.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from simloop.errors import SimloopError
from simloop.escape import writable
from simloop.kernel.policies import message_tokens, utf8_bytes_over_4
from simloop.messages import Message, ToolMessage
from simloop.trace import entries
from simloop.virtual.clock.instants import EPOCH_NS
from simloop.virtual.clock.tasks import begin
from simloop.virtual.places import askers_place, askers_place_in_task
from simloop.virtual.threads.calls import run_blocking
from simloop.world.http import ConnectionRefused, HttpBody, HttpReply, HttpRequest, ReplyCourse
from simloop.world.model_port import ModelPort
from simloop.world.wire_options import WireOptions
from simloop.world.world import current_world, note_refused

if TYPE_CHECKING:
    from simloop.wire.formats.replies import WireFormat
    from simloop.wire.formats.storage import Storage
    from simloop.wire.formats.wire_format import WrongRequest
    from simloop.world.services import Service, ServicesPort

_JSON = ("content-type", "application/json")
_NO_RETRY = ("x-should-retry", "false")
"""SDKs of OpenAI and Anthropic do not repeat a request that is answered so."""


def current_endpoint() -> "Endpoint | None":
    """Return the endpoint of the run that the caller belongs to, or None outside of runs."""
    world = current_world()
    return None if world is None else world.provider


class Endpoint:
    """The provider of models, and the services, in one conversation, for HTTP requests.

    `options` can change at any time. With `keep_bodies`, `bodies` has the raw body of each request,
    by its number. `services` answer the requests that are for none of the models.
    """

    def __init__(self, port: ModelPort, options: WireOptions, *, keep_bodies: bool = False) -> None:
        self.port = port
        self.options = options
        self.services: ServicesPort | None = None
        self.bodies: dict[int, bytes] = {}
        self._keep_bodies = keep_bodies
        self._failed_results: set[tuple[str, str]] = set()
        self._hosts: dict[str, None] = {}  # that models have answered at
        self._seen = 0  # of the entries, for the results above

    async def answer(
        self, request: HttpRequest, unreachable: Callable[[], object] = lambda: None
    ) -> HttpReply:
        """Return the reply to a request, when its headers are there.

        `unreachable` is called as soon as it is known that no connection is made. Raises
        ConnectionLost or TimedOut as the network would, and CancelledError after a stop.
        """
        found = self._found(request)
        await self.port.turn(starts=found is None)  # a service may be asked to clean up
        try:
            return await _reply(self._open(request, found), request, unreachable)
        except SimloopError as error:  # kept by the port
            return _failed(error)

    def answer_blocking(self, request: HttpRequest) -> HttpReply:
        """Return the reply as `answer` does, and block the calling thread until it is there."""
        if (found := self._found(request)) is None or self.port.loop.busy:
            return run_blocking(self.answer(request))
        # Most services answer at once, and an event loop for it would take as long as the rest.
        begin(self.port.turn())
        try:
            opened = self._open(request, found)
            if isinstance(opened, HttpReply):
                return opened
            return run_blocking(_reply(opened, request, lambda: None))
        except SimloopError as error:  # kept by the port
            return _failed(error)

    def _found(self, request: HttpRequest) -> "tuple[Service, str] | None":
        return None if self.services is None else self.services.at(request.url)

    def knows(self, method: str, url: str) -> bool:
        """Return whether a service, or a script of the model, is there for a request."""
        request = HttpRequest(method, url, (), b"")
        if self._found(request) is not None:
            return True
        is_for_model = any(form.answers(request) for form in self._formats())
        return is_for_model and not getattr(self.port.model, "is_empty", False)

    def _open(
        self, request: HttpRequest, found: "tuple[Service, str] | None"
    ) -> ReplyCourse | HttpReply:
        services = self.services
        if services is not None and found is not None:  # before the models: its address is stated
            course = services.course(*found, request)
            if course is not None:
                return course
        from simloop.wire.formats.wire_format import WrongRequest  # noqa: PLC0415 - see `answer`

        form = next((each for each in self._formats() if each.answers(request)), None)
        try:
            asked = self._asked(form, request) if form else self._looked_up(request)
        except WrongRequest as wrong:
            names_one = b'"model"' in request.body or "/model" in request.path
            if names_one or not request.body.endswith(b"}") or self._is_provider(request):
                return self._refused(form, wrong, request)
            asked = None  # a service that is not there, as for `POST /messages`
        if asked is not None:
            return asked
        if services is None or found is None:
            _note_unknown("host", request)
            if not self._is_provider(request):
                raise ConnectionRefused
            message = f"Unknown request URL: {request.method} {request.path}."
            error = {"type": "invalid_request_error", "message": message, "code": "unknown_url"}
            return fixed(404, json.dumps({"error": error, "message": message}).encode(), _NO_RETRY)
        course = services.unscripted(*found, request)
        _note_unknown("request", request)
        return course

    def _formats(self) -> "Iterator[WireFormat]":
        from simloop.wire.formats import FORMATS  # noqa: PLC0415 - see `answer`

        return (make(self.options, self._storage) for make in FORMATS)

    @cached_property
    def _storage(self) -> "Storage":
        from simloop.wire.formats.storage import Storage  # noqa: PLC0415 - see `answer`

        return Storage()

    def _asked(self, form: "WireFormat", request: HttpRequest) -> ReplyCourse | HttpReply:
        from simloop.wire.exchange import ModelCourse  # noqa: PLC0415 - see `answer`
        from simloop.wire.formats.wire_format import Stamp  # noqa: PLC0415

        port, read = self.port, form.read(request)
        self._hosts[_host(request)] = None
        if read.size_reply:
            texts = (read.system_prompt, *(f"{one.name}{one.description}" for one in read.tools))
            tokens = sum(message_tokens(one, utf8_bytes_over_4) for one in read.messages)
            tokens += sum(map(utf8_bytes_over_4, texts))
            told = f"{request.method} {request.path} is answered with {tokens} tokens"
            port.recorder.record(entries.Note, told)
            return fixed(200, (read.size_reply % tokens).encode())
        messages = read.messages if form.marks_failed_tools else self._marked(read.messages)
        stream = port.stream(
            messages, system_prompt=read.system_prompt, tools=read.tools, model=read.model,
            headers=request.headers, output=read.output,
        )  # fmt: skip
        if self._keep_bodies:
            self.bodies[stream.request.number] = request.body
        return ModelCourse(stream, form, read, Stamp(stream.request.number, self._now_s), request)

    @property
    def _now_s(self) -> int:
        return (EPOCH_NS + self.port.loop.now_ns) // 10**9

    def _refused(
        self, form: "WireFormat | None", wrong: "WrongRequest", request: HttpRequest
    ) -> HttpReply:
        from simloop.wire.formats.openai_responses import OpenAIResponses  # noqa: PLC0415
        from simloop.wire.formats.wire_format import Stamp  # noqa: PLC0415

        form = form or OpenAIResponses(self.options)
        self.port.before -= 1  # it has no number, and is one more
        refused = form.refuse(wrong, Stamp(self.port.next_number(), self._now_s))
        called, told = f"{request.method} {request.path}", writable(str(wrong))
        if wrong.is_limit:
            told = f"{called} is answered with status {refused.status}: {told}"
            self.port.recorder.record(entries.Note, told)
        else:
            self.port.recorder.record(entries.RequestRefused, called, refused.status, told)
        return refused

    def _looked_up(self, request: HttpRequest) -> HttpReply | None:
        from simloop.wire.formats.lookups import lookup_of  # noqa: PLC0415 - see `answer`

        answer, anywhere = lookup_of(request), request.path.endswith("/embeddings")
        if answer is None or not (anywhere or self._is_provider(request)):
            return None
        body = answer(self._storage, self._now_s)
        told = f"{request.method} {request.path} is answered without a model"
        self.port.recorder.record(entries.Note, told)
        return fixed(200, json.dumps(body).encode())

    def _is_provider(self, request: HttpRequest) -> bool:
        host, providers = _host(request), (form.hosts for form in self._formats())
        return host in self._hosts or any(re.fullmatch(one, host) for one in providers)

    def _marked(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Mark results that the trace has as failed, by id and text: some formats have no word."""
        record = self.port.recorder.entries
        results = (one for one in record[self._seen :] if type(one) is entries.ToolResult)
        self._failed_results |= {(one.call_id, one.text) for one in results if one.is_error}
        self._seen = len(record)
        return tuple([
            msgspec.structs.replace(one, is_error=True)
            if type(one) is ToolMessage and (one.call_id, one.text) in self._failed_results
            else one
            for one in messages
        ])  # fmt: skip


def _host(request: HttpRequest) -> str:
    parts = urlsplit(request.url)
    return parts.netloc.removesuffix({"https": ":443", "http": ":80"}.get(parts.scheme, "\n"))


def _note_unknown(what: str, request: HttpRequest) -> None:
    parts = urlsplit(request.url)
    place = askers_place_in_task(request.sender) if request.sender else askers_place()
    asked = f"{request.method} {parts.scheme}://{_host(request)}{parts.path}"
    note_refused(what, parts.hostname or "", asked, place)


async def _reply(
    opened: ReplyCourse | HttpReply, request: HttpRequest, unreachable: Callable[[], object]
) -> HttpReply:
    if isinstance(opened, HttpReply):
        return opened
    # Loaded with the first such request, because most runs have none.
    from simloop.wire.exchange import Exchange  # noqa: PLC0415

    return await Exchange(opened, request, unreachable).reply()


def _failed(error: SimloopError) -> HttpReply:
    """Return a reply that ends the call without another attempt; the run raises the error."""
    body = {"error": {"message": str(error), "type": "simulation_error", "code": None}}
    return fixed(500, json.dumps(body).encode(), _NO_RETRY)


def fixed(status: int, body: bytes, *headers: tuple[str, str]) -> HttpReply:
    """Return a reply whose body, in JSON, is there already."""
    return HttpReply(status, (_JSON, *headers), HttpBody(body))

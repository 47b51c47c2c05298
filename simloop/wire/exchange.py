"""One request over HTTP, and the course of its reply: a head, then pieces of a body.

A script knows parts; a client knows bytes, and time limits that it sets itself. This module stands
between them, by the rules in docs/architecture.md for every format, every service and every client.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from simloop.messages import Fault, Finish, Part, StreamError
from simloop.virtual.clock.loop import loop_here
from simloop.virtual.threads.calls import run_blocking
from simloop.wire.formats.replies import BlockEncoder
from simloop.wire.formats.wire_format import Stamp, WireEvent, WireFormat, WireRequest
from simloop.world import http
from simloop.world.model_port import RecordedStream

_OVER: Any = object()


class Exchange:
    """A request that was sent, and the reply whose course is given.

    `unreachable` is called when it is known that no connection is made.
    """

    def __init__(
        self, course: http.ReplyCourse, sent: http.HttpRequest, unreachable: Callable[[], object]
    ) -> None:
        self._course = course
        self._steps = course.steps()
        self._sent = sent
        self._unreachable = unreachable
        self._phase: http.Phase = "read"
        self.is_open = True

    async def reply(self) -> http.HttpReply:
        """Return the reply when its headers are there. Raises ConnectionLost or TimedOut."""
        try:
            head = await self.next()
        except BaseException:
            await self.aclose()
            raise
        return self._reply(head)

    def reply_blocking(self) -> http.HttpReply:
        """Return the reply as `reply` does, and block the calling thread until it is there."""
        try:
            head = self.next_blocking()
        except BaseException:
            run_blocking(self.aclose())
            raise
        return self._reply(head)

    def _reply(self, head: Any) -> http.HttpReply:
        is_whole = type(head) is http.HttpReply
        return head if is_whole else http.HttpReply(head.status, head.headers, ReplyBody(self))

    async def next(self) -> http.Head | http.HttpReply | bytes | None:
        """Return the head, then each piece, then None; wait for it."""
        step = next(self._steps, _OVER)
        return await self._wait() if step is None else self._said(step)

    def next_blocking(self) -> http.Head | http.HttpReply | bytes | None:
        """Return the next step as `next` does, and block the calling thread until it is there."""
        if self._course.runs_code:
            return run_blocking(self.next())
        step = next(self._steps, _OVER)
        return run_blocking(self._wait()) if step is None else self._said(step)

    def _said(self, step: Any) -> http.Head | http.HttpReply | bytes | None:
        if step is _OVER:
            self.is_open = self._course.needs_closing
            return None
        said: http.Head | http.HttpReply | bytes = step
        return said

    async def _wait(self) -> http.Head | http.HttpReply | bytes | None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._sent.read_timeout_s) as limit:
                while True:
                    if self._course.is_unreachable and self._phase == "read":
                        self._phase = "connect"
                        seconds, now_s = self._sent.connect_timeout_s, loop.time()
                        limit.reschedule(None if seconds is None else now_s + seconds)
                        self._unreachable()
                    await self._course.wait()
                    step = next(self._steps, _OVER)
                    if step is not None:
                        return self._said(step)
        except TimeoutError:
            raise self._timed_out() from None

    async def aclose(self) -> None:
        self.is_open = False
        self._steps.close()
        await self._course.aclose()

    def _timed_out(self) -> http.TimedOut:
        sent, phase = self._sent, self._phase
        seconds = sent.connect_timeout_s if phase == "connect" else sent.read_timeout_s
        assert seconds is not None
        self._course.time_out(f"the client's {phase} timeout of {seconds:g} s is over")
        return http.TimedOut(phase, seconds)


class Answered(NamedTuple):
    """A request to the model that was read: format, contents, and the stamp of its reply."""

    form: WireFormat
    request: WireRequest
    stamp: Stamp


class ModelCourse(http.ReplyCourse):
    """The course of a reply of the model. `stream` is the recorded stream of its parts."""

    def __init__(self, stream: RecordedStream, answered: Answered, sent: http.HttpRequest) -> None:
        self.stream = stream
        self._answered = answered
        self._sent = sent
        self._begun = False  # whether the headers are sent

    runs_code = True

    @property
    def is_unreachable(self) -> bool:
        return self.stream.is_unreachable

    @property
    def needs_closing(self) -> bool:
        return self.stream.needs_closing

    async def wait(self) -> None:
        await self.stream.wait()

    def time_out(self, silence: str) -> None:
        if not self.stream.ended:
            self.stream.fail(Fault(silence, code="timeout"))

    async def aclose(self) -> None:
        await self.stream.aclose()

    def steps(self) -> http.ReplySteps:
        streams, form = self._answered.request.streams, self._answered.form
        encoder: BlockEncoder | None = None
        parts: list[Part] = []  # of a reply that does not stream
        while not self.stream.ended:
            part = self.stream.take()
            if self.stream.has_headers and not self._begun:
                yield self._head()
            if part is None:
                yield None
                continue
            if type(part) is StreamError:
                if (self._begun and not streams) or self._breaks(part):
                    is_refused = self.stream.is_unreachable
                    raise http.ConnectionRefused if is_refused else http.ConnectionLost
                has_status = part.fault.status is not msgspec.UNSET or self.stream.raised
                if not self._begun and (not streams or has_status):
                    yield from self._failed(part)
                    return
            if not streams:
                parts.append(part)
                continue
            if not self._begun:
                yield self._head()
            events: list[WireEvent] = []
            if encoder is None:
                encoder = self._encoder()
                # The finish of the reply, as far as it is known with its first part.
                events += encoder.begin(part if type(part) is Finish else self.stream.ahead())
            events += encoder.feed(part)
            yield from form.framed(events)
        if not self._begun:
            yield self._head()
        if not streams:
            yield self._written(parts)

    def _head(self) -> http.Head:
        form, request, stamp = self._answered
        self._begun = True
        return http.Head(200, form.headers(request, stamp))

    def _encoder(self) -> BlockEncoder:
        form, request, stamp = self._answered
        return form.encoder(request, stamp)

    def _written(self, parts: list[Part]) -> bytes:
        encoder = self._encoder()
        if parts:
            encoder.begin(parts[-1] if isinstance(parts[-1], Finish) else None)
        for part in parts:
            encoder.feed(part)
        return encoder.whole()

    def _breaks(self, failure: StreamError) -> bool:
        """Return whether the connection breaks. Raises TimedOut where the model's code has."""
        if failure.fault.code == "timeout" and failure.fault.status is msgspec.UNSET:
            raise http.TimedOut("read", self._sent.read_timeout_s or 0)
        is_lost = failure.fault.code == "connection" and failure.fault.status is msgspec.UNSET
        return is_lost or self.stream.is_unreachable

    def _failed(self, failure: StreamError) -> Iterator[http.Head | bytes]:
        form, _, stamp = self._answered
        status, headers, body = form.error(failure, stamp)
        yield http.Head(status, headers)
        yield body


class ReplyBody(http.HttpBody):
    """The pieces of the body of a reply."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._exchange) as exchange:
            while (piece := await exchange.next()) is not None:
                assert isinstance(piece, bytes)
                yield piece

    def __iter__(self) -> Iterator[bytes]:
        try:
            while (piece := self._exchange.next_blocking()) is not None:
                assert isinstance(piece, bytes)
                yield piece
        finally:
            self.close()

    async def aclose(self) -> None:
        await self._exchange.aclose()

    def close(self) -> None:
        if self._exchange.is_open and loop_here() is not None:  # it may be collected after its run
            run_blocking(self._exchange.aclose())

"""One request over HTTP, and the course of its reply: a head, then pieces of a body.

A script knows parts; a client knows bytes, and time limits that it sets itself. This module stands
between them, by the rules in docs/architecture.md for every format, every service and every client.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from simloop.messages import Fault, Finish, Part, StreamError
from simloop.virtual.clock.loop import loop_here
from simloop.virtual.threads.calls import run_blocking
from simloop.wire.formats.replies import BlockEncoder, WireFormat
from simloop.wire.formats.wire_format import Stamp, WireEvent, WireRequest
from simloop.world import http
from simloop.world.model_port import RecordedStream

_OVER: Any = object()


class Exchange:
    """A request that was sent, and its reply. `unreachable` is called if no connection is made."""

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
        is_whole = type(head) is http.HttpReply
        return head if is_whole else http.HttpReply(head.status, head.headers, ReplyBody(self))

    async def next(self) -> Any:
        """Return the head, then each piece, then None; wait for it."""
        step = next(self._steps, _OVER)
        return await self._wait() if step is None else self._said(step)

    def _said(self, step: Any) -> Any:
        if step is not _OVER:
            return step
        self.is_open = self._course.needs_closing
        return None

    async def _wait(self) -> Any:
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
                    if (step := next(self._steps, _OVER)) is not None:
                        return self._said(step)
        except TimeoutError:
            sent, phase = self._sent, self._phase
            seconds = sent.connect_timeout_s if phase == "connect" else sent.read_timeout_s
            assert seconds is not None
            self._course.time_out(f"the client's {phase} timeout of {seconds:g} s is over")
            raise http.TimedOut(phase, seconds) from None

    async def aclose(self) -> None:
        self.is_open = False
        self._steps.close()
        await self._course.aclose()


@dataclass(eq=False)
class ModelCourse(http.ReplyCourse):
    """The course of a reply of the model: `stream` is the recorded stream of its parts."""

    stream: RecordedStream
    form: WireFormat
    request: WireRequest  # as the format has read it from `sent`
    stamp: Stamp  # of the reply
    sent: http.HttpRequest
    has_begun: bool = False  # whether the headers are sent

    async def wait(self) -> None:
        await self.stream.wait()

    def time_out(self, silence: str) -> None:
        if not self.stream.ended:
            self.stream.fail(Fault(silence, code="timeout"))

    async def aclose(self) -> None:
        await self.stream.aclose()

    def steps(self) -> http.ReplySteps:
        streams, form = self.request.streams, self.form
        encoder: BlockEncoder | None = None
        parts: list[Part] = []  # of a reply that does not stream
        while not self.stream.ended:
            part = self.stream.take()
            self.is_unreachable = self.stream.is_unreachable
            self.needs_closing = self.stream.needs_closing
            if self.stream.has_headers and not self.has_begun:
                yield self._head()
            if part is None:
                yield None
                continue
            if type(part) is StreamError:
                if (self.has_begun and not streams) or self._breaks(part):
                    raise http.ConnectionRefused if self.is_unreachable else http.ConnectionLost
                has_status = part.fault.status is not msgspec.UNSET or self.stream.raised
                if not self.has_begun and (not streams or has_status):
                    failed = form.error(part, self.stamp)
                    yield http.Head(failed.status, failed.headers)
                    yield failed.body.data or b""
                    return
            if not streams:
                parts.append(part)
                continue
            if not self.has_begun:
                yield self._head()
            events: list[WireEvent] = []
            if encoder is None:
                encoder = form.encoder(self.request, self.stamp)
                # The finish of the reply, as far as it is known with its first part.
                events += encoder.begin(part if type(part) is Finish else self.stream.ahead())
            events += encoder.feed(part)
            yield from form.framed(events)
        if not self.has_begun:
            yield self._head()
        if not streams:
            yield self._written(parts)

    def _head(self) -> http.Head:
        self.has_begun = True
        return http.Head(200, self.form.headers(self.request, self.stamp))

    def _written(self, parts: list[Part]) -> bytes:
        encoder = self.form.encoder(self.request, self.stamp)
        if parts:
            encoder.begin(parts[-1] if isinstance(parts[-1], Finish) else None)
        for part in parts:
            encoder.feed(part)
        return encoder.whole()

    def _breaks(self, failure: StreamError) -> bool:
        """Return whether the connection breaks. Raises TimedOut where the model's code has."""
        if failure.fault.code == "timeout" and failure.fault.status is msgspec.UNSET:
            raise http.TimedOut("read", self.sent.read_timeout_s or 0)
        is_lost = failure.fault.code == "connection" and failure.fault.status is msgspec.UNSET
        return is_lost or self.is_unreachable


class ReplyBody(http.HttpBody):
    """The pieces of the body of a reply."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._exchange) as exchange:
            while (piece := await exchange.next()) is not None:
                yield piece

    def __iter__(self) -> Iterator[bytes]:
        try:
            while (piece := run_blocking(self._exchange.next())) is not None:
                yield piece
        finally:
            self.close()

    async def aclose(self) -> None:
        await self._exchange.aclose()

    def close(self) -> None:
        if self._exchange.is_open and loop_here() is not None:  # it may be collected after its run
            run_blocking(self._exchange.aclose())

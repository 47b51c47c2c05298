"""The model as an agent sees it: each request and each part of a reply is recorded as it passes.

The trace holds a part before the agent sees it, as it arrived; and before each part every task that
is ready gets its turn, so that an observer changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from math import inf
from typing import Any, get_args

import msgspec
from msgspec import Struct

from simloop.errors import SimloopError
from simloop.escape import writable
from simloop.messages import (
    AssistantMessage,
    Fault,
    Finish,
    FinishReason,
    Message,
    Part,
    Request,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallPart,
    ToolSpec,
    Unreachable,
    Usage,
    WireState,
)
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.trace.requests import RequestCoder, View, check_request, snapshot, wrong_request
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.progress import runaway
from simloop.world.cancellation import Cancellation
from simloop.world.fake_model import Model
from simloop.world.recorded_parts import RECORDED, record_error
from simloop.world.streams import FailedStream, Stream, TimedStream, WholeStream, stream_of
from simloop.world.user_errors import UserError, fault_of, keep
from simloop.world.user_port import no_turn

_HINT = (
    "if so many are right, set max_transitions, in the scenario or in the marker simloop, to the "
    "number that the run may make"
)


class ModelCallFailed(Exception):  # noqa: N818 - a failure of the simulated world, not of simloop
    """A model call of the native client failed. `fault` says how: status, code, headers."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Completion(Struct, frozen=True):
    """A whole reply, as the native client returns it."""

    message: AssistantMessage
    finish: FinishReason
    usage: Usage | None = None


class ModelPort:
    """Sends requests to the model and records them, counted from 1."""

    def __init__(
        self,
        model: Model,
        recorder: Recorder,
        loop: VirtualLoop,
        raised: list[UserError],
        cancellation: Cancellation,
    ) -> None:
        self.model = model
        self.cancellation = cancellation
        self.recorder = recorder
        self.loop = loop
        self.raised = raised
        self.turn = no_turn
        self.requests = 0
        self.before = 0
        """The requests before the prompt that is answered now."""
        self.most: float = inf
        """The requests that an agent may make for one prompt; a machine counts its moves."""
        self._coder = RequestCoder()

    def stream(
        self,
        messages: Sequence[Message],
        *,
        system_prompt: str = "",
        tools: Iterable[ToolSpec] = (),
        purpose: str = "main",
        tokens: int = 0,
    ) -> "RecordedStream":
        """Send a request and return the stream of its reply. `tokens` is the caller's estimate.

        The model is asked when the stream is first read. Raises CancelledError after a stop.
        """
        recorder = self.recorder
        if self.cancellation.pending is not None or recorder.error is not None:
            raise asyncio.CancelledError  # `turn` is async, and a stream is also sent without it
        number = self.requests + 1
        if number - self.before > self.most:
            passed = f"the run passed max_transitions={self.most} requests without an outcome"
            recorder.keep(error := runaway(passed, _HINT))
            raise error
        seq, at_ns = len(recorder.entries), recorder.clock.now_ns
        is_view = isinstance(messages, View)  # the engine sends Views, and only of messages
        try:
            sent = messages if is_view else snapshot(messages)
            request = Request(number, purpose, system_prompt, sent, tuple(tools))
            entry, chars = self._coder.code(request, seq, at_ns, tokens)
            if not is_view:
                check_request(entry)
        except (AttributeError, TypeError, msgspec.MsgspecError) as error:
            recorder.keep(wrong := wrong_request(number, error))
            raise wrong from error
        self.requests = number
        if seq > recorder.look_at:
            recorder.look()
        recorder.put(entry, chars)
        return RecordedStream(self, request)

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        system_prompt: str = "",
        tools: Iterable[ToolSpec] = (),
        purpose: str = "main",
    ) -> Completion:
        """Send a request and return the whole reply. Raises ModelCallFailed if the call fails."""
        await self.turn()
        stream = self.stream(messages, system_prompt=system_prompt, tools=tools, purpose=purpose)
        async with aclosing(stream):
            return await _whole(stream, self.turn)


async def _whole(stream: "RecordedStream", turn: Callable[[], Awaitable[None]]) -> Completion:
    text: list[str] = []
    calls: list[ToolCall] = []
    async for part in stream:
        match part:
            case TextDelta():
                text.append(part.text)
            case ToolCallPart():
                calls.append(part.call)
            case StreamError():
                await turn()
                raise ModelCallFailed(part.fault)
            case Finish():
                await turn()
                message = AssistantMessage("".join(text), tuple(calls))
                return Completion(message, part.reason, part.usage)
    await turn()
    raise ModelCallFailed(Fault("the stream ended without a finish", code="interrupted"))


class RecordedStream:
    """The reply to one request. `ended` is set after its last part.

    The caller calls `take` until it returns None, then `wait`, and so on until the stream has
    `ended`; then it calls `aclose` if the stream `needs_closing`, because the model's code may have
    to clean up. Or it iterates with `async for`, which closes the stream at its end. A part that
    arrives when the run is to end is not recorded, except for a finish if `keeps_finish` is set.
    `has_headers` is set where the script says that only the headers of the reply were sent,
    `is_unreachable` where no connection is made, and `raised` where the model's code raised an
    exception.
    """

    __slots__ = (
        "_asks_for_turn", "_due", "_port", "_stream", "ended", "has_headers", "is_unreachable",
        "keeps_finish", "needs_closing", "raised", "request",
    )  # fmt: skip

    def __init__(self, port: ModelPort, request: Request) -> None:
        self.request = request
        self.ended = self.keeps_finish = self.needs_closing = False
        self.has_headers = self.is_unreachable = self.raised = False
        self._port = port
        self._stream: Stream | None = None
        self._due: Iterator[Part] | None = None  # the rest of the parts that are there now
        # One turn for each part. Waiting until no task is ready was rejected: a task that calls
        # `sleep(0)` in a loop is always ready, and the stream would never go on.
        self._asks_for_turn = True

    def take(
        self, texts: list[str] | None = None, keep: Callable[[Part], object] | None = None
    ) -> Part | None:
        """Record the parts that are there now, up to the first that is no text, and return that.

        `texts` gets the pieces of text; without it, a piece of text is returned like another part.
        `keep` is called with each part that is no text, which is not returned then.
        Returns None if no part is left, or if other tasks are ready: `wait` gives them their turn.
        A failure of the model's code is a StreamError part.
        """
        if self.ended:
            return None
        port = self._port
        try:
            return self._take_due(texts, keep)
        except SimloopError as error:  # the script is wrong, or simloop is
            port.recorder.keep(error)
            raise
        except asyncio.CancelledError:
            if port.cancellation.pending is not None:
                raise
            return self._end(_cancelled(), keep)
        except Exception as error:  # noqa: BLE001 - a model may be the user's code
            return self._end(self._failure(error), keep)

    def _take_due(
        self, texts: list[str] | None, keep: Callable[[Part], object] | None
    ) -> Part | None:
        stream, port = self._stream or self._open(), self._port
        loop, recorder, number = port.loop, port.recorder, self.request.number
        if self._asks_for_turn and (loop.ready or loop.has_due):
            return None
        # A turn, an end or a bound can come between two parts from a listener only, or from the
        # code that yields them: without these, nothing is asked for between two pieces of text.
        is_alone = not recorder.is_heard and type(stream) is WholeStream
        asks = not is_alone or port.cancellation.pending is not None
        record, append, clock = recorder.entries, recorder.append, recorder.clock
        most, text_delta = recorder.max_chars, entries.TextDelta
        self._due = due = self._due or stream.due()
        for part in due:
            if asks:
                self._check(part)
            if type(part) is TextDelta:
                text = part.text
                if not text.isascii():  # most parts are: no call
                    text = writable(text)
                recorder.chars = chars = recorder.chars + len(text)
                if chars > most:
                    recorder.look()
                append(text_delta(len(record), clock.now_ns, number, text))
                if texts is None:
                    self._asks_for_turn = True
                    return part if text is part.text else TextDelta(text)
                texts.append(text)
            elif type(part) in _OF_THE_WIRE:
                self.is_unreachable = type(part) is Unreachable
                self.has_headers = not self.is_unreachable
                continue
            else:
                self._asks_for_turn = True
                recorded = RECORDED[type(part)](part, number, recorder)
                self.ended = type(part) in _LAST
                if keep is None:
                    return recorded
                keep(recorded)
                if self.ended:
                    return None
            if asks and (loop.ready or loop.has_due):
                self._asks_for_turn = True
                return None
        self._due = None
        return None

    def _check(self, part: Part) -> None:
        """Raise CancelledError if the run is to end, and RunawayRun past a bound of the trace."""
        cancellation, recorder = self._port.cancellation, self._port.recorder
        keeps = self.keeps_finish and type(part) is Finish
        if cancellation.pending is not None and not keeps:
            cancellation.check()
        if len(recorder.entries) > recorder.look_at:
            recorder.look()

    def ahead(self) -> Finish | None:
        """Return the finish that the script has for the reply, or None if it is not known yet."""
        ahead = getattr(self._stream, "ahead", None)
        return None if ahead is None else ahead()

    def _open(self) -> Stream:
        stream: Any = self._port.model.stream(self.request)
        if type(stream) is not WholeStream:
            stream = stream_of(stream)
            self.needs_closing = type(stream) is not TimedStream
        self._stream = stream
        return stream  # type: ignore[no-any-return]

    async def wait(self) -> bool:
        """Give other tasks their turn, or wait for the next part. Return False at the end."""
        if self.ended:
            return False
        if self._stream is None or (self._asks_for_turn and self._port.loop.busy):
            self._asks_for_turn = False
            await asyncio.sleep(0)
            return True
        self._due = None  # a stream goes on where its last reader stopped
        try:
            if await self._stream.wait():
                self._asks_for_turn = True
                return True
        except SimloopError as error:
            self._port.recorder.keep(error)
            raise
        except asyncio.CancelledError:
            self._stream = FailedStream(_cancelled())
            return True
        except Exception as error:  # noqa: BLE001 - as in `take`
            self._stream = FailedStream(self._failure(error))
            return True
        self.ended = True
        self._port.recorder.record(entries.StreamCut, self.request.number)
        return False

    def __aiter__(self) -> "RecordedStream":
        return self

    async def __anext__(self) -> Part:
        if self._stream is None and not self.ended:  # an agent that stops asks no model
            await self._port.turn()
        while not self.ended:
            part = self.take()
            if part is not None:
                return part
            await self.wait()
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close the stream, also after its last part: the model's code may have to clean up."""
        self.ended = True
        stream, self._stream, self._due = self._stream, None, None
        if stream is None:
            return
        try:
            await stream.aclose()
        except SimloopError:
            raise
        except Exception as error:  # noqa: BLE001 - as in `take`
            keep(self._port.raised, "the model", error)

    def fail(self, fault: Fault) -> None:
        """End the reply with `fault`, as a client does that gives up before it asks the model."""
        self._end(StreamError(fault), None)

    def _failure(self, error: Exception) -> StreamError:
        self.raised = True
        keep(self._port.raised, "the model", error)
        return StreamError(fault_of(error))

    def _end(self, failure: StreamError, keep: Callable[[Part], object] | None) -> Part | None:
        """Record a failure, which ends the reply. Return it, unless `keep` gets it."""
        self.ended = True
        recorded = record_error(failure, self.request.number, self._port.recorder)
        if keep is None:
            return recorded
        keep(recorded)
        return None


def _cancelled() -> StreamError:
    """Return the failure of a model that has cancelled itself (bug D4).

    Raises CancelledError if the task is being cancelled by others.
    """
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise asyncio.CancelledError
    return StreamError(Fault("the model was cancelled"))


_LAST = (Finish, StreamError)
_OF_THE_WIRE = get_args(WireState)

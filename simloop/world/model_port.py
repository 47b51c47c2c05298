"""The model as an agent sees it: each request and each part of a reply is recorded as it passes.

The trace holds a part before the agent sees it, as it arrived; and before each part every task that
is ready gets its turn, so that an observer changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from math import inf
from typing import Any, get_args

import msgspec
from msgspec import Struct, field

from simloop import messages as values
from simloop.errors import ScenarioError, SimloopError
from simloop.escape import writable
from simloop.messages import Finish, Part, Request, StreamError, TextDelta, ToolCall, ToolCallPart
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.trace.requests import RequestCoder, View, check_request, snapshot, wrong_request
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.progress import runaway
from simloop.world import fake_model
from simloop.world.fake_model import Model, Parties, Stream, WholeStream
from simloop.world.http import Headers
from simloop.world.user_functions import UserError, fault_of, keep
from simloop.world.user_port import Cancellation, no_turn

_HINT = (
    "if so many are right, set max_transitions, in the scenario or in the marker simloop, to the "
    "number that the run may make"
)
_LAST = (Finish, StreamError)
_OF_THE_WIRE = get_args(values.WireState)


class ModelCallFailed(Exception):  # noqa: N818 - a failure of the simulated world, not of simloop
    """A model call of the native client failed. `fault` says how: status, code, headers."""

    def __init__(self, fault: values.Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Completion(Struct, frozen=True):
    """A whole reply, as the native client returns it."""

    message: values.AssistantMessage
    finish: values.FinishReason
    usage: values.Usage | None = None


class ModelPort(Struct, eq=False):
    """Sends requests to the model and records them, counted from 1."""

    model: Model
    recorder: Recorder
    loop: VirtualLoop
    raised: list[UserError]
    cancellation: Cancellation
    turn: Callable[..., Awaitable[None]] = no_turn
    requests: int = 0
    before: int = 0
    """The requests before the prompt that is answered now."""
    most: float = inf
    """The requests that an agent may make for one prompt; a machine counts its moves."""
    _coder: RequestCoder = field(default_factory=RequestCoder)
    _usual: str = ""  # the model of the first request

    def next_number(self) -> int:
        """Return the number of the next request. Raises RunawayRun if it is one too many."""
        number = self.requests + 1
        if number - self.before > self.most:
            passed = f"the run passed max_transitions={self.most} requests without an outcome"
            raise self.recorder.keep(runaway(passed, _HINT))
        return number

    def stream(
        self, messages: Sequence[values.Message], *, system_prompt: str = "",
        tools: Iterable[values.ToolSpec] = (), purpose: str = "main", tokens: int = 0,
        model: str = "", headers: Headers = (), output: values.StructuredOutput | None = None,
    ) -> "RecordedStream":  # fmt: skip
        """Send a request and return the stream of its reply. `tokens` is the caller's estimate.

        `headers` decide nothing but the party that answers, as `model` does, which is recorded if
        it is not that of the first request. The model is asked when the stream is first read.
        Raises CancelledError after a stop.
        """
        recorder = self.recorder
        if self.cancellation.pending is not None or recorder.error is not None:
            raise asyncio.CancelledError  # `turn` is async, and a stream is also sent without it
        number = self.next_number()
        seq, at_ns = len(recorder.entries), recorder.clock.now_ns
        is_view = isinstance(messages, View)  # the engine sends Views, and only of messages
        try:
            sent = messages if is_view else snapshot(messages)
            self._usual = self._usual or model
            other = "" if model == self._usual else model
            request = Request(
                number, purpose, system_prompt, sent, tuple(tools), output=output, model=other
            )
            parties: Parties | None = getattr(self.model, "parties", None)
            if parties:
                request = fake_model.party_of(parties, request, model, headers)
            entry, chars = self._coder.code(request, seq, at_ns, tokens)
            if not is_view:
                check_request(entry)
        except (AttributeError, TypeError, msgspec.MsgspecError) as error:
            raise recorder.keep(wrong_request(number, error)) from error
        self.requests = number
        if seq > recorder.look_at:
            recorder.look()
        recorder.put(entry, chars)
        return RecordedStream(self, request)

    async def reply(
        self, messages: Sequence[values.Message], *, system_prompt: str = "",
        tools: Iterable[values.ToolSpec] = (), purpose: str = "main", model: str = "",
    ) -> Completion:  # fmt: skip
        """Send a request and return the whole reply. Raises ModelCallFailed if the call fails."""
        await self.turn(starts=True)
        stream = self.stream(
            messages, system_prompt=system_prompt, tools=tools, purpose=purpose, model=model
        )
        text: list[str] = []
        calls: list[ToolCall] = []
        fault = values.Fault("the stream ended without a finish", code="interrupted")
        async with aclosing(stream):
            async for part in stream:
                match part:
                    case TextDelta():
                        text.append(part.text)
                    case ToolCallPart():
                        calls.append(part.call)
                    case StreamError():
                        fault = part.fault
                        break
                    case Finish():
                        await self.turn()
                        message = values.AssistantMessage("".join(text), tuple(calls))
                        return Completion(message, part.reason, part.usage)
            await self.turn()
            raise ModelCallFailed(fault)


class RecordedStream(Struct, eq=False):
    """The reply to one request. `ended` is set after its last part.

    The caller calls `take` until it returns None, then `wait`, and so on until the stream has
    `ended`; then it calls `aclose` if the stream `needs_closing`, because the model's code may have
    to clean up. Or it iterates with `async for`, which closes the stream at its end. A part that
    arrives when the run is to end is not recorded, except for a finish if `keeps_finish` is set.
    `has_headers` is set where the script says that only the headers of the reply were sent,
    `is_unreachable` where no connection is made, and `raised` where the model's code raised.
    """

    _port: ModelPort
    request: Request
    ended: bool = False
    keeps_finish: bool = False
    needs_closing: bool = False
    has_headers: bool = False
    is_unreachable: bool = False
    raised: bool = False
    _stream: Stream | None = None
    _due: Iterator[Part] | None = None  # the rest of the parts that are there now
    # One turn for each part. Waiting until no task is ready was rejected: a task that calls
    # `sleep(0)` in a loop is always ready, and the stream would never go on.
    _asks_for_turn: bool = True

    def take_whole(self, texts: list[str], keep: Callable[[Part], object]) -> bool:
        """Record a reply whose parts are all there. Return whether the reply has ended.

        `texts` gets its pieces of text, and `keep` each other part. Nothing is taken where somebody
        may act between two parts: a task that is ready, or a listener, which may end the run.
        """
        stream, port = self._stream or self._open(), self._port
        loop, recorder = port.loop, port.recorder
        if type(stream) is not WholeStream or recorder.is_heard or loop.ready or loop.has_due:
            return False
        if port.cancellation.pending is not None:
            return False
        record, number, now_ns = recorder.entries, self.request.number, recorder.clock.now_ns
        append, most, text_delta = recorder.append, recorder.max_chars, entries.TextDelta
        for part in stream.parts:
            if type(part) is TextDelta:
                text = part.text
                if not text.isascii():  # most parts are: no call
                    text = writable(text)
                recorder.chars = chars = recorder.chars + len(text)
                if chars > most:
                    recorder.look()
                append(text_delta(len(record), now_ns, number, text))
                texts.append(text)
            elif type(part) not in _OF_THE_WIRE:
                keep(_RECORDED[type(part)](part, number, recorder))
                if type(part) in _LAST:
                    self.ended = True
                    return True
        return False

    def take(self) -> Part | None:
        """Record the next part that is there now, and return it.

        Returns None if no part is left, or if other tasks are ready: `wait` gives them their turn.
        A failure of the model's code is a StreamError part.
        """
        if self.ended:
            return None
        stream, port = self._stream or self._open(), self._port
        if self._asks_for_turn and port.loop.busy:
            return None
        try:
            self._due = due = self._due or stream.due()
            for part in due:
                self._check(part)
                if type(part) in _OF_THE_WIRE:
                    self.is_unreachable = type(part) is values.Unreachable
                    self.has_headers = not self.is_unreachable
                    continue
                self._asks_for_turn = True
                recorded = _RECORDED[type(part)](part, self.request.number, port.recorder)
                self.ended = type(part) in _LAST
                return recorded
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see `_failure`
            return self._end(self._failure(error))
        self._due = None
        return None

    def _check(self, part: Part) -> None:
        cancellation, recorder = self._port.cancellation, self._port.recorder
        if cancellation.pending is not None and not (self.keeps_finish and type(part) is Finish):
            cancellation.check()
        if len(recorder.entries) > recorder.look_at:
            recorder.look()

    def ahead(self) -> Finish | None:
        ahead = getattr(self._stream, "ahead", None)
        return None if ahead is None else ahead()

    def _open(self) -> Stream:
        stream: Any
        try:
            stream = self._port.model.stream(self.request)
            if type(stream) is not WholeStream:
                stream = fake_model.stream_of(stream)
                self.needs_closing = type(stream) is not fake_model.TimedStream
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see `_failure`
            stream = WholeStream([self._failure(error)])
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
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - see `_failure`
            self._stream = WholeStream([self._failure(error)])
            return True
        self.ended = True
        self._port.recorder.record(entries.StreamCut, self.request.number)
        return False

    def __aiter__(self) -> "RecordedStream":
        return self

    async def __anext__(self) -> Part:
        if self._stream is None and not self.ended:  # an agent that stops asks no model
            await self._port.turn(starts=True)
        while not self.ended:
            if (part := self.take()) is not None:
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

    def fail(self, fault: values.Fault) -> None:
        """End the reply with `fault`, as a client does that gives up before it asks the model."""
        self._end(StreamError(fault))

    def _failure(self, error: BaseException) -> StreamError:
        if isinstance(error, SimloopError):  # the script is wrong, or simloop is
            raise self._port.recorder.keep(error)
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if self._port.cancellation.pending is not None or task is None or task.cancelling():
                raise error
            return StreamError(values.Fault("the model was cancelled"))  # by itself (bug D4)
        self.raised = True
        keep(self._port.raised, "the model", error)
        return StreamError(fault_of(error))

    def _end(self, failure: StreamError) -> Part:
        self.ended = True
        return _error(failure, self.request.number, self._port.recorder)


def _tool_call(part: ToolCallPart, number: int, recorder: Recorder) -> Part:
    call = part.call
    call_id, name, arguments = call.id, call.name, call.arguments
    whole = call_id + name + arguments
    if not whole.isascii():
        call_id, name, arguments = writable(call_id), writable(name), writable(arguments)
        part, whole = ToolCallPart(ToolCall(call_id, name, arguments)), call_id + name + arguments
    seq, at_ns = len(recorder.entries), recorder.clock.now_ns
    recorder.put(entries.ToolCall(seq, at_ns, number, call_id, name, arguments), len(whole))
    return part


def _finish(part: Finish, number: int, recorder: Recorder) -> Part:
    raw = part.raw
    if not raw.isascii():
        raw = writable(raw)
        part = Finish(part.reason, raw, part.usage, part.steps)
    seq, at_ns = len(recorder.entries), recorder.clock.now_ns
    entry = entries.Finish(seq, at_ns, number, part.reason, raw, part.usage, part.steps)
    recorder.put(entry, len(raw))
    return part


def _error(part: StreamError, number: int, recorder: Recorder) -> Part:
    fault = part.fault
    headers = tuple((writable(name), writable(value)) for name, value in fault.headers)
    message, code = writable(fault.message), writable(fault.code)
    fault = msgspec.structs.replace(fault, message=message, code=code, headers=headers)
    chars = len(fault.message) + sum(len(name) + len(value) for name, value in headers)
    seq, at_ns = len(recorder.entries), recorder.clock.now_ns
    recorder.put(entries.Error(seq, at_ns, number, fault), chars)
    return StreamError(fault, part.body)


def _text(part: TextDelta, number: int, recorder: Recorder) -> Part:
    text = writable(part.text)
    recorder.record(entries.TextDelta, number, text)
    return part if text is part.text else TextDelta(text)


def _texts(kind: type[entries.AnyEntry], part: Any, number: int, recorder: Recorder) -> Part:
    texts = [*map(writable, msgspec.structs.astuple(part))]
    recorder.record(kind, number, *texts)
    return type(part)(*texts)  # type: ignore[no-any-return]


class _Recorders(dict[type, Callable[[Any, int, Recorder], Part]]):
    def __missing__(self, kind: type) -> Callable[[Any, int, Recorder], Part]:
        message = f"the model gave a {kind.__name__}, which is not a part of a stream"
        hint = "return text, a Reply, or parts such as TextDelta and Finish"
        raise ScenarioError(message, key="model", hint=hint)


_RECORDED = _Recorders({
    TextDelta: _text, ToolCallPart: _tool_call, Finish: _finish, StreamError: _error,
    values.ReasoningDelta: partial(_texts, entries.ReasoningDelta),
    values.ToolCallDelta: partial(_texts, entries.ToolCallDelta),
})  # fmt: skip
"""The function that records a part and returns it, by the kind of the part."""

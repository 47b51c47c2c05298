"""One model call: the parts of its reply are read, and the callbacks are notified.

This is the hottest path of the engine, run once per part: no JSON, no copy, no look at the history.
A reply whose parts are all there, and that nobody watches, is read by one call of the stream.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec import Struct, structs

from simloop import messages as values
from simloop.engine.settings import EngineSettings
from simloop.engine.user_code import Rest, UserCode
from simloop.kernel.policies import ReplyReading
from simloop.messages import Fault, Finish, FinishReason, Part, StreamError, TextDelta, ToolCallPart
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.tasks import Started, begin
from simloop.virtual.clock.timeouts import NS_PER_MS, Timeout
from simloop.world.model_port import RecordedStream

_TIMED_OUT = Fault("the model did not answer in time", code="timeout")
ABORTED = Fault("Request was aborted", code="aborted")  # the error of a model call after an abort


class CallIds:
    """The ids of the calls of one conversation, each with the last number put behind it."""

    def __init__(self, history: Iterable[values.Message], recorder: Recorder) -> None:
        self._recorder = recorder
        self._used: dict[str, int] = {}
        for message in history:
            if type(message) is values.AssistantMessage:
                self._used.update({call.id: 1 for call in message.calls})

    def own(self, call: values.ToolCall, came_as: values.ToolCall) -> values.ToolCall:
        """Return the call under an id of its own, which providers require (bug D14); record it."""
        used, unique = self._used, call.id
        while not unique or unique in used:
            used[call.id] = number = used.get(call.id, 1) + 1
            unique = f"{call.id or 'call'}#{number}"
        if unique != call.id:
            call = values.ToolCall(unique, call.name, call.arguments)
        used[unique] = 1
        if call is not came_as and call != came_as:
            self._recorder.record(entries.CallRenamed, came_as.id, call.id, call.name)
        return call


class ReplySoFar(Struct, eq=False):
    """The part of the reply to `request` that has been received.

    `finish` is None until the stream says, or ends. `on_call` is awaited after each call that
    arrives, `on_end` before the end of the reply is taken: the finish of a reply whose tools start
    when called counts after their results. `halves` has the names, and pieces of the arguments, of
    calls that are not whole, by their ids. `found_here` says that the engine, and not the model,
    made the `fault`.
    """

    request: values.Request
    ids: CallIds
    reading: ReplyReading | None
    announces: bool
    on_call: Callable[[], Awaitable[None]] | None = None
    on_end: Callable[[], Awaitable[None]] | None = None
    pieces: list[str] = []
    thoughts: list[str] = []
    halves: dict[str, tuple[str, list[str]]] = {}
    calls: list[values.ToolCall] = []
    finish: FinishReason | None = None
    raw: str = ""
    usage: values.Usage | None = None
    steps: int = 1
    fault: Fault | None = None
    found_here: bool = False

    @property
    def has_begun(self) -> bool:
        return bool(self.pieces or self.thoughts or self.calls or self.halves)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def reasoning(self) -> str:
        return "".join(self.thoughts)

    def broken_off(self, how: str) -> values.AssistantMessage:
        """Return the message of a reply that failed, with what came of its incomplete calls."""
        named = ((key, name, "".join(text)) for key, (name, text) in self.halves.items())
        half = (values.ToolCall(*each) for each in named)
        return values.AssistantMessage(self.text, (*self.calls, *half), self.reasoning, how)

    def keep(self, part: Part) -> Part:
        """Add a part that is no text, and return it as the loop reads it."""
        came_as: Any = part
        if self.reading is not None:
            part = read_part(part, self.request, self.reading)
        if type(part) is ToolCallPart:
            if self.halves:
                self.halves.pop(part.call.id, None)
            self.calls.append(self.ids.own(part.call, came_as.call))
        elif type(part) is Finish:
            self.finish, self.raw, self.usage = part.reason, part.raw, part.usage
            self.steps = max(1, part.steps)  # a reply that reports no step would be free
        elif type(part) is StreamError:
            self.fault = part.fault
            self.found_here = part is not came_as
        elif type(part) is values.ReasoningDelta:
            self.thoughts.append(part.text)
        elif type(part) is values.ToolCallDelta:
            _, pieces = self.halves.setdefault(part.call_id, (part.name, []))
            pieces.append(part.arguments)
        return part


def read_part(part: Part, request: values.Request, reading: ReplyReading) -> Part:
    """Return a part as a program's client reads it. The trace has the part as it arrived."""
    if type(part) is Finish:
        word = part.raw
        if word in reading.failing_words:
            return StreamError(Fault(f"the provider finished with {word}", code=word))
        if reading.finish_words is not None and word and word not in reading.finish_words:
            return structs.replace(part, reason=FinishReason.OTHER)
    if type(part) is ToolCallPart and reading.lower_case_names:
        names, lower = {tool.name for tool in request.tools}, part.call.name.lower()
        if part.call.name not in names and lower in names:
            return ToolCallPart(structs.replace(part.call, name=lower))
    return part


class ModelCalls:
    """Makes the model calls of one conversation."""

    def __init__(self, settings: EngineSettings, recorder: Recorder, user_code: UserCode) -> None:
        self._ids = CallIds(settings.history, recorder)
        self._reading = None if settings.replies == ReplyReading() else settings.replies
        self._callbacks = own = settings.callbacks
        self._notifies = any((own.on_chunk, own.on_text, own.on_tool_call))
        self._user_code = user_code
        self._cancellation = user_code.cancellation
        self._loop = user_code.loop
        limits = settings.limits
        self._first_ns = NS_PER_MS * min(limits.first_part_timeout_ms, limits.model_call_timeout_ms)
        self._whole_ns = NS_PER_MS * limits.model_call_timeout_ms

    def begin(self, request: values.Request, *, quiet: bool) -> ReplySoFar:
        """Return a reply to be read now. `quiet` notifies no callback: for a summary."""
        return ReplySoFar(request, self._ids, self._reading, self._notifies and not quiet)

    def read(self, stream: RecordedStream, reply: ReplySoFar) -> Rest:
        """Take the parts of `stream` into `reply`, in which they stay if the run is stopped."""
        is_quiet = not reply.announces and reply.on_call is None
        if is_quiet and stream.take_whole(reply.pieces, reply.keep):
            self._cancellation.check()
            return None
        return self._read_on(stream, reply, self._loop.now_ns)

    async def _read_on(self, stream: RecordedStream, reply: ReplySoFar, start_ns: int) -> None:
        parts = self._read_parts(stream, reply, start_ns)
        if self._notifies:
            with Timeout(self._loop, start_ns + self._whole_ns, sets_timer=False) as bound:
                held = await parts
            if bound.expired:  # in a callback
                reply.fault, reply.found_here = _TIMED_OUT, True
        else:
            held = await parts
        if held is None:
            self._cancellation.check()
        if reply.fault is None and reply.finish is None:
            if reply.on_end is not None:
                await reply.on_end()
            if held is None:
                reply.finish = FinishReason.INTERRUPTED
                return
            await self._announce(reply.keep(held), reply)
            self._cancellation.check()

    async def _read_parts(
        self, stream: RecordedStream, reply: ReplySoFar, start_ns: int
    ) -> Finish | None:
        """Take the parts. Return a finish that has to wait until `on_end` was awaited."""
        first_ns, whole_ns = start_ns + self._first_ns, start_ns + self._whole_ns
        try:
            while not stream.ended:
                if (part := stream.take()) is None:
                    more = begin(stream.wait())
                    if type(more) is Started:
                        until_ns = whole_ns if reply.has_begun else first_ns
                        if not await self._wait(more, reply, until_ns):
                            break
                elif type(part) is TextDelta:
                    reply.pieces.append(part.text)
                    if reply.announces:
                        await self._announce(part, reply)
                elif type(part) is Finish and stream.keeps_finish:
                    return part
                else:
                    await self._announce(reply.keep(part), reply)
                    # The finish counts after the tools that run: an end is found after them.
                    stream.keeps_finish = reply.on_end is not None and bool(reply.calls)
        finally:
            if stream.needs_closing:
                with Timeout(self._loop, whole_ns) as timeout:
                    await stream.aclose()
                if timeout.expired:
                    reply.fault, reply.found_here = _TIMED_OUT, True
        return None

    async def _wait(self, more: Started, reply: ReplySoFar, until_ns: int) -> bool:
        """Wait for more parts. Return False if the wait took too long, or an abort broke it off."""
        with Timeout(self._loop, until_ns) as timeout, self._cancellation.breaking(timeout):
            await more
        if not (timeout.broken or timeout.expired):
            return True
        reply.fault, reply.found_here = ABORTED if timeout.broken else _TIMED_OUT, True
        return False

    async def _announce(self, part: Part, reply: ReplySoFar) -> None:
        callbacks, announces = self._callbacks, reply.announces
        if announces and callbacks.on_chunk is not None:
            await self._user_code.notify(callbacks.on_chunk, (part,))
        if type(part) is TextDelta and announces and callbacks.on_text is not None:
            await self._user_code.notify(callbacks.on_text, (part.text,))
        elif type(part) is ToolCallPart:
            if announces and callbacks.on_tool_call is not None:
                await self._user_code.notify(callbacks.on_tool_call, (reply.calls[-1],))
            if reply.on_call is not None:
                await reply.on_call()

"""One model call: read the stream of its reply, and notify the callbacks.

Not here: hooks around the call and what becomes of the reply (handlers.py), and the recording of
its parts (world/model_port.py). The rule to keep: this is the hottest path, run once per part; no
JSON, no copy, no look at the history.
"""

from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct

from simloop.engine.reading import read_part
from simloop.engine.refusals import REQUEST_ABORTED
from simloop.engine.run_context import RunContext
from simloop.kernel.limits import Limits
from simloop.kernel.replies import ReplyReading
from simloop.messages import (
    AssistantMessage,
    Fault,
    Finish,
    FinishReason,
    Message,
    Part,
    ReasoningDelta,
    Request,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    Usage,
)
from simloop.trace import entries
from simloop.virtual.clock.awaitables import Started, begin
from simloop.virtual.clock.timeouts import NS_PER_MS, Timeouts
from simloop.world.model_port import RecordedStream

_TIMED_OUT = Fault("the model did not answer in time", code="timeout")
_ABORTED = Fault(REQUEST_ABORTED, code="aborted")
_AS_IT_COMES = ReplyReading()


class ReplySoFar(Struct, eq=False):
    """The part of a reply that has been received. `finish` is None until the stream says, or ends.

    `on_call` is awaited after each call that arrives, `on_end` before the end of the reply is
    taken: the finish of a reply whose tools start when called counts after their results.
    `halves` has the names, and pieces of the arguments, of calls that are not whole, by their ids.
    `found_here` says that the engine, and not the model, made the `fault`.
    """

    on_call: Callable[[], Awaitable[None]] | None = None
    on_end: Callable[[], Awaitable[None]] | None = None
    pieces: list[str] = []
    thoughts: list[str] = []
    halves: dict[str, tuple[str, list[str]]] = {}
    calls: list[ToolCall] = []
    finish: FinishReason | None = None
    raw: str = ""
    usage: Usage | None = None
    steps: int = 1
    fault: Fault | None = None
    found_here: bool = False

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self.pieces)

    @property
    def reasoning(self) -> str:
        """Return the reasoning so far."""
        return "".join(self.thoughts)

    def half_calls(self) -> list[ToolCall]:
        """Return the incomplete calls, each with the received part of its arguments."""
        halves = self.halves.items()
        return [ToolCall(call_id, name, "".join(pieces)) for call_id, (name, pieces) in halves]


class ModelCalls:
    """Makes the model calls of one conversation."""

    def __init__(self, limits: Limits, context: RunContext, reading: ReplyReading) -> None:
        self._reading = None if reading == _AS_IT_COMES else reading
        self._callbacks = context.callbacks
        self._recorder = context.recorder
        own = context.callbacks
        self._notifies = any((own.on_chunk, own.on_text, own.on_tool_call))
        self._user_code = context.user_code
        self._cancellation = context.cancellation
        self._call_ids: dict[str, int] = {}  # each with the last number that was put behind it
        self._first_ns = NS_PER_MS * min(limits.first_part_timeout_ms, limits.model_call_timeout_ms)
        self._whole_ns = NS_PER_MS * limits.model_call_timeout_ms

    def know_ids(self, history: Iterable[Message]) -> None:
        """Mark the ids of the calls in `history` as used."""
        for message in history:
            if isinstance(message, AssistantMessage):
                self._call_ids.update({call.id: 1 for call in message.calls})

    async def read(
        self, stream: RecordedStream, reply: ReplySoFar, timeouts: Timeouts, *, quiet: bool
    ) -> None:
        """Take the parts of `stream` into `reply`, in which they stay if the run is stopped.

        `quiet` notifies no callback: for a summary, which is no part of the conversation.
        """
        held = None
        if self._notifies:
            with timeouts.around(timeouts.loop.now_ns + self._whole_ns) as bound:
                held = await self._read_parts(stream, reply, timeouts, quiet=quiet)
            if bound.expired:  # in a callback
                reply.fault, reply.found_here = _TIMED_OUT, True
        else:
            held = await self._read_parts(stream, reply, timeouts, quiet=quiet)
        if held is None:
            self._cancellation.check()
        if reply.fault is None and reply.finish is None:
            if reply.on_end is not None:
                await reply.on_end()
            await self._end(held, reply, stream.request, timeouts)

    async def _read_parts(
        self, stream: RecordedStream, reply: ReplySoFar, timeouts: Timeouts, *, quiet: bool
    ) -> Finish | None:
        """Take the parts. Return a finish that has to wait until `on_end` was awaited."""
        announces = self._notifies or reply.on_call is not None
        # Pieces of text that no callback sees go from the stream into the reply, many at once.
        texts = None if self._notifies and not quiet else reply.pieces
        start_ns = timeouts.loop.now_ns
        first_ns, whole_ns = start_ns + self._first_ns, start_ns + self._whole_ns
        has_begun = False
        try:
            while not stream.ended:
                part = stream.take(texts)
                if part is None:
                    more = begin(stream.wait())
                    if type(more) is Started:
                        until_ns = whole_ns if has_begun or reply.pieces else first_ns
                        if not await self._wait(more, reply, until_ns, timeouts):
                            break
                    continue
                has_begun = True
                if type(part) is TextDelta:
                    reply.pieces.append(part.text)
                    if texts is None:
                        await self._announce_text(part, timeouts)
                elif type(part) is Finish and stream.keeps_finish:
                    return part
                else:
                    kept = self._keep(part, reply, stream.request)
                    if announces:
                        await self._announce(kept, reply, timeouts, quiet=quiet)
                        # The finish counts after the tools that run: an end is found after them.
                        stream.keeps_finish = reply.on_end is not None and bool(reply.calls)
        finally:
            if stream.needs_closing:
                with timeouts.at(whole_ns) as timeout:
                    await stream.aclose()
                if timeout.expired:
                    reply.fault, reply.found_here = _TIMED_OUT, True
        return None

    async def _wait(
        self, more: Started, reply: ReplySoFar, until_ns: int, timeouts: Timeouts
    ) -> bool:
        """Wait for more parts. Return False if the wait took too long, or an abort broke it off."""
        with timeouts.at(until_ns) as timeout, self._cancellation.breaking(timeout):
            await more
        if not (timeout.broken or timeout.expired):
            return True
        reply.fault = _ABORTED if timeout.broken else _TIMED_OUT
        reply.found_here = True
        return False

    async def _announce_text(self, part: TextDelta, timeouts: Timeouts) -> None:
        """Notify the callbacks of a piece of text."""
        callbacks = self._callbacks
        if callbacks.on_chunk is not None:
            await self._user_code.notify(callbacks.on_chunk, (part,), timeouts)
        if callbacks.on_text is not None:
            await self._user_code.notify(callbacks.on_text, (part.text,), timeouts)

    async def _end(
        self, held: Finish | None, reply: ReplySoFar, request: Request, timeouts: Timeouts
    ) -> None:
        """Apply the finish that was held back; without one, the stream was interrupted."""
        if held is None:
            reply.finish = FinishReason.INTERRUPTED
            return
        kept = self._keep(held, reply, request)
        await self._announce(kept, reply, timeouts, quiet=False)
        self._cancellation.check()

    def _keep(self, part: Part, reply: ReplySoFar, request: Request) -> Part:
        """Add a part that is no text, and return it as the loop reads it."""
        came_as = part
        if self._reading is not None:
            part = read_part(part, request, self._reading)
        if type(part) is ToolCallPart:
            if reply.halves:
                reply.halves.pop(part.call.id, None)
            call, ids = part.call, self._call_ids
            if part is came_as and call.id and call.id not in ids:
                ids[call.id] = 1  # the usual case of `_own`: nothing is renamed
            else:
                call = self._own(call, came_as)
            reply.calls.append(call)
        elif type(part) is Finish:
            reply.finish, reply.raw, reply.usage = part.reason, part.raw, part.usage
            reply.steps = max(1, part.steps)  # a reply that reports no step would be free
        elif type(part) is StreamError:
            reply.fault = part.fault
            reply.found_here = part is not came_as
        elif type(part) is ReasoningDelta:
            reply.thoughts.append(part.text)
        elif type(part) is ToolCallDelta:
            _, pieces = reply.halves.setdefault(part.call_id, (part.name, []))
            pieces.append(part.arguments)
        return part

    async def _announce(
        self, part: Part, reply: ReplySoFar, timeouts: Timeouts, *, quiet: bool
    ) -> None:
        """Notify the callbacks of a part, and start the tool of a call that starts when called."""
        callbacks = self._callbacks
        if not quiet and callbacks.on_chunk is not None:
            await self._user_code.notify(callbacks.on_chunk, (part,), timeouts)
        if type(part) is ToolCallPart:
            if not quiet and callbacks.on_tool_call is not None:
                await self._user_code.notify(callbacks.on_tool_call, (reply.calls[-1],), timeouts)
            if reply.on_call is not None:
                await reply.on_call()

    def _own(self, call: ToolCall, came_as: Part) -> ToolCall:
        """Return the call under an id that no other call has; record a change of id or name."""
        unique = self._unique(call.id)
        if unique != call.id:
            call = ToolCall(unique, call.name, call.arguments)
        if type(came_as) is ToolCallPart and came_as.call != call:
            self._recorder.record(entries.CallRenamed, came_as.call.id, call.id, call.name)
        return call

    def _unique(self, call_id: str) -> str:
        """Return the id, or a new one if it is missing or already used in this run (bug D14).

        A provider refuses a request in which two calls share an id, or have none.
        """
        unique, number = call_id, self._call_ids.get(call_id, 1)
        while not unique or unique in self._call_ids:
            number += 1
            unique = f"{call_id or 'call'}#{number}"
        self._call_ids[unique] = 1
        self._call_ids[call_id] = number
        return unique

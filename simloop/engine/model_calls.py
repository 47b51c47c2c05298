"""One model call: send the request, read the stream, tell the callbacks, record it all.

Not here: hooks around the call and what becomes of the reply (handlers.py). The rule to keep: this
is the hottest path, run once per part; no JSON, no copy, no look at the history.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from simloop.engine.cancellation import Timeout, Timeouts
from simloop.engine.refusals import REQUEST_ABORTED
from simloop.engine.run_context import RunContext
from simloop.engine.user_code import describe
from simloop.errors import RunawayRun, ScenarioError, SimloopError
from simloop.escape import writable
from simloop.kernel.limits import Limits
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
from simloop.trace.entries import AnyEntry
from simloop.world.fake_model import Model
from simloop.world.user_errors import keep

_NS_PER_MS = 1_000_000
# A stream that never ends and never waits passes no bound on time: this one stops it.
MAX_ENTRIES = 10_000_000


class ReplySoFar:
    """The part of a reply that has been received. `finish` is None until the stream says, or ends.

    `on_call` is awaited after each call that arrives, `on_end` before the end of the reply is
    taken: the finish of a reply whose tools start when called comes after their results.
    """

    __slots__ = (
        "calls", "fault", "finish", "halves", "on_call", "on_end", "pieces", "raw", "steps",
        "thoughts", "usage",
    )  # fmt: skip

    def __init__(
        self,
        on_call: Callable[[], Awaitable[None]] | None = None,
        on_end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.on_call = on_call
        self.on_end = on_end
        self.pieces: list[str] = []
        self.thoughts: list[str] = []
        self.halves: dict[str, tuple[str, list[str]]] = {}  # by id: names and pieces of arguments
        self.calls: list[ToolCall] = []
        self.finish: FinishReason | None = None
        self.raw = ""
        self.usage: Usage | None = None
        self.steps = 1
        self.fault: Fault | None = None

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
    """Makes model calls for one run."""

    def __init__(
        self, model: Model, limits: Limits, session: RunContext, *, yields: bool = False
    ) -> None:
        self._model = model
        self._yields = yields  # after each part: listeners may act on it before the next
        self._limits = limits
        self._callbacks = session.callbacks
        self._recorder = session.recorder
        self._user_code = session.user_code
        self._interrupts = session.interrupts
        self._call_ids: dict[str, int] = {}  # each with the last number that was put behind it
        self._first_ms = min(limits.first_part_timeout_ms, limits.model_call_timeout_ms)

    def know_ids(self, history: Iterable[Message]) -> None:
        """Mark the ids of the calls in `history` as used."""
        for message in history:
            if isinstance(message, AssistantMessage):
                self._call_ids.update({call.id: 1 for call in message.calls})

    async def read(
        self, request: Request, reply: ReplySoFar, watch: Timeouts, *, quiet: bool
    ) -> None:
        """Stream the answer to `request` into `reply`, in which it stays if the run is stopped.

        `quiet` tells no callback: for a summary, which is no part of the conversation.
        """
        end_ns = watch.loop.now_ns + self._limits.model_call_timeout_ms * _NS_PER_MS
        with watch.deadline(self._first_ms) as deadline, self._interrupts.breaking(deadline):
            held = await self._read_parts(request, reply, watch, deadline, end_ns, quiet=quiet)
        if deadline.broken:
            if reply.finish is None and reply.fault is None:
                reply.fault = Fault(REQUEST_ABORTED, code="aborted")
        elif deadline.expired:
            reply.fault = Fault("the model did not answer in time", code="timeout")
        elif reply.fault is None and reply.finish is None:
            if reply.on_end is not None:
                await reply.on_end()
            await self._end(held, reply, watch)

    async def _end(self, held: Finish | None, reply: ReplySoFar, watch: Timeouts) -> None:
        """Apply the finish that was held back; without one, the stream was interrupted."""
        if held is None:
            reply.finish = FinishReason.INTERRUPTED
            self._recorder.record(entries.Finish, reply.finish, "")
            return
        if self._callbacks.on_chunk is not None:
            await self._user_code.notify(self._callbacks.on_chunk, (held,), watch)
        await self._take(held, reply, watch, quiet=False)
        self._interrupts.check()

    async def _read_parts(
        self,
        request: Request,
        reply: ReplySoFar,
        watch: Timeouts,
        deadline: Timeout,
        end_ns: int,
        *,
        quiet: bool,
    ) -> Finish | None:
        """Take the parts. Returns a finish that has to wait until `on_end` was awaited."""
        interrupts, recorder = self._interrupts, self._recorder
        record, clock = recorder.entries, recorder.clock
        append, text_delta = record.append, entries.TextDelta  # looked up once, used per part
        on_chunk = None if quiet else self._callbacks.on_chunk
        on_text = None if quiet else self._callbacks.on_text
        first, ours, stream = True, False, None
        try:
            stream = self._model.stream(request)
            async for part in stream:
                ours = True
                if type(part) is Finish and reply.calls and reply.on_end is not None:
                    return part
                if interrupts.pending is not None:
                    interrupts.check()
                if deadline.cancels:
                    break  # it swallowed the deadline, and comes too late
                if first:
                    deadline.move(end_ns)
                    first = False
                _check_size(record)
                if on_chunk is not None:
                    await self._user_code.notify(on_chunk, (part,), watch)
                if type(part) is TextDelta:
                    text = part.text if part.text.isascii() else writable(part.text)
                    recorder.count(len(text))
                    append(text_delta(len(record), clock.now_ns, text))
                    reply.pieces.append(text)
                    if on_text is not None:
                        await self._user_code.notify(on_text, (text,), watch)
                elif await self._take(part, reply, watch, quiet=quiet):
                    break
                if self._yields:
                    await asyncio.sleep(0)
                ours = False
        except asyncio.CancelledError:
            if ours or watch.task.cancelling():
                raise
            reply.fault = Fault("the model was cancelled")  # by itself: bug D4
        except Exception as error:
            if ours or isinstance(error, SimloopError):
                raise  # simloop is wrong, or the script
            keep(self._user_code.raised, "the model", error)  # it may be user code
            reply.fault = _fault_of(error)
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        interrupts.check()
        return None

    async def _take(self, part: Part, reply: ReplySoFar, watch: Timeouts, *, quiet: bool) -> bool:
        """Add a part that is no text, and return whether it is the last one."""
        record = self._recorder.record
        match part:
            case ToolCallPart(call=ToolCall(id=call_id, name=name, arguments=arguments)):
                reply.halves.pop(call_id, None)
                call_id = self._unique(writable(call_id))
                call = ToolCall(call_id, writable(name), writable(arguments))
                record(entries.ToolCall, call.id, call.name, call.arguments)
                reply.calls.append(call)
                if not quiet and self._callbacks.on_tool_call is not None:
                    await self._user_code.notify(self._callbacks.on_tool_call, (call,), watch)
                if reply.on_call is not None:
                    await reply.on_call()
                return False
            case Finish(reason=reason, raw=raw, usage=usage, steps=steps):
                record(entries.Finish, reason, writable(raw), usage, steps)
                reply.finish, reply.raw, reply.usage = reason, raw, usage
                reply.steps = max(1, steps)  # a reply that reports no step would be free
                return True
            case StreamError(fault=fault):
                reply.fault = _writable_fault(fault)
                return True
            case ReasoningDelta(text=text):
                reply.thoughts.append(writable(text))
                record(entries.ReasoningDelta, reply.thoughts[-1])
            case ToolCallDelta(call_id=call_id, name=name, arguments=arguments):
                _, pieces = reply.halves.setdefault(call_id, (writable(name), []))
                pieces.append(writable(arguments))
                given = (writable(call_id), writable(name), writable(arguments))
                record(entries.ToolCallDelta, *given)
            case _:
                raise ScenarioError(
                    f"the model gave a {type(part).__name__}, which is no part of a stream",
                    key="model",
                    hint="return text, a Reply, or parts such as TextDelta and Finish",
                )
        return False

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


def _check_size(record: list[AnyEntry]) -> None:
    if len(record) > MAX_ENTRIES:
        raise RunawayRun(f"the trace passed {MAX_ENTRIES} entries without an outcome")


def _writable_fault(fault: Fault) -> Fault:
    """Return the fault with text that can be encoded."""
    headers = tuple((writable(name), writable(value)) for name, value in fault.headers)
    return Fault(
        writable(fault.message),
        status=fault.status,
        code=writable(fault.code),
        headers=headers,
        code_is_type=fault.code_is_type,
    )


# What JavaScript's SDKs and their ports to Python raise when a request is aborted.
_ABORT_ERRORS = frozenset({"AbortError", "APIUserAbortError"})


def _fault_of(error: Exception) -> Fault:
    """Return the fault for an exception of a model function or an SDK, by status or type."""
    message = describe(error)
    status = getattr(error, "status_code", getattr(error, "status", None))
    if isinstance(status, int):
        return Fault(message, status=status)
    if type(error).__name__ in _ABORT_ERRORS:
        return Fault(message, code="aborted")
    if isinstance(error, TimeoutError):
        return Fault(message, code="timeout")
    return Fault(message, code="connection" if isinstance(error, ConnectionError) else "")

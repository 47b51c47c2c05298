"""The tools as an agent sees them: each start and each result is recorded as it passes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from simloop.errors import SimloopError
from simloop.escape import writable
from simloop.messages import ToolCall, ToolMessage, ToolResult, ToolSpec
from simloop.trace import entries
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.clock.tasks import Started, begin, is_coroutine
from simloop.virtual.clock.timeouts import Timeout, Timeouts
from simloop.world.chance import FaultSites
from simloop.world.own_tools import OwnTools, ToolBehaviour
from simloop.world.tools import Tool, ToolServer, canonical_json, read_arguments
from simloop.world.user_functions import UserError, keep, message_of
from simloop.world.user_port import no_turn


def unbroken(_: Timeout) -> AbstractContextManager[None]:
    """Let no abort break the timeout off."""
    return nullcontext()


Breaking: TypeAlias = Callable[[Timeout], AbstractContextManager[None]]
"""A function that lets an abort break a timeout off while its block runs."""


@dataclass(eq=False)
class ToolsPort:
    """Runs tools by name. `timeout_ms` bounds a call whose tool has no timeout of its own.

    Without `results_fail` a result that a tool returns is a success, whatever it says of itself.
    """

    tools: Mapping[str, Tool]
    _recorder: Recorder
    _loop: VirtualLoop
    _raised: list[UserError]
    _timeout_ms: int | None = None
    results_fail: bool = True
    behaviours: Mapping[str, ToolBehaviour] | None = None
    sites: FaultSites | None = None
    specs: tuple[ToolSpec, ...] = ()
    turn: Callable[[], Awaitable[None]] = no_turn
    server: ToolServer = field(default_factory=ToolServer)
    served: int = 0  # calls that came through a server
    own_tools: OwnTools = field(init=False)

    def __post_init__(self) -> None:
        self.specs = tuple([tool.spec for tool in self.tools.values()])
        given = self._recorder, self._loop, self._timeout_ms
        self.own_tools = OwnTools(*given, self.behaviours or {}, self.sites)

    @property
    def now_ns(self) -> int:
        return self._loop.now_ns

    async def run(self, call: ToolCall) -> ToolMessage:
        """Run one call and return its result for the model, an error result if it cannot run."""
        await self.turn()
        call = ToolCall(writable(call.id), writable(call.name), writable(call.arguments))
        result = await self._run(call)
        await self.turn()
        return ToolMessage(call.id, writable(result.text), result.is_error)

    async def _run(self, call: ToolCall) -> ToolResult:
        tool = self.tools.get(call.name)
        if tool is None:
            return self.record(call, failed(f"tool {call.name} not found"))
        arguments, shown, wrong = read_arguments(tool, call.arguments)
        if wrong:
            return self.record(call, ToolResult(wrong, is_error=True))
        self.start(call, shown)
        result = self.begin(call, tool, arguments)
        if isinstance(result, ToolResult):
            return result
        waited = await self.wait(result, call, tool)
        assert waited is not None
        return waited

    def start(self, call: ToolCall, shown: str) -> None:
        recorder = self._recorder
        seq, at_ns = len(recorder.entries), recorder.clock.now_ns
        if seq > recorder.look_at:
            recorder.look()
        recorder.put(entries.ToolStarted(seq, at_ns, call.id, call.name, shown), len(shown))

    def begin(
        self, call: ToolCall, tool: Tool, arguments: dict[str, Any]
    ) -> "ToolResult | Started":
        """Run a tool up to its first wait, and return its result, or the rest to `wait` for."""
        try:
            value = tool.function.function(**arguments)
            if type(value) is str:  # most tools return text
                return self.record(call, ToolResult(value))
            if tool.function.is_async or is_coroutine(value):
                value = begin(value)
                if type(value) is Started:
                    return value
            result = self._returned(value)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a tool is user code
            result = self._failure(tool, error)
        return self.record(call, result)

    async def wait(
        self, started: Started, call: ToolCall, tool: Tool, breaking: Breaking = unbroken
    ) -> ToolResult | None:
        """Return the result of a tool that waits; None if an abort broke it off."""
        timeout_ms = tool.timeout_ms or self._timeout_ms
        result = None
        with Timeouts(self._loop).after(timeout_ms) as timeout, breaking(timeout):
            try:
                result = self._returned(await started)
            except (Exception, asyncio.CancelledError) as error:  # as in `begin`
                if isinstance(error, asyncio.CancelledError) and timeout.task.cancelling():
                    raise
                result = self._failure(tool, error)
        if timeout.expired:  # a result that comes all the same, from a tool that went on, is late
            result = failed(f"timed out after {timeout_ms} ms")
        return None if result is None else self.record(call, result)

    def record(self, call: ToolCall, result: ToolResult) -> ToolResult:
        recorder, text, details = self._recorder, result.text, result.details
        if details is not None:
            details = details_of(result, recorder)
        if not text.isascii():
            text = writable(text)
        seq, at_ns = len(recorder.entries), recorder.clock.now_ns
        entry = entries.ToolResult(seq, at_ns, call.id, call.name, text, result.is_error, details)
        recorder.put(entry, len(text))
        return result

    def _returned(self, value: Any) -> ToolResult:
        result = result_of(value)
        if result.is_error and not self.results_fail:
            return msgspec.structs.replace(result, is_error=False)
        return result

    def _failure(self, tool: Tool, error: BaseException) -> ToolResult:
        """Return the result for an exception; raise an error of simloop again."""
        if isinstance(error, SimloopError):  # a wrong scenario or an escape from the simulation
            self._recorder.keep(error)
            raise error
        if isinstance(error, asyncio.CancelledError):
            return failed("the tool was cancelled")  # by itself: no Exception, so bug D4
        keep(self._raised, f"the tool {tool.spec.name}", error)
        return failed(message_of(error) or type(error).__name__)


def failed(why: str) -> ToolResult:
    """Return the result of a call that failed."""
    return ToolResult(f"Error: {why}", is_error=True, details={"error": why})


def details_of(result: ToolResult, recorder: Recorder) -> object:
    """Return a copy of the details of `result`, or a text that names their type if not JSON."""
    details = result.details
    if details is None:
        return None
    try:
        text = canonical_json(details)
        recorder.count(len(text))
        return msgspec.json.decode(text)
    except (TypeError, ValueError, RecursionError):
        return f"no JSON: {type(details).__name__}"


def result_of(value: Any) -> ToolResult:
    """Return the value that a tool returned, as a result."""
    if isinstance(value, ToolResult):
        if not isinstance(value.text, str):
            raise TypeError("the text of a ToolResult must be text")
        return value
    return ToolResult(text_of(value))


def text_of(value: Any) -> str:
    """Return a value as the model reads it: text unchanged, None empty, all else as JSON."""
    if isinstance(value, str):
        return writable(value)
    return "" if value is None else canonical_json(value).decode()

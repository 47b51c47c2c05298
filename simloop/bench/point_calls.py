"""Calls of the hooks of one point, many at a time: by the engine, and by simpler means.

Not here: the order of the measurements (alternating.py) and the figures (hook_bench.py). The rule
to keep: `PointCalls` calls the engine's own code with inputs as in a run, so a faster or slower
engine shows in the figures.
"""

import asyncio
import copy
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from types import FunctionType
from typing import Any, Protocol

from simloop.engine.hooks import (
    AFTER_LLM_CALL,
    AFTER_TOOL_CALL,
    BEFORE_LLM_CALL,
    BEFORE_TOOL_CALL,
    AfterLLMCall,
    AfterToolCall,
    BeforeLLMCall,
    BeforeToolCall,
    HookInput,
)
from simloop.engine.parallel_hooks import ParallelHooks
from simloop.engine.user_code import UserCode
from simloop.errors import ScenarioError
from simloop.kernel.policies import HookIsolation, HookOrder
from simloop.messages import (
    AssistantMessage,
    FinishReason,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from simloop.trace.entries import Hook
from simloop.trace.recorder import Recorder
from simloop.virtual.timeouts import Timeouts
from simloop.world.cancellation import Cancellation
from simloop.world.tools import Tool
from simloop.world.user_function import UserFunction

_PATIENT = HookIsolation(timeout_ms=86_400_000)
"""A hook may wait for a day of virtual time. Real time does not depend on the length of it."""
_CALL = ToolCall("call-1", "read_file", '{"path": "README.md"}')
_STEP = (UserMessage("Read it."), AssistantMessage("", (_CALL,)), ToolMessage("call-1", "# Hello"))
_MESSAGES = _STEP * 10
_TOOLS = {"read_file": Tool(lambda path: path, name="read_file")}
_USAGE = Usage(100, 10)


def _after_llm_call() -> AfterLLMCall:
    reason = FinishReason.TOOL_CALLS
    return AfterLLMCall(1, "Let me look.", (_CALL,), reason, "tool-calls", _USAGE)


INPUTS: dict[str, Callable[[], HookInput]] = {
    BEFORE_LLM_CALL: lambda: BeforeLLMCall(1, _MESSAGES, "You help.", _TOOLS),
    AFTER_LLM_CALL: _after_llm_call,
    BEFORE_TOOL_CALL: lambda: BeforeToolCall(_CALL, {"path": "README.md"}),
    AFTER_TOOL_CALL: lambda: AfterToolCall(_CALL, {"path": "README.md"}, ToolResult("# Hello")),
}
"""The input of the hooks of each point, in the middle of a conversation of 30 messages."""


class FailingHookError(ScenarioError):
    """A hook fails at a point, in a call that is counted from 1. `detail` says how it fails."""

    def __init__(self, hook: str, point: str, call: int, detail: str) -> None:
        message = f"the hook {hook} fails at {point} in call {call:,}: {detail}"
        hint = "mend the hook, or annotate its parameter with the input of a point"
        super().__init__(message, key="hook", hint=hint)
        self.detail = detail


class Calls(Protocol):
    """Something that can be called many times."""

    async def batch(self, calls: int) -> int:
        """Make so many calls, and return the real nanoseconds that they took."""
        ...


class PointCalls:
    """The engine's calls of the hooks of a point. To be made and used on a running virtual clock.

    A batch raises FailingHookError if a hook fails in it: the time of a failure is no cost.
    """

    def __init__(
        self,
        point: str,
        hooks: Sequence[UserFunction],
        isolation: HookIsolation | None = None,
        order: HookOrder = HookOrder.SEQUENTIAL,
    ) -> None:
        loop: Any = asyncio.get_running_loop()
        task: Any = asyncio.current_task()
        self._point, self._hooks, self._make = point, tuple(hooks), INPUTS[point]
        self._called = 0
        self._recorder = Recorder([], loop)
        cancellation = Cancellation(loop)
        cancellation.open(task, None)
        self._user_code = (ParallelHooks if order is HookOrder.PARALLEL else UserCode)(
            isolation or _PATIENT, self._recorder, cancellation, []
        )
        self._timeouts = Timeouts(loop, task)

    def with_hooks(self, hooks: Sequence[UserFunction]) -> "PointCalls":
        """Return calls of other hooks by the same engine.

        Equal engines at other places in memory differ by up to 6 % on a busy machine.
        """
        others = copy.copy(self)
        others._hooks, others._called = tuple(hooks), 0  # noqa: SLF001 - of its own class
        return others

    async def batch(self, calls: int) -> int:
        """Pass through the point so many times, as the engine does."""
        point, hooks, make = self._point, self._hooks, self._make
        fire, timeouts = self._user_code.fire, self._timeouts
        start_ns = perf_counter_ns()
        for _ in range(calls):
            if hooks:
                await fire(point, hooks, make(), timeouts)
        took_ns = perf_counter_ns() - start_ns
        self._check_record()
        return took_ns

    def _check_record(self) -> None:
        """Empty the record. Raises FailingHookError for the first hook that failed or hung."""
        record = self._recorder.entries
        for entry in record:
            self._called += 1
            if isinstance(entry, Hook) and entry.result in {"failed", "timed-out"}:
                call = -(-self._called // len(self._hooks))
                raise FailingHookError(entry.hook, self._point, call, entry.detail)
        record.clear()


class IsolatedCalls(PointCalls):
    """Calls of hooks that never wait: the engine isolates them, and records nothing."""

    async def batch(self, calls: int) -> int:
        """Call each hook so many times, with inputs as in a run."""
        hooks, make, begin = self._hooks, self._make, self._user_code.begin
        start_ns = perf_counter_ns()
        for _ in range(calls):
            if hooks:
                given = make()
                arguments = (given,)
                for hook in hooks:
                    begin("hook", hook, arguments, given.keep)
        return perf_counter_ns() - start_ns


class NoCalls:
    """The loop of a batch alone: the time that is no part of the calls."""

    async def batch(self, calls: int) -> int:
        """Call nothing so many times."""
        start_ns = perf_counter_ns()
        for _ in range(calls):
            pass
        return perf_counter_ns() - start_ns


class UnitCalls:
    """A fixed computation in Python: the unit in which reports of different days are compared."""

    async def batch(self, calls: int) -> int:
        """Compute so many times."""
        start_ns = perf_counter_ns()
        for _ in range(calls):
            kept = {}
            for number in range(10):
                kept[number] = str(number)
        return perf_counter_ns() - start_ns


class PlainCalls:
    """A loop that calls functions with one input, without isolation and without a record."""

    def __init__(self, point: str, hooks: Sequence[UserFunction]) -> None:
        self._functions = [hook.function for hook in hooks]
        self._is_async = any(hook.is_async for hook in hooks)
        self._given = INPUTS[point]()

    async def batch(self, calls: int) -> int:
        """Call each function so many times."""
        functions, given = self._functions, self._given
        if self._is_async:
            start_ns = perf_counter_ns()
            for _ in range(calls):
                for function in functions:
                    await function(given)
        else:
            start_ns = perf_counter_ns()
            for _ in range(calls):
                for function in functions:
                    function(given)
        return perf_counter_ns() - start_ns


def has_pluggy() -> bool:
    """Return whether pluggy is installed: pytest needs it, and simloop does not."""
    try:
        import pluggy  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


class PluggyCalls:
    """Calls of plain functions by pluggy, the plugin system of pytest."""

    def __init__(self, point: str, hooks: Sequence[UserFunction]) -> None:
        import pluggy  # noqa: PLC0415 - a comparison for those who have it

        spec, implementation = pluggy.HookspecMarker("bench"), pluggy.HookimplMarker("bench")

        class Specification:
            @spec
            def call(self, given: object) -> None: ...

        manager = pluggy.PluginManager("bench")
        manager.add_hookspecs(Specification)
        for hook in hooks:

            class Plugin:
                call = staticmethod(implementation(_copy(hook.function)))

            manager.register(Plugin())
        self._call = manager.hook.call
        self._given = INPUTS[point]()

    async def batch(self, calls: int) -> int:
        """Call the functions so many times."""
        call, given = self._call, self._given
        start_ns = perf_counter_ns()
        for _ in range(calls):
            call(given=given)
        return perf_counter_ns() - start_ns


def _copy(function: Any) -> Callable[..., Any]:
    """Return a copy of a function, because pluggy marks the function itself."""
    code, names = function.__code__, function.__globals__
    return FunctionType(code, names, function.__name__, closure=function.__closure__)

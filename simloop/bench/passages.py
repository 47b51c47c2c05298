"""Passages of a hook point, as the engine makes them, with inputs as in a run."""

import asyncio
from collections.abc import Callable
from typing import Any

from simloop import messages
from simloop.engine.hook_meter import RealClock
from simloop.engine.hooks import (
    POINTS,
    AfterLLMCall,
    AfterToolCall,
    BeforeLLMCall,
    BeforeToolCall,
    HookInput,
)
from simloop.engine.user_code import UserCode
from simloop.errors import ScenarioError
from simloop.kernel.policies import HookIsolation
from simloop.trace.entries import Hook
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.timeouts import Timeouts
from simloop.world.cancellation import Cancellation
from simloop.world.tools import Tool
from simloop.world.user_function import UserFunction

_PATIENT = HookIsolation(timeout_ms=86_400_000)
"""A hook may wait for a day of virtual time. Real time does not depend on the length of it."""
_CALL = messages.ToolCall("call-1", "read_file", '{"path": "README.md"}')
_RESULT, _ASKS = messages.ToolResult("# Hello"), messages.FinishReason.TOOL_CALLS
_STEP = (
    messages.UserMessage("Read it."),
    messages.AssistantMessage("", (_CALL,)),
    messages.ToolMessage("call-1", _RESULT.text),
)
_TOOLS = {"read_file": Tool(lambda path: path, name="read_file")}
_MAKERS: tuple[Callable[[], HookInput], ...] = (
    lambda: BeforeLLMCall(1, _STEP * 10, "You help.", _TOOLS),
    lambda: AfterLLMCall(1, "Let me look.", (_CALL,), _ASKS, "tool-calls", None),
    lambda: BeforeToolCall(_CALL, {"path": "README.md"}),
    lambda: AfterToolCall(_CALL, {"path": "README.md"}, _RESULT),
)
INPUTS = dict(zip(POINTS, _MAKERS, strict=True))
"""The input of the hooks of each point, in the middle of a conversation of 30 messages."""


class Passages:
    """Passages of one point. To be made and used on a running virtual clock.

    Hooks that are compared share one object: equal engines at other places in memory differ by up
    to 6 % on a busy machine.
    """

    def __init__(self, point: str, clock: RealClock) -> None:
        loop: Any = asyncio.get_running_loop()
        task: Any = asyncio.current_task()
        self._point, self._clock, self._make = point, clock, INPUTS[point]
        self._recorder, cancellation = Recorder([], loop), Cancellation(loop)
        cancellation.open(task, None)
        self._user_code = UserCode(_PATIENT, self._recorder, cancellation, [])
        self._timeouts = Timeouts(loop, task)

    async def batch(self, hooks: tuple[UserFunction, ...], calls: int) -> int:
        """Pass through the point so many times, and return the nanoseconds that it took.

        Raises ScenarioError if a hook fails: the time of a failure is no cost.
        """
        make, fire, timeouts = self._make, self._user_code.fire, self._timeouts
        start_ns = self._clock()
        for _ in range(calls):
            if hooks:
                await fire(self._point, hooks, make(), timeouts)
        took_ns = self._clock() - start_ns
        record = self._recorder.entries
        for entry in record:
            if isinstance(entry, Hook) and entry.result in {"failed", "timed-out"}:
                message = f"the hook {entry.hook} fails at {self._point}: {entry.detail}"
                hint = "mend the hook, or annotate its parameter with the input of a point"
                raise ScenarioError(message, key="hook", hint=hint)
        record.clear()
        return took_ns

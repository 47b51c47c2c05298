"""Built-in hooks of the benchmark, which do nothing, read their input, replace it, or wait."""

import asyncio
from collections.abc import Callable
from types import FunctionType
from typing import Any

from simloop.engine.hooks import (
    AFTER_LLM_CALL,
    AFTER_TOOL_CALL,
    BEFORE_LLM_CALL,
    BEFORE_TOOL_CALL,
    AfterLLMCall,
    AfterToolCall,
    BeforeLLMCall,
    BeforeToolCall,
)
from simloop.messages import ToolResult
from simloop.world.user_function import UserFunction


def _nothing(given: object) -> None:
    """Do nothing."""


def _reads_request(given: BeforeLLMCall) -> int:
    return len(given.messages) + len(given.system_prompt) + len(given.tools)


def _reads_reply(given: AfterLLMCall) -> int:
    return len(given.text) + len(given.calls)


def _reads_call(given: BeforeToolCall) -> int:
    return len(given.call.name) + len(given.arguments)


def _reads_result(given: AfterToolCall) -> int:
    return len(given.call.name) + len(given.result.text)


def _replaces_prompt(given: BeforeLLMCall) -> None:
    given.system_prompt = "You help, briefly."


def _replaces_arguments(given: BeforeToolCall) -> None:
    given.arguments = {"path": "LICENSE"}


def _replaces_result(given: AfterToolCall) -> None:
    given.result = ToolResult("hidden")


SHAPES: dict[str, dict[str, Callable[[Any], object]]] = {
    "no-op": dict.fromkeys(
        (BEFORE_LLM_CALL, AFTER_LLM_CALL, BEFORE_TOOL_CALL, AFTER_TOOL_CALL), _nothing
    ),
    "reads": {
        BEFORE_LLM_CALL: _reads_request,
        AFTER_LLM_CALL: _reads_reply,
        BEFORE_TOOL_CALL: _reads_call,
        AFTER_TOOL_CALL: _reads_result,
    },
    "replaces": {
        BEFORE_LLM_CALL: _replaces_prompt,
        BEFORE_TOOL_CALL: _replaces_arguments,
        AFTER_TOOL_CALL: _replaces_result,
    },
}
"""The functions by shape and point. Nothing can be replaced after a model call."""


def shape(name: str, point: str, *, is_async: bool = False) -> UserFunction:
    """Return a built-in hook under the name that tables show. Each call makes another function."""
    function: Any = SHAPES[name][point]
    if not is_async:
        own = FunctionType(function.__code__, function.__globals__, function.__name__)
        return UserFunction(own, name)

    async def nothing(given: object) -> None:
        """Do nothing."""

    async def acts(given: object) -> None:
        function(given)

    return UserFunction(nothing if function is _nothing else acts, f"{name}, async")


def waiting(seconds: int) -> UserFunction:
    """Return an async, independent hook that waits for so much virtual time."""

    async def waits(given: object) -> None:
        del given
        await asyncio.sleep(seconds)

    return UserFunction(waits, f"waits {seconds}s", is_independent=True)

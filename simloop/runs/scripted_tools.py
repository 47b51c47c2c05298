"""The conversion of a scenario's tools to functions, and to settings for functions of an agent.

Not here: running them (world). The rule to keep: a function that takes no time is not async, which
avoids the cost of a coroutine.
"""

import asyncio
import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

from simloop.kernel.durations import UNITS_NS
from simloop.messages import ToolResult
from simloop.scenario.schema import ScriptedTool
from simloop.scenario.strict import differs
from simloop.world.fake_model import ScriptedFailure
from simloop.world.own_tools import ToolBehaviour
from simloop.world.tools import Tool
from simloop.world.tools_port import text_of

_ENDS = ("returns", "returns_chars", "raises", "cancels", "hangs")
_SETTINGS = (*_ENDS, "takes", "outlives_cancel", "timeout", "details")


def stated(spec: ScriptedTool) -> tuple[str, ...]:
    """Return the settings of a tool that state how it behaves."""
    return tuple(name for name in _SETTINGS if differs(spec, name))


def behaviours_of(tools: Mapping[str, ScriptedTool]) -> dict[str, ToolBehaviour]:
    """Return the behaviour of the tools for the case that the agent's own code calls them."""
    return {name: _behaviour(spec) for name, spec in tools.items() if stated(spec)}


def _behaviour(spec: ScriptedTool) -> ToolBehaviour:
    has_end = any(differs(spec, name) for name in _ENDS)
    return ToolBehaviour(
        wait=partial(_wait, spec) if spec.takes or spec.hangs else None,
        # A copy: the agent's code may change the value.
        result=(lambda: copy.deepcopy(_end(spec))) if has_end else None,
        details=spec.details,
        timeout_ms=_timeout_ms(spec),
    )


def scripted_tool(name: str, spec: ScriptedTool) -> Tool:
    """Return a tool of the world that behaves as `spec` says."""

    def answer(**_: Any) -> Any:
        value = _end(spec)
        if spec.details is None and not spec.terminate:
            return value
        return ToolResult(text_of(value), details=spec.details, terminate=spec.terminate)

    async def answer_later(**_: Any) -> Any:
        await _wait(spec)
        return answer()

    return Tool(
        answer_later if spec.takes or spec.hangs else answer,
        name=name,
        description=spec.description,
        parameters=spec.schema_of_arguments(),
        timeout_ms=_timeout_ms(spec),
        sequential=spec.sequential,
    )


def _timeout_ms(spec: ScriptedTool) -> int | None:
    return None if spec.timeout is None else spec.timeout // UNITS_NS["ms"]


def _end(spec: ScriptedTool) -> Any:
    """Return what the tool returns, or raise what it raises."""
    if spec.raises is not None:
        raise ScriptedFailure(spec.raises)
    if spec.cancels:
        raise asyncio.CancelledError
    return spec.returns if spec.returns_chars is None else "x" * spec.returns_chars


async def _wait(spec: ScriptedTool) -> None:
    """Take the time of the tool; go on after a cancellation if the tool outlives it."""
    try:
        await pause(spec.takes, hangs=spec.hangs)
    except asyncio.CancelledError:
        if not spec.outlives_cancel:
            raise
        await asyncio.sleep(spec.outlives_cancel / 1e9)


async def pause(takes_ns: int, *, hangs: bool) -> None:
    """Wait in virtual time, and without end if it hangs."""
    await asyncio.sleep(takes_ns / 1e9)
    if hangs:
        await asyncio.get_running_loop().create_future()

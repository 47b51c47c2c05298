"""The tools and hooks that a scenario describes, as plain Python functions.

The simulator knows one kind of each. A function that takes no time is not async, which avoids the
cost of a coroutine.
"""

import asyncio
import copy
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec

from simloop.engine.hooks import Hooks
from simloop.kernel.durations import UNITS_NS
from simloop.messages import ToolResult
from simloop.scenario.fields import differs
from simloop.scenario.schema import HookPoint, Scenario, ScriptedHook, ScriptedTool
from simloop.world.fake_model import ScriptedFailure
from simloop.world.files import Files
from simloop.world.own_tools import ToolBehaviour
from simloop.world.tools import Tool
from simloop.world.tools_port import text_of
from simloop.world.user_function import UserFunction

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
    if spec.raises is not None:
        raise ScriptedFailure(spec.raises)
    if spec.cancels:
        raise asyncio.CancelledError
    return spec.returns if spec.returns_chars is None else "x" * spec.returns_chars


async def _wait(spec: ScriptedTool) -> None:
    """Take the time of the tool; go on after a cancellation if the tool outlives it."""
    try:
        await _pause(spec.takes, hangs=spec.hangs)
    except asyncio.CancelledError:
        if not spec.outlives_cancel:
            raise
        await asyncio.sleep(spec.outlives_cancel / 1e9)


async def _pause(takes_ns: int, *, hangs: bool) -> None:
    await asyncio.sleep(takes_ns / 1e9)
    if hangs:
        await asyncio.get_running_loop().create_future()


def scripted_tools(scenario: Scenario, files: Files | None = None) -> dict[str, Tool]:
    """Return the scenario's tools by name; the tools over its files come first."""
    own = {name: scripted_tool(name, spec) for name, spec in scenario.tools.items()}
    return own if files is None else {**file_tools_of(scenario, files), **own}


def file_tools_of(scenario: Scenario, files: Files) -> dict[str, Tool]:
    """Return the tools over the files of one run."""
    # Few scenarios have files, and the patterns of a shell take long to compile.
    from simloop.world.file_tools import file_tools  # noqa: PLC0415

    return file_tools(files, scenario.shell_timeout // 10**6)


def scripted_hooks(scenario: Scenario) -> Hooks:
    """Return the scenario's hooks, in order."""

    def at(point: HookPoint) -> Iterable[UserFunction]:
        numbered = enumerate(scenario.hooks)
        return [_hook(spec, number) for number, spec in numbered if spec.at == point]

    return Hooks(
        before_llm_call=at("before_llm_call"),
        after_llm_call=at("after_llm_call"),
        before_tool_call=at("before_tool_call"),
        after_tool_call=at("after_tool_call"),
    )


def _hook(spec: ScriptedHook, number: int) -> UserFunction:
    asked = 0
    added = {name: scripted_tool(name, tool) for name, tool in spec.add_tools.items()}

    def is_due(given: Any) -> bool:
        nonlocal asked
        if spec.tool is not None and given.call.name != spec.tool:
            return False
        asked += 1
        return spec.nth in (None, asked)

    def act(given: Any) -> None:
        if is_due(given):
            do(given)

    def do(given: Any) -> None:
        if spec.raises is not None:
            raise ScriptedFailure(spec.raises)
        if added:
            given.tools.update(added)
        _change(spec, given)

    async def act_later(given: Any) -> None:
        if not is_due(given):
            return
        if spec.waits == "after":
            do(given)
        await _pause(spec.takes, hangs=spec.hangs)
        if spec.waits == "before":
            do(given)

    return UserFunction(
        act_later if spec.takes or spec.hangs else act,
        spec.name or f"hook-{number}",
        is_independent=spec.independent,
    )


def _change(spec: ScriptedHook, given: Any) -> None:
    if spec.block is not None:
        given.block(spec.block)
    if spec.system_prompt is not None:
        given.system_prompt = spec.system_prompt
    for name in spec.hide_tools:
        given.tools.pop(name, None)
    if spec.arguments:
        given.arguments.update(spec.arguments)  # in place: the change must not reach the reply
    if spec.result is not None:
        given.result = msgspec.structs.replace(given.result, text=spec.result)

"""From a Scenario to the World that a run takes place in.

Not here: running it (simulation.py). The rule to keep: a scripted tool or hook becomes a plain
Python function, so the simulator knows one kind of each, and a function that takes no time is not
async, so that it costs nothing.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from simloop.errors import ScenarioError
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Machine
from simloop.loops.reference import ReferenceLoop
from simloop.messages import ToolResult
from simloop.scenario.schema import HookPoint, Scenario, ScriptedHook, ScriptedTool
from simloop.sim.hooks import Hooks, UserFunction
from simloop.sim.model import FakeModel
from simloop.sim.tools import Tool

LOOPS: dict[str, Callable[[Limits], Machine]] = {ReferenceLoop.name: ReferenceLoop}
"""The loop designs by name."""


def machine_for(loop: str, limits: Limits) -> Machine:
    """The machine of that name. Raises ScenarioError, naming those there are."""
    make = LOOPS.get(loop)
    if make is None:
        known = ", ".join(sorted(LOOPS))
        raise ScenarioError(f"there is no loop `{loop}`", key="loop", hint=f"known: {known}")
    return make(limits)


def fake_model(scenario: Scenario) -> FakeModel:
    """A fake that plays the scenario's script."""
    return FakeModel(
        [reply.entry(f"model.{index}") for index, reply in enumerate(scenario.model)],
        [reply.entry(f"summaries.{index}") for index, reply in enumerate(scenario.summaries)],
    )


def scripted_tools(scenario: Scenario) -> dict[str, Tool]:
    """The scenario's tools by name."""
    return {name: _tool(name, spec) for name, spec in scenario.tools.items()}


def scripted_hooks(scenario: Scenario) -> Hooks:
    """The scenario's hooks, in order."""

    def at(point: HookPoint) -> Iterable[UserFunction]:
        numbered = enumerate(scenario.hooks)
        return [_hook(spec, number) for number, spec in numbered if spec.at == point]

    return Hooks(
        before_llm_call=at("before_llm_call"),
        after_llm_call=at("after_llm_call"),
        before_tool_call=at("before_tool_call"),
        after_tool_call=at("after_tool_call"),
    )


class ScriptedFailure(Exception):  # noqa: N818 - a tool or hook that the script lets fail
    """What a scripted tool or hook raises; user code, as far as the simulator knows."""


def _tool(name: str, spec: ScriptedTool) -> Tool:
    def answer(**_: Any) -> Any:
        if spec.raises is not None:
            raise ScriptedFailure(spec.raises)
        if spec.cancels:
            raise asyncio.CancelledError
        return spec.returns if spec.returns_chars is None else "x" * spec.returns_chars

    async def answer_later(**_: Any) -> Any:
        try:
            await _pause(spec.takes, hangs=spec.hangs)
        except asyncio.CancelledError:
            if not spec.outlives_cancel:
                raise
            await asyncio.sleep(spec.outlives_cancel / 1e9)
        return answer()

    return Tool(
        answer_later if spec.takes or spec.hangs else answer,
        name=name,
        description=spec.description,
        parameters=spec.schema_of_arguments(),
        timeout_ms=spec.timeout_ms,
    )


async def _pause(takes_ns: int, *, hangs: bool) -> None:
    await asyncio.sleep(takes_ns / 1e9)
    if hangs:
        await asyncio.get_running_loop().create_future()


def _hook(spec: ScriptedHook, number: int) -> UserFunction:
    def act(given: Any) -> None:
        if spec.tool is not None and given.call.name != spec.tool:
            return
        if spec.raises is not None:
            raise ScriptedFailure(spec.raises)
        _change(spec, given)

    async def act_later(given: Any) -> None:
        if spec.tool is None or given.call.name == spec.tool:
            await _pause(spec.takes, hangs=spec.hangs)
            act(given)

    return UserFunction(
        act_later if spec.takes or spec.hangs else act, spec.name or f"hook-{number}"
    )


def _change(spec: ScriptedHook, given: Any) -> None:
    if spec.block is not None:
        given.block(spec.block)
    if spec.system_prompt is not None:
        given.system_prompt = spec.system_prompt
    for name in spec.hide_tools:
        given.tools.pop(name, None)
    if spec.arguments:
        given.arguments.update(spec.arguments)  # in place: what it must not reach is the reply
    if spec.result is not None:
        given.result = ToolResult(spec.result, given.result.is_error)

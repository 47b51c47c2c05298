"""The settings of a scenario's tool hold for the agent's own function of its name, if traced."""

import asyncio
import time
from typing import Any

import pytest

from simloop import Result, Scenario, run, traced
from simloop.scenario.schema import ScriptedTool
from simloop.trace.entries import ToolResult, ToolStarted

RAN: list[str] = []


@traced
async def search(query: str) -> Any:
    RAN.append(query)
    await asyncio.sleep(1)
    return {"of the function": query}


@traced
def look(query: str) -> Any:
    RAN.append(query)
    time.sleep(1)
    return {"of the function": query}


async def async_agent(_: str) -> str:
    return await said(search)


def thread_agent(_: str) -> str:
    try:
        return repr(look("a"))
    except Exception as error:  # noqa: BLE001 - any
        return f"{type(error).__name__}: {error}"


async def blocking_agent(_: str) -> str:
    return await said(look)


async def said(tool: Any) -> str:
    try:
        value = tool("a")
        return repr(await value if asyncio.iscoroutine(value) else value)
    except Exception as error:  # noqa: BLE001 - any
        return f"{type(error).__name__}: {error}"


AGENTS = [async_agent, thread_agent, blocking_agent]


def play(agent: Any, faults: Any = None, **tool: Any) -> Result:
    RAN.clear()
    tools = {name: ScriptedTool(**tool) for name in ("search", "look")}
    result = run(Scenario(prompt="Hi", tools=tools, faults=faults), loop=agent)
    assert result.outcome == "completed"
    return result


def recorded(result: Result) -> list[tuple[float, str, bool]]:
    starts = [e for e in result.trace.entries if isinstance(e, ToolStarted)]
    assert [(e.call_id, e.own) for e in starts] == [("own-1", True)]
    found = [e for e in result.trace.entries if isinstance(e, ToolResult)]
    return [(e.at_ns / 1e9, e.text, e.is_error) for e in found]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_function_runs_after_the_time_that_the_scenario_states(agent: Any) -> None:
    result = play(agent, takes="40s")
    assert RAN == ["a"]
    assert result.text == "{'of the function': 'a'}"
    assert recorded(result) == [(41, '{"of the function":"a"}', False)]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_stated_result_replaces_the_function(agent: Any) -> None:
    result = play(agent, takes="40s", returns={"found": [1]}, details={"shown": 2})
    assert RAN == []
    assert result.text == "{'found': [1]}"
    assert recorded(result) == [(40, '{"found":[1]}', False)]
    details = [e.details for e in result.trace.entries if isinstance(e, ToolResult)]
    assert details == [{"shown": 2}]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_stated_error_replaces_the_function(agent: Any) -> None:
    result = play(agent, takes="2s", raises="the disk is full")
    assert RAN == []
    assert result.text == "ScriptedFailure: the disk is full"
    assert recorded(result) == [(2, "Error: the disk is full", True)]


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("setting", [{"takes": "40s"}, {"hangs": True}])
def test_a_timeout_ends_a_call(agent: Any, setting: dict[str, Any]) -> None:
    result = play(agent, timeout="5s", **setting)
    assert RAN == []
    assert result.text == "TimeoutError: timed out after 5000 ms"
    assert recorded(result) == [(5, "Error: timed out after 5000 ms", True)]


@pytest.mark.parametrize(("agent", "ends_s"), [(async_agent, 0.5), (thread_agent, 1)])
def test_a_function_that_blocks_is_late_at_its_end(agent: Any, ends_s: float) -> None:
    result = play(agent, timeout="500ms")
    assert RAN == ["a"]
    assert recorded(result) == [(ends_s, "Error: timed out after 500 ms", True)]


def test_the_timeout_of_all_tools_holds_for_a_function_of_the_agent() -> None:
    policy: Any = {"timeout": "500ms"}
    result = run(Scenario(prompt="Hi", tool_execution=policy), loop=async_agent)
    assert result.text == "TimeoutError: timed out after 500 ms"


def test_a_result_that_comes_after_the_timeout_is_late() -> None:
    result = play(async_agent, timeout="5s", takes="40s", outlives_cancel="3s", returns="late")
    assert recorded(result) == [(8, "Error: timed out after 5000 ms", True)]


def test_a_tool_may_cancel_itself() -> None:
    async def agent(_: str) -> str:
        with pytest.raises(asyncio.CancelledError):
            await search("a")
        return "went on"

    assert play(agent, cancels=True).text == "went on"


def test_a_machine_runs_the_tools_of_the_world_alone() -> None:
    """A function that a tool of the world calls is not the tool of the scenario."""

    def ask() -> str:
        return str(look("a"))

    scenario = Scenario(
        prompt="Hi",
        tools={"look": ScriptedTool(takes="40s", returns="never")},
        model=[{"call": {"ask": {}}}, {"say": "Done."}],
    )
    RAN.clear()
    assert run(scenario, tools=[ask]).elapsed_s == 1
    assert RAN == ["a"]

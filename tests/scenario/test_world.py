from typing import Any, get_args

import pytest

from simloop.errors import ScenarioError, ScriptExhausted, ScriptUnused
from simloop.kernel.limits import Limits
from simloop.loops.reference import ReferenceLoop
from simloop.messages import Finish, FinishReason, Request, TextDelta, UserMessage
from simloop.scenario.loader import parse_scenario
from simloop.scenario.schema import HookPoint, Scenario, ScriptedHook, ScriptedTool
from simloop.scenario.simulation import run
from simloop.scenario.world import (
    fake_model,
    machine_for,
    scripted_hooks,
    scripted_tools,
)
from simloop.sim.hooks import BeforeToolCall
from simloop.sim.model import ScriptedFailure
from simloop.sim.simulate import running_loop, simulate


def scenario_with(**fields: Any) -> Scenario:
    return Scenario(prompt="x", **fields)


def test_a_machine_is_found_by_name_and_bound_by_the_limits() -> None:
    machine = machine_for("reference", Limits(max_steps=7))
    assert isinstance(machine, ReferenceLoop)
    assert machine.limits.max_steps == 7


def test_an_unknown_loop_is_refused_with_those_there_are() -> None:
    with pytest.raises(ScenarioError) as caught:
        machine_for("refrence", Limits())
    assert (caught.value.key, "reference" in caught.value.hint) == ("loop", True)


def test_a_scripted_tool_that_takes_no_time_is_not_async() -> None:
    tools = scripted_tools(
        scenario_with(tools={"quick": ScriptedTool(), "slow": ScriptedTool(takes="1s")})  # type: ignore[arg-type]  # as people write it
    )
    assert {name: tool.function.is_async for name, tool in tools.items()} == {
        "quick": False,
        "slow": True,
    }


def test_a_scripted_tool_returns_its_value_whatever_the_arguments() -> None:
    tool = scripted_tools(scenario_with(tools={"clock": ScriptedTool(returns={"hour": 12})}))
    assert tool["clock"].function.function(zone="UTC", odd=1) == {"hour": 12}


def test_a_scripted_tool_raises_its_message() -> None:
    tool = scripted_tools(scenario_with(tools={"clock": ScriptedTool(raises="no battery")}))
    with pytest.raises(ScriptedFailure, match="no battery"):
        tool["clock"].function.function()


def test_a_scripted_tool_takes_its_virtual_time() -> None:
    tools = scripted_tools(parse_scenario("prompt: x\ntools: {build: {returns: done, takes: 1h}}"))

    async def measure() -> tuple[str, int]:
        return await tools["build"].function.function(), running_loop().now_ns

    assert simulate(measure()) == ("done", 3_600 * 10**9)


@pytest.mark.parametrize("point", get_args(HookPoint))
def test_a_scripted_hook_stands_at_its_point_only(point: HookPoint) -> None:
    hooks = scripted_hooks(scenario_with(hooks=[ScriptedHook(at=point, name="one")]))
    found = {where: getattr(hooks, where) for where in get_args(HookPoint)}
    assert [where for where, listed in found.items() if listed] == [point]


def test_hooks_keep_their_order_and_get_names_from_their_positions() -> None:
    listed = [ScriptedHook(at="after_llm_call", name=name) for name in ("", "audit", "")]
    hooks = scripted_hooks(scenario_with(hooks=listed))
    assert [hook.name for hook in hooks.after_llm_call] == ["hook-0", "audit", "hook-2"]


def test_a_hook_for_one_tool_leaves_calls_of_others_alone() -> None:
    listed = [ScriptedHook(at="before_tool_call", tool="delete", block="no")]
    act = scripted_hooks(scenario_with(hooks=listed)).before_tool_call[0].function
    call = type("Call", (), {"name": "read"})()
    given = BeforeToolCall(call, {})
    act(given)
    assert given.blocked is None


def test_a_hook_sets_arguments_and_keeps_the_others() -> None:
    listed = [ScriptedHook(at="before_tool_call", arguments={"path": "/safe"})]
    act = scripted_hooks(scenario_with(hooks=listed)).before_tool_call[0].function
    given = BeforeToolCall(None, {"path": "/", "lines": 3})  # type: ignore[arg-type]  # no tool asked
    act(given)
    assert given.arguments == {"path": "/safe", "lines": 3}


def test_the_fake_plays_model_and_summaries_from_their_own_scripts() -> None:
    fake = fake_model(parse_scenario("prompt: x\nmodel: [{say: M}]\nsummaries: [{say: S}]"))

    async def ask(purpose: str) -> list[Any]:
        request = Request(1, purpose, "", (UserMessage("x"),), ())
        return [part async for part in fake.stream(request)]

    async def both() -> list[list[Any]]:
        return [await ask("summary"), await ask("main")]

    stop = Finish(FinishReason.STOP, "stop")
    assert simulate(both()) == [[TextDelta("S"), stop], [TextDelta("M"), stop]]


def test_replies_that_nobody_asked_for_are_named_by_position() -> None:
    scenario = parse_scenario("""
prompt: x
model: [{say: a}, {say: b}, {say: c, when: {role: tool}}, {say: d, times: always}]
summaries: [{say: e}]
""")
    with pytest.raises(ScriptUnused) as caught:
        run(scenario)
    assert "model.1, model.2, model.3, summaries.0" in str(caught.value)
    assert caught.value.key == "model.1"


def test_a_reply_used_less_often_than_it_says_is_named() -> None:
    with pytest.raises(ScriptUnused, match=r"model\.0"):
        run(parse_scenario("prompt: x\nmodel: [{say: a, times: 2}]"))


def test_a_request_past_the_end_of_the_script_is_counted() -> None:
    scenario = parse_scenario("prompt: x\nmodel: [{http: {status: 500}, times: 2}]", "a.yaml")
    with pytest.raises(ScriptExhausted, match="request 3 finds no reply") as caught:
        run(scenario)
    assert (caught.value.key, caught.value.path) == ("model", "a.yaml")


def test_a_summary_past_the_end_of_its_script_is_the_authors_fault() -> None:
    scenario = parse_scenario("""
prompt: x
tools: {read: {returns: a long text that fills the small window of this run}}
compaction: {window: 30, keep_turns: 1}
model: [{call: {read: {}}, times: 2}, {say: x}]
""")
    with pytest.raises(ScriptExhausted) as caught:
        run(scenario)
    assert caught.value.key == "summaries"


def test_the_fault_of_a_script_names_its_file() -> None:
    scenario = parse_scenario("prompt: x\nmodel: [{say: a}, {say: b}]", "a.yaml")
    with pytest.raises(ScriptUnused) as caught:
        run(scenario)
    assert str(caught.value).startswith("a.yaml: model.1: ")

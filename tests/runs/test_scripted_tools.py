import asyncio
import contextlib
from typing import Any, get_args

import pytest

from simloop.engine.hooks import AfterToolCall, BeforeToolCall
from simloop.errors import (
    ErrorDetails,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
)
from simloop.kernel.policies import Compaction
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import (
    Finish,
    FinishReason,
    Request,
    TextDelta,
    ToolCall,
    ToolResult,
    UserMessage,
)
from simloop.runs.plan import script_of, scripted_hooks, scripted_tools
from simloop.runs.run import Simulation, run
from simloop.scenario.loader import parse_scenario
from simloop.scenario.replies import Reply
from simloop.scenario.schema import HookPoint, Scenario, ScriptedHook, ScriptedTool
from simloop.trace.entries import Hook
from simloop.virtual.simulate import running_loop, simulate
from simloop.world.fake_model import FakeModel
from simloop.world.world import World


def scenario_with(**fields: Any) -> Scenario:
    return Scenario(prompt="x", **fields)


def test_a_scripted_tool_that_takes_no_time_is_not_async() -> None:
    tools = scripted_tools(
        scenario_with(tools={"quick": ScriptedTool(), "slow": ScriptedTool(takes="1s")})
    )
    assert {name: tool.function.is_async for name, tool in tools.items()} == {
        "quick": False,
        "slow": True,
    }


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


def test_a_hook_may_act_on_a_tool_that_another_hook_brings() -> None:
    brings = ScriptedHook(at="before_llm_call", add_tools={"find": ScriptedTool(returns="here")})
    guards = ScriptedHook(at="before_tool_call", tool="find", block="no")
    scenario = scenario_with(
        hooks=[brings, guards], model=[Reply(call={"find": {}}), Reply(say="Done.")]
    )
    assert run(scenario).messages[2].text == "Error: no"


def calling(name: str) -> Any:
    return BeforeToolCall(type("Call", (), {"name": name})(), {})


def test_a_hook_that_acts_the_second_time_leaves_all_other_times_alone() -> None:
    listed = [ScriptedHook(at="before_tool_call", nth=2, block="no")]
    act = scripted_hooks(scenario_with(hooks=listed)).before_tool_call[0].function
    asked = [calling("read") for _ in range(3)]
    for given in asked:
        act(given)
    assert [given.blocked for given in asked] == [None, "no", None]


def test_a_hook_counts_only_the_calls_of_its_tool() -> None:
    listed = [ScriptedHook(at="before_tool_call", tool="delete", nth=2, block="no")]
    act = scripted_hooks(scenario_with(hooks=listed)).before_tool_call[0].function
    asked = [calling(name) for name in ("delete", "read", "delete", "delete")]
    for given in asked:
        act(given)
    assert [given.blocked for given in asked] == [None, None, "no", None]


def test_a_hook_takes_its_time_only_when_it_acts() -> None:
    listed = [ScriptedHook(at="before_tool_call", nth=2, takes="3s")]
    act = scripted_hooks(scenario_with(hooks=listed)).before_tool_call[0].function

    async def when_done() -> list[int]:
        passed = []
        for _ in range(3):
            await act(calling("read"))
            passed.append(running_loop().now_ns // 10**9)
        return passed

    assert simulate(when_done()) == [0, 3, 3]


@pytest.mark.parametrize(("waits", "text"), [("before", "hidden"), ("after", "***")])
def test_a_hook_can_act_before_it_waits(waits: Any, text: str) -> None:
    hook = ScriptedHook(at="after_tool_call", result="***", hangs=True, waits=waits)
    call = ToolCall("call-1", "read", "{}")
    done = AfterToolCall(call, {}, ToolResult("hidden"))

    async def main() -> None:
        [function] = scripted_hooks(scenario_with(hooks=[hook])).after_tool_call
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(function.function(done), 1)

    simulate(main())
    assert done.result.text == text


@pytest.mark.parametrize(
    ("hook", "key"),
    [
        ({"at": "before_tool_call", "tool": "lok", "block": "no"}, "hooks.1.tool"),
        ({"at": "before_llm_call", "hide_tools": ["look", "lok"]}, "hooks.1.hide_tools"),
    ],
)
def test_a_hook_for_a_tool_that_there_is_not_is_refused(hook: dict[str, Any], key: str) -> None:
    hooks = [ScriptedHook(at="before_llm_call"), ScriptedHook(**hook)]
    scenario = scenario_with(tools={"look": ScriptedTool()}, hooks=hooks).read_from("a.yaml")
    with pytest.raises(ScenarioError) as caught:
        Simulation(scenario)
    assert str(caught.value) == f"a.yaml: {key}: there is no tool `lok` (there are: look)"


def test_a_hook_for_a_tool_that_a_caller_gives_is_none_of_those() -> None:
    def look() -> str:
        return "found"

    hooks = [ScriptedHook(at="before_tool_call", tool="look", block="no")]
    scenario = scenario_with(hooks=hooks, model=[Reply(call={"look": {}}), Reply(say="Blocked.")])
    trace = run(scenario, tools=[look]).trace
    assert [entry.result for entry in trace.entries if isinstance(entry, Hook)] == ["blocked"]


def test_the_details_of_a_scripted_tool_are_for_the_interface_and_its_text_for_the_model() -> None:
    spec = ScriptedTool(returns={"hour": 12}, details={"took": 3})
    tool = scripted_tools(scenario_with(tools={"clock": spec}))["clock"]
    assert tool.function.function() == ToolResult('{"hour":12}', details={"took": 3})


def test_a_tool_of_the_scenario_stands_in_the_place_of_its_namesake_over_files() -> None:
    scenario = scenario_with(tools={"ReadFile": ScriptedTool(returns="mine")}, files={"a": "b"})
    tools = Simulation(scenario).scripts.tools
    assert tools["ReadFile"].function.function() == "mine"
    assert set(tools) == {"RunShellCommand", "ReadFile", "ReadFolder", "WriteFile", "EditFile"}


def test_an_agent_that_asks_for_summaries_gets_the_one_that_plays_for_ever() -> None:
    async def summarising(prompt: str, world: World) -> str:
        reply = await world.model.reply([UserMessage(prompt)], purpose="summary")
        return reply.message.text

    scenario = scenario_with(model=[], summaries=[Reply(say="In short.", times="always")])
    assert run(scenario, loop=summarising).text == "In short."


def test_where_the_scenario_is_silent_the_policies_of_the_loop_decide() -> None:
    silent = Simulation(scenario_with(loop="pi")).settings
    assert (silent.compaction.max_messages, silent.warn_after) == (100, 50)
    told = Simulation(scenario_with(loop="pi", compaction=Compaction(window=9))).settings
    assert (told.compaction, told.warn_after) == (Compaction(window=9), 50)


def test_a_policy_that_a_caller_gives_goes_before_those_of_scenario_and_loop() -> None:
    mine, theirs = ExponentialBackoff(initial_delay_ms=1), ExponentialBackoff(initial_delay_ms=2)
    scenario = scenario_with(loop="opencode", retry=theirs)
    assert Simulation(scenario, retry=mine).settings.retry is mine
    assert Simulation(scenario).settings.retry == theirs
    assert Simulation(scenario_with(loop="opencode")).settings.retry == ExponentialBackoff(
        initial_delay_ms=1_000
    )


def test_the_fake_plays_model_and_summaries_from_their_own_scripts() -> None:
    fake = FakeModel(
        *script_of(parse_scenario("prompt: x\nmodel: [{say: M}]\nsummaries: [{say: S}]"))
    )

    async def ask(purpose: str) -> list[Any]:
        request = Request(1, purpose, "", (UserMessage("x"),), ())
        return [part async for part in fake.stream(request)]

    async def both() -> list[list[Any]]:
        return [await ask("summary"), await ask("main")]

    stop = Finish(FinishReason.STOP, "stop")
    assert simulate(both()) == [[TextDelta("S"), stop], [TextDelta("M"), stop]]


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


def test_an_expectation_that_fails_beside_an_unused_reply_has_a_line_of_its_own() -> None:
    scenario = parse_scenario("prompt: x\nmodel: [{http: {status: 401}}, {say: b}]", "a.yaml")
    with pytest.raises(ScriptUnused) as caught:
        run(scenario)
    first, ending, unmet, _ = str(caught.value).splitlines()
    assert first == (
        "a.yaml: model.1: the run made 1 request and did not use model.1 "
        "(find out why the run ended early, or delete the unused replies)"
    )
    assert ending == "it ended with failed: Error: 401 Unauthorized"
    assert unmet.startswith("expect.outcome: expected completed, got failed")
    (details,) = ErrorDetails.of(caught.value)
    assert details.message.endswith(f"\n{ending}\n{unmet}")

import asyncio
import contextlib
import inspect
import time
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from simloop import (
    Limits,
    Reply,
    Result,
    Scenario,
    Simulation,
    note,
    run,
    simulate,
    traced,
)
from simloop.check.trial import verdict_on
from simloop.errors import ScenarioError
from simloop.messages import Message, ToolMessage, ToolSpec, UserMessage
from simloop.scenario.expect import Expect
from simloop.scenario.schema import ScriptedTool
from simloop.trace.entries import ToolResult, ToolStarted
from simloop.world.chance import ChanceFaults
from simloop.world.model_port import ModelCallFailed
from simloop.world.world import World


@traced
async def search(query: str, limit: int = 3) -> dict[str, list[int]]:
    """Search the archive."""
    await asyncio.sleep(2)
    return {"found": [limit]}


@traced
def shout(word: str) -> str:
    return word.upper()


SHOUT = ToolSpec("shout", "", msgspec.Raw(b"{}"))


@traced
def fails(**_: object) -> str:
    raise ValueError("no such file")


def started(result: Result) -> list[tuple[str, str, str]]:
    record = result.trace.entries
    return [(e.call_id, e.name, e.arguments) for e in record if isinstance(e, ToolStarted)]


def results(result: Result) -> list[tuple[int, str, str, bool]]:
    record = result.trace.entries
    return [
        (e.at_ns // 10**9, e.call_id, e.text, e.is_error)
        for e in record
        if isinstance(e, ToolResult)
    ]


def play(agent: Any, *model: Reply, **given: Any) -> Result:
    return run(Scenario(prompt="Hi", model=[*model]), loop=agent, **given)


def test_calls_are_recorded_with_arguments_results_and_errors() -> None:
    async def agent(_: str) -> None:
        assert await search("x", limit=5) == {"found": [5]}
        assert shout("a") == "A"
        with pytest.raises(ValueError, match="no such file"):
            fails(path="b")

    result = play(agent)
    assert started(result) == [
        ("own-1", "search", '{"limit":5,"query":"x"}'),
        ("own-2", "shout", '{"word":"a"}'),
        ("own-3", "fails", '{"path":"b"}'),
    ]
    assert results(result) == [
        (2, "own-1", '{"found":[5]}', False),
        (2, "own-2", "A", False),
        (2, "own-3", "Error: no such file", True),
    ]


def test_a_run_is_that_of_a_call_whose_request_offered_the_tool() -> None:
    async def agent(_: str, world: World) -> None:
        for name in ("search", "shout"):
            tools = [ToolSpec(name, "", Raw(b"{}"))]
            await world.model.reply([UserMessage("Hi")], tools=tools)
        shout("a")

    result = play(agent, Reply(call={"shout": {"word": "a"}}, times=2))
    assert started(result) == [("call-2", "shout", '{"word":"a"}')]

    async def sums_up(_: str, world: World) -> None:
        for tools in ([], [ToolSpec("shout", "", Raw(b"{}"))]):
            await world.model.reply([UserMessage("Hi")], tools=tools)
        shout("a")

    result = play(sums_up, Reply(call={"shout": {"word": "a"}}, times=2))
    assert started(result) == [("call-2", "shout", '{"word":"a"}')]


def test_a_run_with_a_default_is_that_of_the_call_without_it() -> None:
    @traced
    async def look(place: str, days: int = 1) -> str:
        return f"{place} {days}"

    async def agent(prompt: str, world: World) -> None:
        await world.model.reply([UserMessage(prompt)])
        for place in ("b", "a"):
            await look(place, days=1)

    result = play(agent, Reply(call=[{"look": {"place": "a"}}, {"look": {"place": "b"}}]))
    assert [each[0] for each in started(result)] == ["call-2", "call-1"]


def test_a_run_with_other_capitals_is_that_of_the_call_without_them() -> None:
    @traced
    async def look(place: str, days: int = 1) -> str:
        return f"{place} {days}"

    async def agent(prompt: str, world: World) -> None:
        await world.model.reply([UserMessage(prompt)])
        for place in ("B", "a"):
            await look(place, days=1)

    calls: list[dict[str, Any]] = [{"look": {"days": 1}}, {"look": {"place": "a", "days": 1}}]
    result = play(agent, Reply(call=[*calls, {"look": {"place": "b", "days": 1}}]))
    assert [each[0] for each in started(result)] == ["call-3", "call-2"]


@pytest.mark.parametrize("shown", [True, False])
def test_the_context_that_a_framework_adds_is_no_argument(*, shown: bool) -> None:
    """It is one where no schema says which arguments the tool has."""

    @traced
    async def look(context: object, place: str) -> str:
        return place

    async def agent(prompt: str, world: World) -> str:
        schema = msgspec.Raw(b'{"properties":{"place":{"type":"string"}}}')
        tools = [] if shown else [ToolSpec("look", "", schema)]
        await world.model.reply([UserMessage(prompt)], tools=tools)
        return await look(asyncio.current_task(), place="a")

    result = play(agent, Reply(call={"look": {"place": "a"}}))
    assert [("context" in each[2]) for each in started(result)] == [shown]


def test_a_call_takes_the_id_under_which_the_model_asked() -> None:
    async def agent(prompt: str, world: World) -> str:
        message = (await world.model.reply([UserMessage(prompt)])).message
        assert [await search("b"), shout("c"), await search("a")]
        answers = [ToolMessage(call.id, "x") for call in message.calls]
        await world.model.reply([UserMessage(prompt), message, *answers])
        return "Done."

    calls: list[dict[str, Any]] = [
        {"search": {"query": "a"}},
        {"search": {"query": "b"}},
        {"shout": {"word": "another"}},
    ]
    result = play(agent, Reply(call=calls), Reply(say="Done."))
    assert [(call_id, name) for call_id, name, _ in started(result)] == [
        ("call-2", "search"),
        ("call-3", "shout"),
        ("call-1", "search"),
    ]


def test_a_call_of_a_run_that_has_failed_is_not_answered_in_the_next_run() -> None:
    async def agent(prompt: str, world: World) -> None:
        await world.model.reply([UserMessage(prompt)])
        if prompt == "Go.":
            raise ValueError(prompt)
        shout("a")

    call = {"shout": {"word": "a"}}
    scenario = Scenario(prompt="Go.", then=["Again."], model=[Reply(call=call), Reply(call=call)])
    result = run(scenario, loop=agent)
    assert [call_id for call_id, *_ in started(result)] == ["call-2"]


def test_a_call_that_a_request_has_answered_waits_no_more() -> None:
    async def agent(prompt: str, world: World) -> None:
        message = (await world.model.reply([UserMessage(prompt)])).message
        refused = [ToolMessage(call.id, "Error: wrong arguments") for call in message.calls]
        await world.model.reply([UserMessage(prompt), message, *refused])
        assert shout("a") == shout("a")

    calls: Any = {"shout": {}}, {"shout": {"word": "a", "loudly": True}}
    found = started(play(agent, *(Reply(call=call) for call in calls)))
    assert [call_id for call_id, *_ in found] == ["call-2", "own-1"]


def test_a_run_belongs_to_a_call_that_was_cut_off_and_not_to_one_that_is_answered() -> None:
    async def agent(prompt: str, world: World) -> None:
        message = (await world.model.reply([UserMessage(prompt)], tools=[SHOUT])).message
        refused = [ToolMessage(call.id, "Error: a word is missing") for call in message.calls]
        await world.model.reply([UserMessage(prompt), message, *refused], tools=[SHOUT])
        shout("a")

    whole, cut = Reply(call={"shout": {}}), Reply(call={"shout": {"word": "a"}}, finish="length")
    assert [call_id for call_id, *_ in started(play(agent, whole, cut))] == ["call-2"]
    whole = Reply(call={"shout": {"loudly": True}})
    assert [call_id for call_id, *_ in started(play(agent, whole, cut))] == ["call-2"]


def test_a_run_with_an_object_of_the_arguments_is_that_of_the_call_with_them() -> None:
    @traced
    def book(key: str, body: dict[str, str]) -> str:
        return f"{key}: {body['word']}"

    async def agent(prompt: str, world: World) -> None:
        await world.model.reply([UserMessage(prompt)])
        book("k", {"word": "north"})

    reply = Reply(call=[{"book": {}}, {"book": {"word": "north"}}])
    assert [call_id for call_id, *_ in started(play(agent, reply))] == ["call-2"]


def test_each_of_two_calls_with_one_id_is_answered_under_it() -> None:
    async def agent(prompt: str, world: World) -> None:
        await world.model.reply([UserMessage(prompt)])
        assert [shout("a"), shout("b")]

    reply = Reply(call=[{"shout": {"word": "a"}}, {"shout": {"word": "b"}}], ids=["x", "x"])
    assert [call_id for call_id, *_ in started(play(agent, reply))] == ["x", "x"]


def test_a_tool_that_is_tried_again_does_not_answer_a_reply_that_broke_off() -> None:
    async def agent(prompt: str, world: World) -> None:
        for _ in range(2):
            with contextlib.suppress(ModelCallFailed):
                await world.model.reply([UserMessage(prompt)])
        assert shout("a") == shout("a")

    call: Any = {"shout": {"word": "a"}}
    found = started(play(agent, Reply(call=call, error={"message": "x"}), Reply(call=call)))
    assert [call_id for call_id, *_ in found] == ["call-2", "own-1"]


def test_frameworks_read_the_name_the_signature_and_the_docstring() -> None:
    assert (search.__name__, search.__doc__) == ("search", "Search the archive.")
    assert list(inspect.signature(search).parameters) == ["query", "limit"]
    assert inspect.iscoroutinefunction(search)
    assert not inspect.iscoroutinefunction(shout)


def test_outside_of_a_run_a_traced_function_and_a_note_do_nothing_more() -> None:
    async def main() -> dict[str, list[int]]:
        note("nobody reads this")
        return await search("x")

    note("nor this")
    assert shout("a") == "A"
    assert simulate(main()) == {"found": [3]}


def test_methods_are_recorded_without_their_object_and_values_without_addresses() -> None:
    class Archive:
        @traced
        def look(self, where: object, *rest: int, **more: object) -> object:
            return self

    async def agent(_: str) -> None:
        Archive().look(Archive(), 1, 2, deep=True, other=Archive())

    result = play(agent)
    arguments = '{"deep":true,"other":"<Archive>","rest":[1,2],"where":"<Archive>"}'
    assert started(result) == [("own-1", "look", arguments)]
    assert results(result) == [(0, "own-1", "<Archive>", False)]


def test_a_tool_that_simloop_runs_is_recorded_once() -> None:
    async def agent(prompt: str, world: World) -> str:
        message = (await world.model.reply([UserMessage(prompt)])).message
        answers = [await world.tools.run(call) for call in message.calls]
        return answers[0].text

    result = play(agent, Reply(call={"shout": {"word": "a"}}), tools=[shout])
    assert result.text == "A"
    assert started(result) == [("call-1", "shout", '{"word":"a"}')]
    machine = run(
        Scenario(prompt="Hi", model=[Reply(call={"shout": {"word": "a"}}), Reply(say="A")]),
        tools=[shout],
    )
    assert started(machine) == [("call-1", "shout", '{"word":"a"}')]


def test_what_cannot_be_traced_is_refused() -> None:
    def pieces() -> Any:
        yield 1

    for wrong in (pieces, Scenario, 3):
        with pytest.raises(ScenarioError, match="traced: "):
            traced(wrong)  # type: ignore[type-var]


def test_a_violation_is_not_found_where_a_framework_converts_arguments_and_results() -> None:
    @traced
    def double(number: int) -> int:
        return 2 * number

    async def agent(prompt: str, world: World) -> str:
        message = (await world.model.reply([UserMessage(prompt)])).message
        answers = [ToolMessage(call.id, f"It is {double(int('4'))}.") for call in message.calls]
        sent: list[Message] = [UserMessage(prompt), message, *answers]
        return (await world.model.reply(sent)).message.text

    model = [Reply(call={"double": {"number": "4"}}), Reply(say="8")]
    simulation = Simulation(Scenario(prompt="Hi", model=model), loop=agent)
    simulation.run()
    verdict_on(simulation, Expect()).check()


@pytest.mark.parametrize("tool", [search, shout])
def test_the_faults_of_the_scenario_reach_a_tool_of_the_agent(tool: Any) -> None:
    async def agent(_: str) -> None:
        for _count in range(40):
            with contextlib.suppress(ConnectionError):
                made = tool("x")
                if inspect.isawaitable(made):
                    await made

    def texts(*sites: str) -> set[tuple[str, bool]]:
        faults = ChanceFaults(activate=1, fire=0.5, sites=sites)
        result = run(Scenario(prompt="Hi", faults=faults), loop=agent)
        took = result.elapsed_s - (2 * len(results(result)) if tool is search else 0)
        return {(text, is_error) for _, _, text, is_error in results(result)} | {
            ("slow", took >= 20)
        }

    broken = ("Error: the tool lost its connection", True)
    assert broken in texts("tool.raises")
    assert len(texts("tool.raises")) == 3
    assert ("slow", True) in texts("tool.slow")
    assert broken not in texts("tool.slow")


@traced
async def read(path: str) -> str:
    return path


async def waits(_: str) -> str:
    return await asyncio.wait_for(read("a"), 45)


def waits_in_a_thread(prompt: str) -> str:
    return asyncio.run(waits(prompt))


@pytest.mark.parametrize("agent", [waits, waits_in_a_thread])
def test_a_tool_that_times_out_after_the_end_of_its_run_is_no_error_of_the_run(agent: Any) -> None:
    """Python 3.11 runs what `wait_for` waits for in a task, whose exception nobody sees then."""
    tools = {"read": {"takes": "5ms", "timeout": "1ms", "outlives_cancel": "200ms"}}
    limits = Limits(max_wall_clock_ms=1)
    result = run(Scenario(prompt="Hi", tools=tools, limits=limits), loop=agent)
    assert result.outcome == "timed-out"
    kinds = [type(entry).__name__ for entry in result.trace.entries]
    assert "LeftBehind" not in kinds


RAN: list[str] = []


@traced
async def find(query: str) -> Any:
    RAN.append(query)
    await asyncio.sleep(1)
    return {"of the function": query}


@traced
def look(query: str) -> Any:
    RAN.append(query)
    time.sleep(1)
    return {"of the function": query}


async def async_agent(_: str) -> str:
    return await said(find)


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


def scripted(agent: Any, faults: Any = None, **tool: Any) -> Result:
    RAN.clear()
    tools = {name: ScriptedTool(**tool) for name in ("find", "look")}
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
    result = scripted(agent, takes="40s")
    assert RAN == ["a"]
    assert result.text == "{'of the function': 'a'}"
    assert recorded(result) == [(41, '{"of the function":"a"}', False)]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_stated_result_replaces_the_function(agent: Any) -> None:
    result = scripted(agent, takes="40s", returns={"found": [1]}, details={"shown": 2})
    assert RAN == []
    assert result.text == "{'found': [1]}"
    assert recorded(result) == [(40, '{"found":[1]}', False)]
    details = [e.details for e in result.trace.entries if isinstance(e, ToolResult)]
    assert details == [{"shown": 2}]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_stated_error_replaces_the_function(agent: Any) -> None:
    result = scripted(agent, takes="2s", raises="the disk is full")
    assert RAN == []
    assert result.text == "ScriptedFailure: the disk is full"
    assert recorded(result) == [(2, "Error: the disk is full", True)]


def test_a_tool_that_cancels_itself_has_ended_and_one_that_is_broken_off_has_not() -> None:
    async def agent(_: str) -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await find("a")
        return "Done."

    assert recorded(scripted(agent, takes="2s", cancels=True)) == [
        (2, "Error: the tool was cancelled", True)
    ]

    async def hasty(_: str) -> str:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(find("a"), 1)
        return "Done."

    assert recorded(scripted(hasty, takes="2s")) == []


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("setting", [{"takes": "40s"}, {"hangs": True}])
def test_a_timeout_ends_a_call(agent: Any, setting: dict[str, Any]) -> None:
    result = scripted(agent, timeout="5s", **setting)
    assert RAN == []
    assert result.text == "TimeoutError: timed out after 5000 ms"
    assert recorded(result) == [(5, "Error: timed out after 5000 ms", True)]


@pytest.mark.parametrize(("agent", "ends_s"), [(async_agent, 0.5), (thread_agent, 1)])
def test_a_function_that_blocks_is_late_at_its_end(agent: Any, ends_s: float) -> None:
    result = scripted(agent, timeout="500ms")
    assert RAN == ["a"]
    assert recorded(result) == [(ends_s, "Error: timed out after 500 ms", True)]


def test_the_timeout_of_all_tools_holds_for_a_function_of_the_agent() -> None:
    policy: Any = {"timeout": "500ms"}
    result = run(Scenario(prompt="Hi", tool_execution=policy), loop=async_agent)
    assert result.text == "TimeoutError: timed out after 500 ms"


def test_a_result_that_comes_after_the_timeout_is_late() -> None:
    result = scripted(async_agent, timeout="5s", takes="40s", outlives_cancel="3s", returns="late")
    assert recorded(result) == [(8, "Error: timed out after 5000 ms", True)]


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


def test_a_call_that_python_refuses_is_no_run_of_the_function() -> None:
    async def agent(_: str) -> None:
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'query'"):
            await search(text="x")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'word'"):
            shout()  # type: ignore[call-arg]

    assert started(play(agent)) == []

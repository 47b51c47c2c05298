"""The calls of functions that are not recorded, as far as the messages show them."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simloop import Reply, Result, Scenario, World, load_scenario, run, traced
from simloop.check.trial import verify
from simloop.errors import CannotExpress, ExpectationFailed
from simloop.messages import Message, ToolMessage, ToolSpec, UserMessage
from simloop.scenario.schema import ScriptedHook, ScriptedTool

SCHEMA = b'{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}'
FIND = ToolSpec("find", "Find it.", msgspec.Raw(SCHEMA))
CALLS: list[dict[str, Any]] = [{"find": {"query": "a"}}, {"find": {"query": "b"}}]
SCRIPT = [Reply(call=CALLS), Reply(say="Done.")]


async def own_find(query: str) -> str:
    await asyncio.sleep(3)
    return f"found {query}"


async def agent(prompt: str, world: World, tool: ToolSpec = FIND, answer: Any = own_find) -> str:
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = (await world.model.reply(messages, tools=[tool])).message
        if not reply.calls:
            return reply.text
        messages.append(reply)
        for call in reply.calls:
            try:
                result = await answer(**msgspec.json.decode(call.arguments))
            except TypeError as error:
                result = f"Error: {error}"
            messages.append(ToolMessage(call.id, result))


def play(loop: Any = agent, model: Any = SCRIPT, **tool: Any) -> Result:
    tools = {"find": ScriptedTool(**tool)} if tool else {}
    return run(Scenario(prompt="Hi", model=[*model], tools=tools), loop=loop)


def test_calls_that_only_the_messages_show_count() -> None:
    result = play()
    result.expect(tools_run=["find", "find"], calls=CALLS)
    assert [call.arguments for call in result.calls] == [{"query": "a"}, {"query": "b"}]
    with pytest.raises(ExpectationFailed, match=r"expected \['find'\], got \['find', 'find'\]"):
        result.expect(tools_run=["find"])


def test_a_traced_call_counts_once_and_at_its_start() -> None:
    @traced
    async def hunt(query: str) -> str:
        return query

    async def traced_agent(prompt: str, world: World) -> str:
        await hunt("x")
        spec = ToolSpec("hunt", "", FIND.parameters)
        return await agent(prompt, world, spec, hunt)

    result = play(traced_agent, [Reply(call={"hunt": {"query": "a"}}), Reply(say="Done.")])
    result.expect(calls=[{"hunt": {"query": "x"}}, {"hunt": {"query": "a"}}])


def test_a_call_that_an_agent_refuses_does_not_count() -> None:
    wrong: list[dict[str, Any]] = [{"find": {"where": "a"}}, {"find": "no json"}, {"other": {}}]

    async def refusing(prompt: str, world: World) -> str:
        reply = (await world.model.reply([UserMessage(prompt)], tools=[FIND])).message
        answers = [ToolMessage(call.id, "wrong") for call in reply.calls]
        return (await world.model.reply([UserMessage(prompt), reply, *answers])).message.text

    play(refusing, [Reply(call=wrong), Reply(say="Done.")], returns="x").expect(tools_run=[])


def test_a_call_without_a_result_in_a_request_does_not_count() -> None:
    async def asking(prompt: str, world: World) -> None:
        await world.model.reply([UserMessage(prompt)], tools=[FIND])

    play(asking, SCRIPT[:1], returns="x").expect(tools_run=[])


def test_a_call_that_the_agent_itself_denies_counts_whatever_the_process_has_traced() -> None:
    @traced
    async def erase(query: str) -> str:
        return query

    async def denied(query: str) -> str:
        return f"{erase.__name__} of {query} is denied"

    async def denying(prompt: str, world: World) -> str:
        return await agent(prompt, world, ToolSpec("erase", "", FIND.parameters), denied)

    scenario = Scenario(
        prompt="Hi", model=[Reply(call={"erase": {"query": "a"}}), Reply(say="Done.")]
    )
    run(scenario, loop=denying).expect(outcome="completed", tools_run=["erase"])


def test_a_tool_of_the_world_that_an_agent_does_not_run_does_not_count() -> None:
    async def denying(prompt: str, world: World) -> str:
        asked: list[Message] = [UserMessage(prompt)]
        reply = (await world.model.reply(asked, tools=world.tools.specs)).message
        answers = [ToolMessage(call.id, "denied by the user") for call in reply.calls]
        return (await world.model.reply([*asked, reply, *answers])).message.text

    def find(query: str) -> str:
        return query

    files = Scenario(
        prompt="Hi",
        files={"a": "b"},
        model=[Reply(call={"ReadFile": {"path": "a"}}), Reply(say="Done.")],
    )
    play(denying, parameters={"query": "string"}, returns="x").expect(tools_run=[])
    run(files, loop=denying).expect(tools_run=[])
    run(Scenario(prompt="Hi", model=[*SCRIPT]), loop=denying, tools=[find]).expect(tools_run=[])


def test_a_call_that_the_world_refuses_does_not_count() -> None:
    async def running(prompt: str, world: World) -> str:
        asked: list[Message] = [UserMessage(prompt)]
        reply = (await world.model.reply(asked, tools=[FIND])).message
        answers = [await world.tools.run(call) for call in reply.calls]
        return (await world.model.reply([*asked, reply, *answers])).message.text

    play(running, parameters={"where": "string"}, returns="x").expect(tools_run=[])


def test_a_call_that_a_hook_of_a_machine_blocks_does_not_count() -> None:
    adds = ScriptedHook(at="before_llm_call", add_tools={"find": ScriptedTool()})
    blocks = ScriptedHook(at="before_tool_call", block="no")
    script = [Reply(call={"find": {}}), Reply(say="Done.")]
    result = run(Scenario(prompt="Hi", hooks=[adds, blocks], model=script))
    result.expect(outcome="completed", tools_run=[])


@pytest.mark.parametrize(
    ("key", "value"), [("takes", "40s"), ("raises", "no"), ("returns", "x"), ("timeout", "1s")]
)
def test_settings_that_do_not_reach_the_function_of_an_agent_are_refused(
    key: str, value: str, tmp_path: Path
) -> None:
    path = tmp_path / "lost.simloop.yaml"
    path.write_text(
        f"prompt: Hi\ntools: {{find: {{{key}: {value}}}}}\n"
        "model: [{call: {find: {query: a}}}, {say: Done.}]\n"
    )
    with pytest.raises(CannotExpress) as caught:
        run(load_scenario(path), loop=agent)
    name = "test_calls:agent"
    assert str(caught.value) == (
        f"{path}: tools.find.{key}: the loop `{name}` cannot express this: its own code runs "
        f"`find`, without tools.find.{key} (put @simloop.traced on `find`, or wrap it with "
        "sim.tool; if the agent denies the call, remove the settings)"
    )
    assert verify(path, loop=agent).cannot

"""A tool with several results gives one to each call, in order, and the usual one after them."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from builders import play, play_loosely, scenario
from msgspec import Raw
from shrinking import runs_twice

from simloop import (
    Message,
    Reply,
    Result,
    ScriptedTool,
    Simulation,
    ToolMessage,
    ToolSpec,
    UserMessage,
    run,
    traced,
)
from simloop.errors import CannotExpress
from simloop.fuzz.shrink import shrink
from simloop.runs.plan import Plan
from simloop.trace.entries import ToolResult
from simloop.world.world import World

THREE: list[dict[str, Any]] = [
    {"returns": "one"}, {"raises": "two is bad", "takes": "3s"}, {"returns": {"n": 3}},
]  # fmt: skip
LOOKS, DONE = Reply(call={"look": {}}), Reply(say="Done.")


def results(result: Result) -> list[tuple[str, bool]]:
    return [(e.text, e.is_error) for e in result.trace.entries if isinstance(e, ToolResult)]


def played(calls: int, answers: list[dict[str, Any]], **tool: Any) -> Result:
    tools = {"look": ScriptedTool.model_validate({"answers": answers, **tool})}
    return play(*[LOOKS] * calls, DONE, tools=tools)


def test_each_call_gets_the_next_result() -> None:
    result = played(3, THREE)
    assert results(result) == [("one", False), ("Error: two is bad", True), ('{"n":3}', False)]
    assert result.elapsed_s == 3.0


def test_a_call_after_them_ends_as_the_other_keys_say() -> None:
    assert results(played(3, THREE[:1])) == [("one", False), ("", False), ("", False)]
    assert results(played(2, THREE[:1], returns="more")) == [("one", False), ("more", False)]
    assert results(played(2, THREE[:1], raises="gone")) == [("one", False), ("Error: gone", True)]
    late = played(3, THREE[:1], returns="more", takes="2s")
    assert late.elapsed_s == 4.0  # the result of the first call states its own time


def test_results_that_are_left_over_are_no_mistake() -> None:
    assert played(1, THREE).mismatches == ()


def test_the_calls_of_one_reply_get_theirs_in_the_order_of_the_calls() -> None:
    tools = {"look": ScriptedTool.model_validate({"json_schema": {"type": "object"}, "answers": [
        {"returns": "slow", "takes": "5s"}, {"returns": "quick", "takes": "1s"}]})}  # fmt: skip
    result = play(Reply(call=[{"look": {"n": 1}}, {"look": {"n": 2}}]), DONE, tools=tools)
    assert [text for text, _ in results(result)] == ["slow", "quick"]
    sent = result.requests[-1].messages
    assert [each.text for each in sent if isinstance(each, ToolMessage)] == ["slow", "quick"]
    assert result.elapsed_s == 6.0  # one after the other, as this loop runs them


def test_each_run_begins_with_the_first_result() -> None:
    whole = scenario(LOOKS, DONE, tools={"look": ScriptedTool.model_validate({"answers": THREE})})
    plan = Plan(whole, {})
    for _ in range(3):
        assert results(run(whole)) == [("one", False)]
        assert results(Simulation(plan).run()) == [("one", False)]


def test_a_tool_of_the_caller_takes_the_place_of_a_scripted_one() -> None:
    def look() -> str:
        return "my own"

    whole = scenario(LOOKS, DONE, tools={"look": ScriptedTool.model_validate({"answers": THREE})})
    assert results(run(whole, tools=[look])) == [("my own", False)]


# ---------------------------------------------------------------- functions of the agent


@traced
async def look_later() -> str:
    await asyncio.sleep(1)
    return "mine"


@traced
def look_now() -> str:
    return "mine"


def in_a_thread() -> str:
    found: list[str] = []

    def begin() -> None:
        try:
            found.append(look_now())
        except Exception as error:  # noqa: BLE001 - what the script raises is of no known type
            found.append(f"Error: {error}")

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    return found[0]


def now() -> str:
    try:
        return look_now()
    except Exception as error:  # noqa: BLE001 - as above
        return f"Error: {error}"


WAYS: dict[str, tuple[str, Callable[[], str]]] = {
    "at once": ("look_now", now),
    "in a thread": ("look_now", in_a_thread),
}


def heard_by_agent(name: str, look: Callable[[], Any]) -> list[Any]:
    heard: list[Any] = []

    async def agent(_: str) -> None:
        heard.extend(look() for _ in range(4))

    tools = {name: ScriptedTool.model_validate({"answers": THREE})}
    result = play_loosely(DONE, loop=agent, tools=tools)
    assert result.elapsed_s == 3.0
    return heard


@pytest.mark.parametrize("way", WAYS)
def test_an_own_function_that_is_traced_gives_the_results_too(way: str) -> None:
    expected = ["one", "Error: two is bad", {"n": 3}, "mine"]
    assert heard_by_agent(*WAYS[way]) == expected


def test_an_own_async_function_gives_them_without_its_own_time() -> None:
    heard: list[Any] = []

    async def agent(_: str) -> None:
        for _turn in range(4):
            heard.extend(await asyncio.gather(look_later(), return_exceptions=True))

    tools = {"look_later": ScriptedTool.model_validate({"answers": THREE})}
    result = play_loosely(DONE, loop=agent, tools=tools)
    assert [str(each) for each in heard] == ["one", "two is bad", "{'n': 3}", "mine"]
    assert result.elapsed_s == 3.0 + 1.0


def test_a_function_that_nobody_sees_is_refused_with_settings_and_not_with_results() -> None:
    look = ToolSpec("look", "", Raw(b'{"type":"object"}'))

    async def agent(prompt: str, world: World) -> str:
        asked: list[Message] = [UserMessage(prompt)]
        reply = await world.model.reply(asked, tools=[look])
        call = reply.message.calls[0]
        asked += [reply.message, ToolMessage(call.id, "mine")]
        return (await world.model.reply(asked, tools=[look])).message.text

    def plays(**tool: Any) -> Result:
        tools = {"look": ScriptedTool.model_validate({"answers": THREE, **tool})}
        return play(LOOKS, DONE, loop=agent, tools=tools)

    assert plays().text == "Done."
    with pytest.raises(CannotExpress, match=r"without tools\.look\.takes"):
        plays(takes="1s")


# ---------------------------------------------------------------- the search


def test_a_finding_is_shrunk_to_the_results_that_it_needs() -> None:
    tools = {"look": ScriptedTool.model_validate({"answers": [*THREE, *THREE]})}
    shrunk = shrink(scenario(LOOKS, LOOKS, DONE, tools=tools), {"loop": runs_twice})
    assert shrunk is not None
    assert all(not tool.answers for tool in shrunk.scenario.tools.values())

"""Agents with a short script, and what their runs tell."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from simloop import Conversation, Reply, Scenario, ScriptedTool, simulate

SECOND = 10**9
TOOLS = {"write": ScriptedTool(returns="written", takes="2s")}
WRITES = (Reply(say="I write it.", call={"write": {}}), Reply(say="It is written."))


def scenario(*model: Reply, **settings: Any) -> Scenario:
    return Scenario(prompt="", loop="pi", tools=TOOLS, model=list(model), **settings)


def live(
    main: Callable[[Conversation], Coroutine[Any, Any, Any]], *model: Reply, **settings: Any
) -> Any:
    """What `main` makes of an agent, on the virtual clock."""

    async def inside() -> Any:
        return await main(Conversation(scenario(*model, **settings)))

    return simulate(inside())


def kind(event: Any) -> str:
    return str(type(event).__struct_config__.tag)


async def all_of(events: AsyncIterator[Any]) -> list[Any]:
    return [event async for event in events]


async def kinds(events: AsyncIterator[Any]) -> list[str]:
    return [kind(event) async for event in events]

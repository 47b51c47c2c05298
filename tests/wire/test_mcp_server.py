"""Sessions with the MCP server of a world, over the package `mcp` itself."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest

from simloop import (
    Message,
    Reply,
    Result,
    Scenario,
    ToolMessage,
    UserMessage,
    World,
    mcp_session,
    parse_scenario,
    run,
)
from simloop.errors import ScenarioError
from simloop.trace.codec import encode
from simloop.trace.entries import LeftBehind, ToolResult, ToolStarted

pytestmark = pytest.mark.sdks

try:
    import mcp
except ImportError:
    IS_OLD: bool = False
    ERRORS: tuple[Any, ...] = ()  # the marker deselects these tests
else:
    IS_OLD = not hasattr(mcp, "Client")
    ERRORS = (mcp.McpError if IS_OLD else mcp.MCPError, anyio.ClosedResourceError)

FILE = """
prompt: What is the weather?
model: [{{say: Sunny.}}]
tools:
  weather: {{description: The weather., parameters: {{city: string}}, returns: Sun., takes: 3s}}
  broken: {{raises: the disk is full}}
  silent: {{hangs: true}}
{more}
"""

Session = Any
Agent = Callable[[Session], Awaitable[str | None]]


def scenario(more: str = "") -> Scenario:
    return parse_scenario(FILE.format(more=more))


def played(agent: Agent, more: str = "", **settings: Any) -> Result:
    """Run an agent that takes a session and knows nothing of simloop."""

    async def with_session(prompt: str, world: World) -> str | None:
        async with mcp_session(world, **settings) as session:
            text = await agent(session)
        await world.model.reply([UserMessage(prompt)])
        return text

    return run(scenario(more), loop=with_session)


def tool_entries(result: Result) -> list[tuple[int, str]]:
    return [
        (e.at_ns // 10**9, f"{e.name}{e.arguments}" if isinstance(e, ToolStarted) else e.text)
        for e in result.trace.entries
        if isinstance(e, ToolStarted | ToolResult)
    ]


def text_of(answer: Any) -> tuple[str, bool]:
    told = answer.model_dump(by_alias=True)  # the names of the fields differ between versions
    [content] = told["content"]
    return content["text"], told["isError"]


def test_tools_are_listed_with_their_schemas() -> None:
    async def agent(session: Session) -> str:
        listed = (await session.list_tools()).tools
        assert [tool.name for tool in listed] == ["weather", "broken", "silent"]
        assert listed[0].description == "The weather."
        assert listed[0].model_dump(by_alias=True)["inputSchema"]["required"] == ["city"]
        return "done"

    assert played(agent).text == "done"


def test_calls_take_virtual_time_side_by_side_and_are_recorded() -> None:
    async def agent(session: Session) -> str:
        calls = [session.call_tool("weather", {"city": city}) for city in ("Oslo", "Rome")]
        return str([text_of(answer) for answer in await asyncio.gather(*calls)])

    result = played(agent)
    assert result.text == str([("Sun.", False)] * 2)
    assert result.elapsed_ns == 3 * 10**9
    assert tool_entries(result) == [
        (0, 'weather{"city":"Oslo"}'),
        (0, 'weather{"city":"Rome"}'),
        (3, "Sun."),
        (3, "Sun."),
    ]
    assert encode(played(agent).trace) == encode(result.trace)


def test_failures_wrong_arguments_and_unknown_tools_are_errors_for_the_model() -> None:
    async def agent(session: Session) -> str:
        answers = [
            await session.call_tool("broken", {}),
            await session.call_tool("weather", {}),
            await session.call_tool("gone", {}),
        ]
        return str([text_of(answer) for answer in answers])

    assert played(agent).text == str(
        [
            ("Error: the disk is full", True),
            ("Error: Invalid parameters\narguments: city is missing", True),
            ("Error: tool gone not found", True),
        ]
    )


def test_a_silent_tool_ends_with_the_time_limit_of_the_session() -> None:
    async def agent(session: Session) -> str:
        with pytest.raises(Exception, match=r"[Tt]imed out"):
            await session.call_tool("silent", {})
        return text_of(await session.call_tool("weather", {"city": "Oslo"}))[0]

    result = played(agent, read_timeout_seconds=timedelta(seconds=20) if IS_OLD else 20)
    assert (result.text, result.elapsed_ns) == ("Sun.", 23 * 10**9)


def test_a_lost_connection_ends_the_calls_and_another_session_goes_on() -> None:
    async def call(session: Session) -> str:
        try:
            return text_of(await session.call_tool("weather", {"city": "Oslo"}))[0]
        except ERRORS:
            return "lost"

    async def agent(_: str, world: World) -> str:
        answers = []
        async with mcp_session(world) as session:
            answers += [await call(session) for _ in range(3)]
        async with mcp_session() as session:
            answers.append(await call(session))
        await world.model.reply([UserMessage("x")])
        return "\n".join(answers)

    result = run(scenario("mcp: {lost_calls: [2]}"), loop=agent)
    assert result.text.splitlines() == ["Sun.", "lost", "lost", "Sun."]
    assert result.elapsed_ns == 6 * 10**9
    assert (3, "Error: the connection to the MCP server was lost") in tool_entries(result)


def test_the_list_changes_at_its_time_and_the_client_is_told() -> None:
    told = []

    async def handler(message: Any) -> None:
        told.append(
            (type(getattr(message, "root", message)).__name__, asyncio.get_running_loop().time())
        )

    async def agent(session: Session) -> str:
        names = []
        for _ in range(3):
            names.append([tool.name for tool in (await session.list_tools()).tools])
            await asyncio.sleep(6)
        answer = await session.call_tool("weather", {"city": "Oslo"})
        return f"{names} {text_of(answer)}"

    more = "mcp: {listed_after: {silent: 5s}, unlisted_after: {weather: 10s}}"
    result = played(agent, more, message_handler=handler)
    names = [["weather", "broken"], ["weather", "broken", "silent"], ["broken", "silent"]]
    assert result.text == f"{names} {('Error: tool weather not found', True)}"
    assert not any(isinstance(entry, ToolStarted) for entry in result.trace.entries)
    assert [name for name, _ in told] == ["ToolListChangedNotification"] * 2
    start = told[0][1] - 5
    assert [round(at - start) for _, at in told] == [5, 10]


def test_a_list_of_an_unknown_tool_is_refused() -> None:
    async def agent(_: Session) -> None:
        raise AssertionError("not reached")

    with pytest.raises(ScenarioError, match="there is no tool `wether`") as refused:
        played(agent, "mcp: {listed_after: {wether: 5s}}")
    assert refused.value.key == "mcp.listed_after"


def test_a_call_has_the_id_of_the_call_that_the_model_made() -> None:
    async def agent(prompt: str, world: World) -> str:
        sent: list[Message] = [UserMessage(prompt)]
        async with mcp_session(world) as session:
            reply = (await world.model.reply(sent)).message
            sent.append(reply)
            for call in reply.calls:
                answer = await session.call_tool(call.name, json.loads(call.arguments))
                sent.append(ToolMessage(call.id, *text_of(answer)))
        return (await world.model.reply(sent)).message.text

    calls = Reply(call=[{"weather": {"city": "Rome"}}, {"broken": None}], ids=["a", "b"])
    with_calls = scenario().model_copy(update={"model": [calls, Reply(say="Sun.")]})
    result = run(with_calls, loop=agent)
    assert result.text == "Sun."
    started = [e for e in result.trace.entries if isinstance(e, ToolStarted)]
    assert [(e.call_id, e.name) for e in started] == [("a", "weather"), ("b", "broken")]


KEPT: list[Any] = []


async def drops(world: World) -> None:
    await mcp_session(world).__aenter__()


async def keeps(world: World) -> None:
    KEPT.append(mcp_session(world))
    await KEPT[-1].__aenter__()


async def keeps_a_stack(world: World) -> None:
    KEPT.append(contextlib.AsyncExitStack())
    await KEPT[-1].enter_async_context(mcp_session(world))


@pytest.mark.parametrize("leaves", [drops, keeps, keeps_a_stack])
def test_a_session_that_is_never_closed_is_left_behind_at_its_place(
    leaves: Callable[[World], Awaitable[None]],
) -> None:
    async def agent(_: str, world: World) -> str:
        await leaves(world)
        return "Done."

    result = run(parse_scenario("prompt: Go."), loop=agent)
    KEPT.clear()
    assert result.outcome == "completed"
    left = [entry for entry in result.trace.entries if isinstance(entry, LeftBehind)]
    assert (left[0].what, left[0].name) == ("session", "mcp.ClientSession")
    assert left[0].place.endswith(f" in {leaves.__name__}")
    assert "exception" not in [entry.what for entry in left]


@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_a_session_that_is_closed_leaves_nothing_behind(error: Exception | None) -> None:
    async def agent(_: str, world: World) -> None:
        async with mcp_session(world):
            if error is not None:
                raise error

    result = run(parse_scenario("prompt: Go."), loop=agent)
    assert not any(isinstance(entry, LeftBehind) for entry in result.trace.entries)

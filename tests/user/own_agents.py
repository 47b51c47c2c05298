"""A file of a user's project: agents of their own, and tests of them in the simulation."""

from collections.abc import Mapping

import pytest

import simloop
from simloop import (
    BeforeToolCall,
    HookBenchmark,
    Http,
    LoopTrace,
    Provider,
    Reply,
    Request,
    Result,
    Scenario,
    Sim,
    WireOptions,
    World,
    note,
    run,
    traced,
)


@traced
def weather(city: str, *, days: int = 1) -> list[str]:
    return [city] * days


@simloop.traced
async def search(query: str, limit: int = 3) -> dict[str, int]:
    note(f"searches {query}")
    return {query: limit}


class Desk:
    @traced
    async def book(self, room: int) -> bool:
        return room > 0


async def agent(question: str) -> str:
    found = await search(question, limit=5)
    booked = await Desk().book(room=found[question])
    return weather("Oslo", days=2)[0] if booked else ""


def blocking(question: str) -> str:
    return weather(question)[0]


async def in_a_world(prompt: str, world: World) -> str | None:
    async with simloop.mcp_session(world) as session:
        tools = await session.list_tools()
    return str(tools)


class Support:
    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, prompt: str) -> str:
        self.asked += 1
        return prompt


def make_agent() -> Support:
    return Support()


asked = Scenario(
    prompt="Rooms in Oslo?",
    model=[Reply(http=Http(status=429, retry_after="7s")), Reply(say="None.")],
    wire=WireOptions(framing="crlf", chat_usage="finish-chunk", pings=False),
)
also = Scenario(prompt="Hi", wire={"framing": "bytes"})


def played() -> Mapping[int, bytes]:
    for each in agent, blocking, in_a_world, Support, Support(), make_agent, "mine:agent":
        run(asked, loop=each)
    result: Result = run(asked, loop=agent, keep_bodies=True)
    return result.bodies


@pytest.mark.simloop(seeds=200, shuffle_ties=True)
async def test_survives_a_rate_limit(provider: Provider, sim: Sim) -> None:
    provider.script(Reply(http=Http(status=429)), Reply(call={"search": {"query": "a"}}))
    provider.options = WireOptions(framing="crlf", rate_limit_requests=60)
    assert await agent(f"{provider.model}")
    rows: list[str] = sim.tool(weather)("Oslo", days=3)
    found: dict[str, int] = await sim.tool(search)("Oslo")
    provider.expect(requests={"max": 3}, elapsed={"max": "15s"}, sent=["user", ...])
    provider.expect(requests=2, elapsed="2s", calls=[{"search": {"query": "a"}}, ...], tools_run=[])
    provider.expect(violates={"no-retry-of-permanent-failure": "known"})
    body: bytes = provider.bodies[1]
    requests: list[Request] = provider.requests
    trace: LoopTrace = sim.trace
    note(f"{rows} {found} {body!r} {requests} {trace} after {sim.now_ns} ns")


def guard(given: BeforeToolCall) -> None:
    given.arguments["safe"] = True


def test_guard(hook_benchmark: HookBenchmark) -> None:
    hook_benchmark(guard, at="before_tool_call", hooks=3, calls=100)

"""The cost of an agent: on the native client against a machine, and simloop's share over an SDK.

python -m pytest -s -m "" tests/benchmarks/bench_wire.py

Both sides of a comparison run in turn in one process, and the fastest batch of each counts. The
second part needs the package `openai`. It prints two shares of a run. That of the endpoint, the
transport and the wire format is the difference to the same run with a client that has the same
bytes at hand. That of all of simloop is the difference to that client in plain asyncio, and a run
of one request has the most of it: the start and the end of a run are a fixed cost.
"""

import asyncio
import importlib
import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from simloop import Reply, Runner, Scenario, UserMessage, World

WORDS = " ".join(f"word{n}" for n in range(20))
MOST_OF_A_MACHINE = 1.5
MOST_OF_THE_SDK = 1 / 3
BATCHES, RUNS = 15, 60


async def native(prompt: str, world: World) -> str:
    reply = await world.model.reply([UserMessage(prompt)])
    return reply.message.text


def fastest(*sides: Callable[[], object]) -> list[float]:
    """Return the microseconds of processor time that one call of each side takes."""
    found = [float("inf")] * len(sides)
    for _ in range(BATCHES):
        for number, side in enumerate(sides):
            start = time.process_time()
            for _ in range(RUNS):
                side()
            found[number] = min(found[number], (time.process_time() - start) / RUNS * 1e6)
    return found


def test_a_trivial_agent_costs_little_more_than_a_machine() -> None:
    scenario, seeds = Scenario(prompt="Go.", model=[Reply(say="Done.")]), itertools.count()
    with Runner(scenario, loop=native) as agent, Runner(scenario) as machine:
        own, reference = fastest(lambda: agent.run(next(seeds)), lambda: machine.run(next(seeds)))
    print(f"\nagent {own:.0f} us, reference machine {reference:.0f} us: {own / reference:.2f}")
    assert own / reference <= MOST_OF_A_MACHINE


@pytest.mark.sdks
@pytest.mark.parametrize("streams", [False, True])
def test_most_of_a_run_over_an_sdk_is_the_sdks_own(streams: bool) -> None:  # noqa: FBT001
    openai: Any = importlib.import_module("openai")
    base: Any = importlib.import_module("openai._base_client")
    httpx: Any = getattr(base, "httpx2", None) or base.httpx

    async def ask(client: Any) -> str:
        messages = [{"role": "user", "content": "Hi"}]
        reply = await client.chat.completions.create(model="m", messages=messages, stream=streams)
        if not streams:
            return str(reply.choices[0].message.content)
        chunks = [choice.delta.content or "" async for chunk in reply for choice in chunk.choices]
        return "".join(chunks)

    intercepted = openai.AsyncOpenAI(api_key="x")

    async def agent(_: str) -> str:
        return await ask(intercepted)

    scenario, seeds = Scenario(prompt="Go.", model=[Reply(say=WORDS)]), itertools.count()
    heard: list[Any] = []

    async def listen(_: str) -> None:
        async with httpx.AsyncClient() as client:
            asked = {"model": "m", "stream": streams, "messages": []}
            asked["messages"] = [{"role": "user", "content": "Hi"}]
            url = "https://api.openai.com/v1/chat/completions"
            async with client.stream("POST", url, json=asked) as reply:
                heard.append((dict(reply.headers), [piece async for piece in reply.aiter_raw()]))

    Runner(scenario, loop=listen).run(0)
    ((headers, pieces),) = heard

    class Body(httpx.AsyncByteStream):  # type: ignore[misc]
        async def __aiter__(self) -> Any:
            for piece in pieces:
                yield piece

    def answer(_: Any) -> Any:
        return httpx.Response(200, headers=headers, stream=Body())

    http_client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    canned = openai.AsyncOpenAI(api_key="x", http_client=http_client)

    async def agent_at_hand(_: str) -> str:
        return await ask(canned)

    silent = Scenario(prompt="Go.")
    with Runner(scenario, loop=agent) as over_wire, Runner(silent, loop=agent_at_hand) as at_hand:
        assert over_wire.run(0).text == at_hand.run(0).text == WORDS
        with asyncio.Runner() as plain:
            whole, rest, alone = fastest(
                lambda: over_wire.run(next(seeds)),
                lambda: at_hand.run(next(seeds)),
                lambda: plain.run(ask(canned)),
            )
    share, all_of_it = (whole - rest) / whole, (whole - alone) / whole
    name = "stream of 21 parts" if streams else "whole reply"
    print(f"\n{name}: {whole:.0f} us, with the bytes at hand {rest:.0f} us: share {share:.2f}")
    print(f"the SDK in plain asyncio {alone:.0f} us: all of simloop {all_of_it:.2f}")
    assert share < MOST_OF_THE_SDK

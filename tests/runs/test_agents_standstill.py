"""An agent that waits for ever is ended in about a second; one that talks to its world goes on."""
# ruff: noqa: ASYNC110 - agents that poll are what is tested

import asyncio

import pytest

from simloop import Reply, RunawayRun, Scenario, ToolCall, World, run
from simloop.virtual.standstill import Standstill

ROUNDS = 2_000
SCENARIO = Scenario(prompt="Go.", tools={"look": {"returns": "seen"}})


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Standstill, "stride", 100)


async def sleeps_for_ever(prompt: str, world: World) -> None:
    while True:
        await asyncio.sleep(1)


async def sleeps_alone(prompt: str) -> None:
    while True:
        await asyncio.sleep(1)


@pytest.mark.parametrize("agent", [sleeps_for_ever, sleeps_alone])
def test_an_agent_that_only_sleeps_makes_no_progress(agent: object) -> None:
    with pytest.raises(RunawayRun, match="no progress: only time changed"):
        run(SCENARIO, loop=agent)  # type: ignore[arg-type]


def test_what_an_agent_says_to_its_world_is_progress() -> None:
    async def agent(prompt: str, world: World) -> str:
        while len(world.model.recorder.entries) < ROUNDS:
            await world.tools.run(ToolCall("call", "look", "{}"))
            await asyncio.sleep(1)
        return "done"

    assert run(SCENARIO, loop=agent).text == "done"


@pytest.mark.slow
def test_a_conversation_with_a_machine_that_goes_on_is_progress() -> None:
    model = [Reply(call={"look": {}}, times=ROUNDS), Reply(say="Done.")]
    scenario = SCENARIO.model_copy(update={"loop": "opencode", "model": model})
    assert run(scenario).text == "Done."

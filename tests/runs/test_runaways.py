"""A prompt that makes too many requests or moves is ended, with its place in the program."""

import asyncio
import contextlib
from typing import Any

import pytest

from simloop import Limits, ModelCallFailed, Reply, RunawayRun, Scenario, ScriptedTool, World, run
from simloop.kernel import limits
from simloop.messages import UserMessage
from simloop.runs import scripts as scripts_module

TOOLS = {"look": ScriptedTool(returns="Nothing.")}
AGAIN = Reply(call={"look": {}}, times="always")
FAILS = Reply(http={"status": 500}, times="always")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts_module, "USUAL_REQUESTS", 50)
    monkeypatch.setattr(limits, "USUAL_MOVES", 50)


def scenario(*replies: Reply, **more: Any) -> Scenario:
    return Scenario(prompt="Go.", tools=TOOLS, model=replies, **more)


async def swallows(prompt: str, world: World) -> None:
    while True:
        try:
            await world.model.reply([UserMessage(prompt)])
        except Exception:  # noqa: BLE001 - that is the defect
            await asyncio.sleep(1)


@pytest.mark.parametrize("reply", [AGAIN, FAILS])
def test_an_agent_that_asks_for_ever_is_ended_with_its_place(reply: Reply) -> None:
    with pytest.raises(RunawayRun) as caught:
        run(scenario(reply), loop=swallows)
    found = str(caught.value)
    assert found.startswith("the run passed max_transitions=50 requests without an outcome, the la")
    assert " in swallows (if so many are right, set max_transitions, in" in found


def test_a_machine_that_goes_on_for_ever_is_ended() -> None:
    with pytest.raises(RunawayRun, match=r"max_transitions=50 .* after \d+ requests, in state"):
        run(Scenario(prompt="Go.", tools=TOOLS), loop="pi", model=lambda _: AGAIN)


async def gives_up(prompt: str, world: World) -> str:
    for _ in range(70):
        with contextlib.suppress(ModelCallFailed):
            await world.model.reply([UserMessage(prompt)])
    return "No."


def test_each_prompt_may_make_as_many_requests_as_the_scenario_states() -> None:
    played = run(scenario(FAILS, max_transitions=70, then=["Again."]), loop=gives_up)
    assert (played.text, len(played.requests)) == ("No.", 140)
    with pytest.raises(RunawayRun, match="passed max_transitions=69 requests"):
        run(scenario(FAILS, max_transitions=69), loop=gives_up)


def test_requests_for_the_replies_of_a_script_are_not_endless() -> None:
    assert run(scenario(Reply(say="Yes.", times=70)), loop=gives_up).text == "No."


def test_requests_up_to_the_limit_that_an_agent_declares_are_not_endless() -> None:
    async def agent(prompt: str, world: World) -> str:
        return await gives_up(prompt, world)

    agent.limits = Limits(max_steps=20)  # type: ignore[attr-defined]
    assert run(scenario(FAILS), loop=agent).text == "No."

"""Agents that give a run no outcome: the error names the cause, and not what came of it."""

import asyncio
from contextlib import aclosing, suppress

import pytest

from simloop import Conversation, Limits, Reply, Scenario, Trigger, run, simulate
from simloop.errors import CheckFailed, RunawayRun, ScriptExhausted
from simloop.messages import UserMessage
from simloop.trace.codec import encode
from simloop.world.world import World


@pytest.mark.parametrize("pause_s", [float("inf"), 1e9])
def test_an_agent_that_swallows_an_error_and_waits_for_ever_is_reported_with_the_error(
    pause_s: float,
) -> None:
    """Not as a Deadlock, or as a run that lasted for too long."""

    async def waits_on(prompt: str, world: World) -> None:
        with suppress(Exception):  # that is the defect
            await world.model.reply([UserMessage(prompt)])
        while True:  # noqa: ASYNC110 - nothing ends it
            await asyncio.sleep(pause_s)

    with pytest.raises(ScriptExhausted, match="no reply for request 1") as caught:
        run(Scenario(prompt="Go."), loop=waits_on)
    assert caught.value.reproduce.startswith("simloop.run(")


ALWAYS = Reply(say="Well.", pace={"first_part": "1s"}, times="always")


async def asks_for_ever(prompt: str, world: World) -> None:
    while True:
        with suppress(BaseException):  # that is the defect
            await world.model.reply([UserMessage(prompt)])


@pytest.mark.parametrize(
    ("scenario", "error"),
    [
        (Scenario(prompt="Go."), ScriptExhausted),
        (Scenario(prompt="Go.", model=[ALWAYS], abort=Trigger(at="3s")), RunawayRun),
        (
            Scenario(prompt="Go.", model=[ALWAYS], limits=Limits(max_wall_clock_ms=3_000)),
            RunawayRun,
        ),
    ],
    ids=["the end of the script", "an abort", "the wall clock"],
)
def test_an_agent_that_swallows_its_cancellations_and_asks_again_is_ended(
    scenario: Scenario, error: type[CheckFailed]
) -> None:
    with pytest.raises(error) as caught:
        run(scenario, loop=asks_for_ever)
    assert ("goes on after 100 cancellations" in str(caught.value)) is (error is RunawayRun)


@pytest.mark.parametrize("pauses", [0, 1])
def test_an_agent_that_cancels_the_task_of_its_run_has_failed_a_check(pauses: int) -> None:
    async def cancels_its_task(_: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        for _turn in range(pauses):
            await asyncio.sleep(0)

    with pytest.raises(CheckFailed, match="cancelled the task that it runs in") as caught:
        run(Scenario(prompt="Go."), loop=cancels_its_task)
    assert caught.value.reproduce.startswith("simloop.run(")


async def echoes(prompt: str) -> str:
    return prompt


def test_a_prompt_is_sent_and_recorded_as_text_that_can_be_written() -> None:
    async def talks() -> bytes:
        conversation = Conversation(Scenario(prompt="Go."), loop=echoes)
        async with aclosing(conversation.run("Go \ud800")) as events:
            async for _ in events:
                pass
        return encode(conversation.trace)

    assert "Go \ufffd".encode() in simulate(talks())

"""Prompts that a program sends one by one: each where and when it likes, but not two at once."""

import asyncio

import pytest

from simloop import Outcome, ScenarioError, simulate
from simloop.runs.run import Simulation
from simloop.scenario.loader import parse_scenario
from simloop.virtual.simulate import running_loop

S = 10**9
TALK = parse_scenario("prompt: Go.\nmodel: [{say: One.}, {stall: before-headers}, {say: Three.}]")


def test_prompts_may_be_sent_one_by_one() -> None:
    simulation = Simulation(parse_scenario("prompt: Go.\nmodel: [{say: One.}, {say: Two.}]"))

    async def talk() -> list[str]:
        return [(await simulation.send(prompt)).text for prompt in ("Go.", "Again.")]

    assert simulate(talk()) == ["One.", "Two."]


def test_an_abort_between_two_prompts_stops_neither() -> None:
    simulation = Simulation(parse_scenario("prompt: Go.\nmodel: [{say: One.}, {say: Two.}]"))

    async def talk() -> list[Outcome]:
        simulation.abort()
        first = await simulation.send("Go.")
        simulation.abort()
        await asyncio.sleep(1)
        simulation.abort()
        second = await simulation.send("Again.")
        return [first.outcome, second.outcome]

    assert simulate(talk()) == [Outcome.COMPLETED, Outcome.COMPLETED]


def test_an_abort_planned_for_a_time_between_two_prompts_stops_neither() -> None:
    simulation = Simulation(
        parse_scenario("prompt: Go.\nabort: {at: 1s}\nmodel: [{say: One.}, {say: Two.}]")
    )

    async def talk() -> list[Outcome]:
        first = await simulation.send("Go.")
        await asyncio.sleep(5)
        second = await simulation.send("Again.")
        return [first.outcome, second.outcome]

    assert simulate(talk()) == [Outcome.COMPLETED, Outcome.COMPLETED]


def test_after_a_run_that_was_cancelled_there_is_nothing_to_go_on_from() -> None:
    simulation = Simulation(TALK)

    async def talk() -> None:
        await simulation.send("Go.")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await simulation.send("Again.")
        with pytest.raises(ScenarioError, match="was cut short"):
            await simulation.send("And again.")

    simulate(talk())


def test_a_prompt_may_be_sent_from_another_task_and_is_stopped_there() -> None:
    simulation = Simulation(
        parse_scenario(
            "prompt: Go.\nlimits: {max_wall_clock: 2000ms}\n"
            "model: [{say: One.}, {stall: before-headers}]"
        )
    )

    async def talk() -> tuple[Outcome, int]:
        await asyncio.create_task(simulation.send("Go."))
        ended = await asyncio.create_task(simulation.send("Again."))
        return ended.outcome, simulation.trace.ends[-1].elapsed_ns

    assert simulate(talk()) == (Outcome.TIMED_OUT, 2 * S)


def test_a_prompt_that_is_cancelled_in_another_task_is_not_taken_for_a_model_that_failed() -> None:
    simulation = Simulation(TALK)

    async def talk() -> list[str]:
        await simulation.send("Go.")
        waiting = asyncio.create_task(simulation.send("Again."))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        return [str(waiting.cancelled()), str(running_loop().now_ns // S)]

    assert simulate(talk()) == ["True", "1"]


def test_two_prompts_cannot_be_run_at_once() -> None:
    simulation = Simulation(TALK)

    async def talk() -> None:
        await simulation.send("Go.")
        waiting = asyncio.create_task(simulation.send("Again."))
        await asyncio.sleep(0)
        with pytest.raises(ScenarioError, match="is under way"):
            await simulation.send("And again.")
        waiting.cancel()

    simulate(talk())

"""A run and who called it: neither disturbs the other, and nothing of the run is left."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from builders import DONE, HANGS, S
from pacing import paced

from simloop import (
    Expect,
    Limits,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScriptExhausted,
    arun,
    simulate,
)
from simloop.runs.run import Simulation

# ------------------------------------------------------------------------- after the run


async def goes_on_after(scenario: Scenario, end: Callable[[Simulation], None]) -> float:
    """What the caller does after the run, until 10 s; when it got there."""
    simulation = Simulation(scenario)
    await simulation.arun()
    end(simulation)
    await asyncio.sleep(10)
    return time.monotonic()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"limits": Limits(max_wall_clock_ms=1_000)},
        {"abort": {"at": "1s"}, "expect": Expect(unused=1)},
    ],
    ids=["no bound", "wall clock", "abort"],
)
def test_a_run_that_is_over_does_not_stop_its_caller_later(options: dict[str, Any]) -> None:
    scenario = Scenario(prompt="Go.", model=[DONE], **options)
    assert simulate(goes_on_after(scenario, lambda _: None)) == 10


def test_a_run_that_raised_does_not_stop_its_caller_later() -> None:
    bounded = Scenario(prompt="Go.", limits=Limits(max_wall_clock_ms=1_000))

    async def main() -> float:
        with pytest.raises(ScriptExhausted):
            await arun(bounded)
        await asyncio.sleep(10)
        return time.monotonic()

    assert simulate(main()) == 10


def test_the_wall_clock_of_one_run_does_not_stop_the_next_one() -> None:
    bounded = Scenario(prompt="Go.", limits=Limits(max_wall_clock_ms=5), model=[DONE])

    async def main() -> Outcome:
        await arun(bounded)
        return (await arun(slow("10ms"))).outcome

    assert simulate(main()) is Outcome.COMPLETED


# ------------------------------------------------------------------------- stopped from outside


def cancelled_from_outside(
    *, also_abort: bool, tool: Callable[..., Any] | None = None
) -> asyncio.Task[Result]:
    """The task of a run that hangs and is cancelled after a second."""
    reply = HANGS if tool is None else Reply(call={tool.__name__: {}})
    simulation = Simulation(
        Scenario(prompt="Go."), model=lambda _: reply, tools=[tool] if tool else []
    )

    async def main() -> asyncio.Task[Result]:
        task = asyncio.create_task(simulation.arun())
        await asyncio.sleep(1)
        if also_abort:
            simulation.abort()
        task.cancel()
        await asyncio.wait([task])
        return task

    return simulate(main())


async def hangs() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("tool", [None, hangs], ids=["in the model", "in a tool"])
@pytest.mark.parametrize("also_abort", [False, True], ids=["alone", "with an abort"])
def test_a_cancellation_from_outside_is_never_swallowed(
    also_abort: bool,  # noqa: FBT001
    tool: Callable[..., Any] | None,
) -> None:
    assert cancelled_from_outside(also_abort=also_abort, tool=tool).cancelled()


def slow(wait: str) -> Scenario:
    return Scenario(prompt="Go.", model=[Reply(say=wait, pace=paced(first_part=wait))])


def test_two_runs_at_once_do_not_disturb_each_other() -> None:
    async def main() -> list[tuple[str, int]]:
        results = await asyncio.gather(arun(slow("3s")), arun(slow("2s")))
        return [(result.text, result.elapsed_ns) for result in results]

    assert simulate(main()) == [("3s", 3 * S), ("2s", 2 * S)]


def test_entries_of_a_run_are_dated_from_its_own_start() -> None:
    async def main() -> Result:
        await asyncio.sleep(100)
        return await arun(Scenario(prompt="Go.", model=[DONE]))

    assert simulate(main()).trace.entries[0].at_ns == 0

"""One prompt around any agent: it has one prompt entry, one end, and leaves its task as it was."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from worlds import Opened, in_world

from simloop.engine.machine_agent import MachineAgent
from simloop.engine.settings import EngineSettings
from simloop.errors import ScriptExhausted
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.loops.reference import ReferenceLoop
from simloop.messages import Outcome, UserMessage
from simloop.runs.prompt import OwnAgent, run_prompt
from simloop.trace import entries
from simloop.world.agent import Ending
from simloop.world.world import World

S = 10**9
Main = Callable[[Opened], Coroutine[Any, Any, Any]]
ABORTED = Outcome.ABORTED.message()
TIMED_OUT = Outcome.TIMED_OUT.message()


async def asks(prompt: str, world: World) -> str:
    return (await world.model.reply([UserMessage(prompt)])).message.text


async def waits(_: str, __: World) -> str:
    await asyncio.sleep(9)
    return "late"


def ending_of(agent: Any, prompt: str = "Go.", **given: Any) -> tuple[Ending, Opened]:
    async def main(opened: Opened) -> tuple[Ending, Opened]:
        return await run_prompt(OwnAgent(agent), prompt, opened.world), opened

    return in_world(main, **given)


def stopped_after(agent: Any, stop_s: float = 1, **given: Any) -> tuple[Ending, Opened]:
    """Run the agent, and let the user stop it; the task must be as free as before."""

    async def main(opened: Opened) -> tuple[Ending, Opened]:
        opened.loop.call_later(stop_s, opened.world.user.stop)
        ending = await run_prompt(OwnAgent(agent), "Go.", opened.world)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0, "a later wait is not cancelled"
        await asyncio.sleep(60)
        return ending, opened

    return in_world(main, **given)


def test_an_agent_that_is_cancelled_though_nobody_asked_has_failed() -> None:
    """It awaits a task that it cancelled itself: that is no cancellation of the run (bug D4)."""

    async def cancels_itself(_: str, __: World) -> str:
        task = asyncio.ensure_future(asyncio.sleep(9))
        task.cancel()
        await task
        return "never"

    ending, opened = ending_of(cancels_itself)
    assert ending.outcome is Outcome.FAILED
    assert ending.message == Outcome.FAILED.message(cause="CancelledError")
    assert [each.where for each in opened.raised] == ["the agent"]


def test_an_error_of_simloop_is_no_end_of_the_agent() -> None:
    def used_up(_: Any) -> Any:
        raise ScriptExhausted("used up")

    async def main(opened: Opened) -> Opened:
        with pytest.raises(ScriptExhausted):
            await run_prompt(OwnAgent(asks), "Go.", opened.world)
        return opened

    opened = in_world(main, used_up)
    assert opened.of(entries.Ended) == []
    assert opened.world.user.cancellation.closed


def test_a_stop_cancels_the_agent_where_it_waits() -> None:
    ending, opened = stopped_after(waits)
    assert ending == Ending(Outcome.ABORTED, message=ABORTED)
    (end,) = opened.of(entries.Ended)
    assert (end.at_ns, end.elapsed_ns) == (S, S)


def test_an_agent_that_swallows_every_cancellation_is_cancelled_again_and_again() -> None:
    cancelled: list[float] = []

    async def stubborn(_: str, __: World) -> str:
        while len(cancelled) < 4:
            try:
                await asyncio.sleep(9)
            except asyncio.CancelledError:
                cancelled.append(asyncio.get_running_loop().time())
        return "All done."

    ending, opened = stopped_after(stubborn)
    assert ending.outcome is Outcome.ABORTED
    assert cancelled == [1.0, 1.25, 1.5, 1.75]
    assert len(opened.of(entries.StopRequested)) == 1


def test_a_stop_by_code_of_the_agent_itself_counts_though_it_returns_at_once() -> None:
    async def stops_itself(_: str, world: World) -> str:
        world.user.stop()
        return "All done."

    assert stopped_after(stops_itself, 50)[0].outcome is Outcome.ABORTED


@pytest.mark.parametrize("agent", [waits, asks], ids=["returned late", "waits for the model"])
def test_a_cancellation_by_another_task_is_passed_on_and_is_no_end(agent: Any) -> None:
    async def main(opened: Opened) -> Opened:
        running = run_prompt(OwnAgent(agent), "Go.", opened.world)
        task = asyncio.current_task()
        assert task is not None
        opened.loop.call_later(1, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await running
        task.uncancel()
        return opened

    async def slow(_: Any) -> Any:
        await asyncio.sleep(99)
        return "late"

    opened = in_world(main, slow)
    assert opened.of(entries.Ended) == []
    assert opened.raised == []


class Broken(ReferenceLoop):
    """A machine that fails at its first signal."""

    def advance(self, run: Run, signal: Signal) -> Transition:
        raise ValueError("no")


def test_an_exception_of_a_machine_is_no_end_because_the_engine_isolates_other_code() -> None:
    async def main(opened: Opened) -> Opened:
        with pytest.raises(ValueError, match="no"):
            await run_prompt(MachineAgent(Broken(), EngineSettings()), "Go.", opened.world)
        return opened

    opened = in_world(main)
    assert (opened.of(entries.Ended), opened.raised) == ([], [])

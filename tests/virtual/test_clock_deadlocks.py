"""A deadlock is told at once, with who waits where and how to see it again."""

import asyncio
import queue
import threading

import pytest

from simloop import Deadlock, Reply, Scenario, ScriptedTool, run, simulate


async def waits_for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_tool_that_hangs_is_told_at_the_time_at_which_it_hangs() -> None:
    tools = {"look": ScriptedTool(hangs=True, takes="3s")}
    scenario = Scenario(prompt="Look.", tools=tools, model=[Reply(call={"look": {}})])
    with pytest.raises(Deadlock, match="nothing can run and no timer is set, at 3 s with 1 unfin"):
        run(scenario)


def test_a_deadline_that_was_kept_does_not_move_time() -> None:
    async def asks_then_waits() -> None:
        await asyncio.sleep(1)
        await waits_for_ever()

    scenario = Scenario(prompt="Look.", model=[Reply(call={"asks_then_waits": {}})])
    with pytest.raises(Deadlock, match="at 1 s"):
        run(scenario, tools=[asks_then_waits])


def test_a_program_of_ones_own_is_reproduced_by_its_name_and_seed() -> None:
    with pytest.raises(Deadlock) as found:
        simulate(waits_for_ever(), seed=7, shuffle_ties=True)
    assert str(found.value).splitlines()[1:] == [
        "  main: test_clock_deadlocks.py:13 in waits_for_ever, awaiting Future",
        "reproduce: simloop.simulate(waits_for_ever(), seed=7, shuffle_ties=True)",
    ]


def test_a_nested_program_is_reproduced_by_its_place_as_no_name_reaches_it() -> None:
    async def main() -> None:
        await waits_for_ever()

    with pytest.raises(Deadlock) as found:
        simulate(main(), seed=7)
    line = main.__code__.co_firstlineno
    assert found.value.reproduce == (
        f"simloop.simulate(main(), seed=7)  # main is at test_clock_deadlocks.py:{line}, in "
        "test_a_nested_program_is_reproduced_by_its_place_as_no_name_reaches_it"
    )


def test_a_lock_that_the_waiting_thread_has_itself_is_told_apart_from_a_notification() -> None:
    async def twice() -> None:
        lock = threading.Lock()
        with lock:
            lock.acquire()

    async def empty() -> None:
        queue.Queue[str]().get()

    for main, waits in ((twice, "a lock that it has taken itself"), (empty, "a notification")):
        with pytest.raises(Deadlock, match=rf"thread MainThread: .*, waits for {waits}\n"):
            simulate(main())

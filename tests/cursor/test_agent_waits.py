"""The waits of an agent's code are among the timers, and a run that is watched is the same run."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import simloop
from simloop import Scenario
from simloop.cursor.keys import FactView
from simloop.cursor.lines import gap_words, gaps
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun, Waits
from simloop.cursor.views import view
from simloop.cursor.why import why
from simloop.messages import UserMessage
from simloop.runs.run import Simulation, run
from simloop.trace import entries
from simloop.world.world import World

ASKS = Scenario.model_validate({"prompt": "Hi", "model": [{"say": "Hello."}]})
TAKES = {"takes": "400ms"}
Agent = Callable[..., object]


async def ask(world: World) -> str:
    return (await world.model.reply([UserMessage("Hi")])).message.text


async def sleeps(prompt: str, world: World) -> str:
    simloop.note("before")
    await asyncio.sleep(6)
    return await ask(world)


async def bounded(prompt: str, world: World) -> str:
    simloop.note("before")
    try:
        await asyncio.wait_for(asyncio.sleep(60), 5)
    except TimeoutError:
        simloop.note("after")
    return await ask(world)


async def with_tasks(prompt: str, world: World) -> str:
    done = asyncio.Event()
    waiting = asyncio.create_task(done.wait(), name="janitor")
    asyncio.get_running_loop().call_later(3, done.set)
    simloop.note("before")
    await waiting
    return await ask(world)


def blocks() -> None:
    simloop.note("before")
    time.sleep(0.25)  # too short for an entry of its own


def watched(agent: Agent, scenario: Scenario = ASKS) -> RecordedRun:
    simulation = Simulation(scenario, loop=agent)
    waits = Waits()
    waits.watch(simulation)
    simulation.run()
    made = RecordedRun.of_run(simulation, simulation.trace, {"loop": agent})
    made.waits = waits
    return made


def timers(recording: RecordedRun, place: int) -> list[str]:
    return [str(row).strip() for row in view(FactView.TIMERS, Position(recording, place))]


def newest(recording: RecordedRun, kind: type) -> int:
    return recording.index.places[kind][-1]


def test_why_and_timers_agree_on_a_sleep_and_the_state_names_it() -> None:
    recording = RecordedRun.of_trace(run(ASKS, loop=sleeps).trace)  # a trace, without the code
    place = newest(recording, entries.Sleep)
    (reason,) = why(Position(recording, place))
    (timer,) = timers(recording, place)
    where = timer.partition(":")[0] + timer.partition(":")[2].partition(":")[0]
    assert where.startswith("sleep at test_agent_waits.py")
    assert timer.endswith("since 0.000s, due at 6.000s, in 6.000s")
    assert "sleeps at test_agent_waits.py" in reason
    assert reason.endswith("until 6.000s.")
    (state,) = view(FactView.STATE, Position(recording, place))
    assert str(state).startswith("> phase: waiting for sleep at test_agent_waits.py")
    (gap,) = gaps(recording.entries)
    assert gap_words(recording, gap).startswith("6.000s of waiting: sleep at test_agent_waits.py")
    assert timers(recording, gap)[0].startswith("model call #1")


def test_a_sleep_that_is_watched_stands_there_once() -> None:
    recording = watched(sleeps)
    assert len(timers(recording, newest(recording, entries.Sleep))) == 1


def test_a_cancelled_sleep_is_over_and_a_timeout_is_a_timer_until_it_comes() -> None:
    for recording in (watched(bounded), RecordedRun.of_trace(run(ASKS, loop=bounded).trace)):
        started, cancelled = newest(recording, entries.Sleep), newest(recording, entries.Note)
        assert "due at 60.000s, in 60.000s" in timers(recording, started)[0]
        assert not any("due at 60.000s" in each for each in timers(recording, cancelled))
    recording = watched(bounded)
    _, timeout = timers(recording, newest(recording, entries.Sleep))
    assert timeout.startswith("timeout at test_agent_waits.py")
    assert timeout.endswith("due at 5.000s, in 5.000s")


def test_a_task_that_waits_is_named_with_its_place() -> None:
    recording = watched(with_tasks)
    shown = timers(recording, newest(recording, entries.Note))
    assert shown[0].startswith("task at test_agent_waits.py")
    assert shown[1] == "task janitor: waits"
    assert str(Position(recording, 1).waits_for[0]).startswith("task at test_agent_waits.py")


def test_a_blocking_agent_and_a_thread_of_it_have_their_sleeps() -> None:
    def agent(prompt: str) -> str:
        blocks()
        return "Done."

    async def threaded(prompt: str) -> str:
        await asyncio.to_thread(blocks)
        return "Done."

    for each in (agent, threaded):
        recording = watched(each, Scenario(prompt="Hi"))
        shown = timers(recording, newest(recording, entries.Note))
        assert any("due at 0.250s, in 0.250s" in line for line in shown), (each, shown)


def test_nothing_is_waited_for_when_the_run_is_over() -> None:
    async def leaves(prompt: str, world: World) -> str:
        asyncio.create_task(asyncio.sleep(99))  # noqa: RUF006 - it is left behind
        return await ask(world)

    recording = watched(leaves)
    assert timers(recording, len(recording.entries) - 1) == [". nothing is waited for"]


def test_a_run_that_is_watched_makes_the_same_trace() -> None:
    agents: tuple[Callable[..., Awaitable[str]], ...] = (sleeps, bounded, with_tasks)
    for each in agents:
        assert watched(each).trace == run(ASKS, loop=each).trace


def test_a_trace_with_its_agent_is_watched_when_it_is_opened() -> None:
    trace = run(ASKS, loop="test_agent_waits:bounded").trace
    recording = RecordedRun.of_trace(trace, "test_agent_waits:bounded")
    place = newest(recording, entries.Sleep)
    assert timers(recording, place) == timers(watched(bounded), place)
    alone = RecordedRun.of_trace(trace)
    assert len(timers(alone, place)) == 1
    assert timers(alone, 0) == [
        ". nothing is waited for, as far as the trace shows: --loop shows more"
    ]


def test_the_waits_of_another_run_are_not_taken_for_those_of_the_trace() -> None:
    trace = run(ASKS, loop="test_agent_waits:bounded").trace
    trace.entries.pop(2)
    recording = RecordedRun.of_trace(trace, "test_agent_waits:bounded")
    assert recording.waits.after(1) == ()


def test_the_time_that_the_world_takes_is_no_sleep_of_the_program() -> None:
    slow = Scenario.model_validate({"prompt": "Hi", "tools": {"look": TAKES, "gaze": TAKES}})

    @simloop.traced
    def look() -> str:
        return "rain"

    @simloop.traced
    async def gaze() -> str:
        return "rain"

    def blocking(prompt: str) -> str:
        return look()

    async def waiting(prompt: str) -> str:
        return await gaze()

    for agent in (blocking, waiting):
        recording = watched(agent, slow)
        tool, *code = Position(recording, newest(recording, entries.ToolStarted)).timers
        assert tool.name.startswith("tool ")
        assert any("test_agent_waits.py" in each.name for each in code)
        assert not any(each.name.startswith("sleep") for each in code)

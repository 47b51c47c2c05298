"""An agent is an async callable of a prompt, and perhaps a world."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec
import pytest
from worlds import Opened, in_world

from simloop import (
    Limits,
    Reply,
    Result,
    Scenario,
    ScenarioError,
    UserMessage,
    arun,
    note,
    run,
    simulate,
)
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.timeline import describe
from simloop.virtual.clock.listener import listener_of
from simloop.virtual.simulate import running_loop
from simloop.world.agent import MOST_IN_A_ROW, agent_from, check_agent, is_agent
from simloop.world.world import World


async def of_both(prompt: str, world: World) -> str:
    return f"{prompt} {type(world).__name__}"


async def of_a_prompt(question: str) -> str:
    return f"{question} alone"


async def of_a_prompt_and_a_default(prompt: str, world: World | None = None) -> str:
    return f"{prompt} {type(world).__name__}"


async def with_an_option(question: str, depth: int = 3) -> str:
    return f"{question} {depth}"


async def of_anything(*given: Any) -> str:
    return f"{given[0]} {len(given)}"


class Object:
    async def __call__(self, prompt: str, world: World) -> str:
        return f"{prompt} {type(world).__name__}"


class Counting:
    def __init__(self) -> None:
        self.prompts = 0

    async def __call__(self, prompt: str) -> str:
        self.prompts += 1
        return f"{prompt} {self.prompts}"

    async def answer(self, prompt: str) -> str:
        return await self(prompt)


def asked(made: Any, *prompts: str) -> list[str | None]:
    async def main(opened: Opened) -> list[str | None]:
        agent = agent_from(made, "mine")
        return [await agent(prompt, opened.world) for prompt in prompts]

    return in_world(main)


@pytest.mark.parametrize(
    ("made", "answer"),
    [
        (of_both, "Hi World"),
        (of_a_prompt, "Hi alone"),
        (of_a_prompt_and_a_default, "Hi World"),
        (with_an_option, "Hi 3"),
        (of_anything, "Hi 1"),
        (Object(), "Hi World"),
        (Counting().answer, "Hi 1"),
    ],
    ids=["both", "prompt", "default", "option", "anything", "object", "method"],
)
def test_an_agent_gets_the_arguments_that_it_takes(made: Any, answer: str) -> None:
    assert asked(made, "Hi") == [answer]


def test_an_object_keeps_the_conversation() -> None:
    assert asked(Counting(), "a", "b") == ["a 1", "b 2"]


async def of_nothing() -> str:
    return ""


async def of_three(prompt: str, world: World, more: str) -> str:
    return prompt + more


async def of_a_keyword(prompt: str, *, world: World) -> str:
    return prompt


@pytest.mark.parametrize("made", [of_nothing, of_three, of_a_keyword])
def test_an_agent_that_takes_other_arguments_is_refused_with_what_to_write(
    made: Callable[..., Any],
) -> None:
    with pytest.raises(ScenarioError, match=r"the agent `mine` takes \(.*\) -> str, not a prompt"):
        agent_from(made, "mine")
    with pytest.raises(ScenarioError, match=r"the agent `mine` takes"):
        check_agent(made, "mine")


class Wrong:
    async def __call__(self) -> str:
        return ""


def test_the_instances_of_a_class_are_checked_without_making_one() -> None:
    check_agent(Object, "mine")
    check_agent(Counting, "mine")
    with pytest.raises(ScenarioError, match=r"the agent `mine` takes \(\) -> str, not"):
        check_agent(Wrong, "mine")


def sync(prompt: str) -> str:
    return prompt


class Sync:
    def __call__(self, prompt: str) -> str:
        return prompt


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (of_both, True),
        (Object(), True),
        (Object, True),
        (Counting().answer, True),
        (sync, True),
        (Sync(), True),
        (Sync, True),
        (lambda prompt: prompt, True),
        (lambda question, world: question, True),
        (partial(sync), True),
        (lambda question: question, False),
        (lambda limits: limits, False),
        (lambda _: None, False),
        (lambda *given: given, False),
        (lambda prompt="": prompt, False),
        (Limits, False),
        (print, False),
        ("text", False),
        (None, False),
    ],
    ids=["function", "object", "class", "method", "sync function", "sync object", "sync class",
         "by its name", "by its world", "partial", "unclear", "limits", "unnamed", "anything",
         "a default", "a class without calls", "builtin", "text", "none"],
)  # fmt: skip
def test_what_has_async_calls_or_reads_a_prompt_is_an_agent(made: Any, expected: bool) -> None:  # noqa: FBT001
    assert is_agent(made) is expected


OWN = (
    *(entries.Sleep, entries.LoopBlocked, entries.LockHeld),
    *(entries.TaskCancelled, entries.LeftBehind),
)


def play(agent: Any, *model: Reply, **given: Any) -> Result:
    return run(Scenario(prompt="Hi", model=[*model], **given), loop=agent)


def own(record: list[AnyEntry]) -> list[tuple[float, str]]:
    """Return the times and the words of the entries about code, without the lines."""
    return [(e.at_ns / 1e9, in_words(e)) for e in record if isinstance(e, OWN)]


def in_words(entry: Any) -> str:
    file, _, function = entry.place.partition(" in ")
    assert file.startswith("test_agent.py:")
    words = describe(msgspec.structs.replace(entry, place=function.rpartition(".")[2]))
    return words.replace(" at ", " in ")


async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)


def test_sleeps_of_a_second_and_more_are_recorded_where_they_begin() -> None:
    async def agent(_: str) -> None:
        await asyncio.sleep(0.999)
        await asyncio.sleep(1)
        await nap(7.5)

    assert own(play(agent).trace.entries) == [
        (0.999, "sleep 1.000s in agent"),
        (1.999, "sleep 7.500s in nap"),
    ]


def test_waits_of_the_world_are_no_sleeps_of_the_agent() -> None:
    async def look() -> str:
        await asyncio.sleep(5)
        return "seen"

    async def agent(prompt: str, world: World) -> None:
        message = (await world.model.reply([UserMessage(prompt)])).message
        await world.tools.run(message.calls[0])

    model = Reply(call={"wait": {}}, pace={"first_part": "9s"})
    result = play(agent, model, tools={"wait": {"takes": "3s"}})
    assert result.elapsed_s == 12
    assert own(result.trace.entries) == []
    calling = run(Scenario(prompt="Hi", model=[Reply(call={"look": {}})]), loop=agent, tools=[look])
    assert own(calling.trace.entries) == [(0, "sleep 5.000s in look")]


def test_a_blocking_call_is_recorded_when_it_ends() -> None:
    async def agent(_: str) -> None:
        time.sleep(0.5)  # noqa: ASYNC251 - what it is about
        time.sleep(2)  # noqa: ASYNC251

    assert own(play(agent).trace.entries) == [(2.5, "loop blocked for 2.000s in agent")]


class Store:
    """Two threads change it; the first waits before or after it takes the lock."""

    def __init__(self, *, waits_inside: bool) -> None:
        self.waits_inside, self.lock = waits_inside, threading.Lock()

    def change(self) -> None:
        if not self.waits_inside:
            time.sleep(0.8)
        with self.lock:
            if self.waits_inside:
                time.sleep(0.8)

    def __call__(self, prompt: str) -> str:
        with ThreadPoolExecutor() as pool:
            for each in [pool.submit(self.change), pool.submit(self.change)]:
                each.result()
        return prompt


def test_a_wait_for_a_lock_is_recorded_with_the_place_where_its_holder_waits() -> None:
    held = own(play(partial(Store, waits_inside=True)).trace.entries)
    assert [each for each in held if each[1].startswith("lock")] == [
        (0.8, "lock held for 0.800s in change")
    ]
    assert own(play(partial(Store, waits_inside=False)).trace.entries) == []


async def by_name() -> None:
    task = asyncio.create_task(nap(60), name="worker")
    await asyncio.sleep(0)
    task.cancel()
    task.cancel()


async def by_timeout() -> None:
    async with asyncio.timeout(0.5):
        await nap(0.9)


async def by_wait_for() -> None:
    await asyncio.wait_for(nap(0.9), 0.5)


async def by_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    try:
        await nap(0.1)
    finally:
        task.uncancel()


@pytest.mark.parametrize(
    ("code", "at", "words"),
    [
        (by_timeout, 0.5, "cancelled task in nap"),
        (by_wait_for, 0.5, "cancelled task in nap"),
        (by_itself, 0, "cancelled task in by_itself"),
    ],
)
def test_a_cancellation_is_recorded_with_the_place_that_waits(
    code: Callable[[], Awaitable[None]], at: float, words: str
) -> None:
    async def agent(_: str) -> None:
        with pytest.raises((TimeoutError, asyncio.CancelledError)):
            await code()

    assert own(play(agent).trace.entries) == [(at, words)]


async def of_a_library() -> None:
    await asyncio.wait_for(asyncio.sleep(2), 1)


async def of_a_library_in_a_thread() -> None:
    def work() -> None:
        asyncio.run(of_a_library())

    await asyncio.to_thread(work)


async def of_a_future() -> None:
    await asyncio.wait_for(running_loop().create_future(), 1)


async def of_a_task() -> None:
    await asyncio.wait_for(asyncio.create_task(nap(0.9)), 0.5)


async def in_a_named_task() -> None:
    await asyncio.create_task(asyncio.wait_for(of_nested(), 0.5), name="outer")


async def of_nested() -> None:
    await asyncio.wait_for(nap(0.9), 0.8)


async def cancelled_outside() -> None:
    task = asyncio.create_task(of_nested(), name="outer")
    await asyncio.sleep(0.25)
    task.cancel()
    await task


async def at_once() -> None:
    await asyncio.wait_for(nap(0.9), 0)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            of_a_library,
            [(0, "sleep 2.000s in of_a_library"), (1, "cancelled task in of_a_library")],
        ),
        (
            of_a_library_in_a_thread,
            [(0, "sleep 2.000s in of_a_library"), (1, "cancelled task in of_a_library")],
        ),
        (of_a_future, [(1, "cancelled task in of_a_future")]),
        (of_a_task, [(0.5, "cancelled task in of_a_task"), (0.5, "cancelled task in nap")]),
        (in_a_named_task, [(0.5, "cancelled task outer in nap")]),
        (cancelled_outside, [(0.25, "cancelled task outer in nap")]),
        (at_once, [(0, "cancelled task in nap")]),
    ],
)
def test_wait_for_leaves_the_same_entries_on_every_python(
    code: Callable[[], Awaitable[None]], expected: list[tuple[float, str]]
) -> None:
    async def agent(_: str) -> None:
        with pytest.raises((TimeoutError, asyncio.CancelledError)):
            await code()

    assert own(play(agent).trace.entries) == expected


def test_a_task_that_goes_on_in_wait_for_is_recorded_once() -> None:
    async def agent(_: str) -> None:
        asyncio.create_task(of_nested(), name="a")  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0.5)

    assert own(play(agent).trace.entries) == [(0.5, "left behind task a in nap")]


def test_a_comprehension_counts_as_the_code_around_it_on_every_python() -> None:
    async def agent(_: str) -> None:
        naps = [await asyncio.sleep(n, n) for n in (1, 1)]
        assert {n: [await asyncio.sleep(n, n)] for n in naps[:1]} == {1: [1]}

    words = [words for _, words in own(play(agent).trace.entries)]
    assert words == ["sleep 1.000s in agent"] * 3


def test_a_task_is_cancelled_once_under_the_name_that_it_was_given() -> None:
    async def agent(_: str) -> None:
        await by_name()
        await asyncio.sleep(0)

    assert own(play(agent).trace.entries) == [
        (0, "sleep 60.000s in nap"),
        (0, "cancelled task worker in nap"),
    ]


def test_the_ends_that_simloop_brings_about_are_no_cancellations_of_the_agent() -> None:
    async def agent(prompt: str, world: World) -> None:
        message = (await world.model.reply([UserMessage(prompt)])).message
        await world.tools.run(message.calls[0])
        await nap(0.9)

    result = play(
        agent,
        Reply(call={"wait": {}}),
        tools={"wait": {"hangs": True, "timeout": "1s"}},
        abort={"at": "1500ms"},
    )
    assert result.outcome == "aborted"
    assert own(result.trace.entries) == []


def test_tasks_that_go_on_are_recorded_at_the_end_of_the_prompt() -> None:
    async def agent(_: str) -> str:
        for name in ("a", None):
            asyncio.create_task(nap(0.9), name=name)  # noqa: RUF006 - left behind on purpose
        await asyncio.sleep(0)
        return "Done."

    result = play(agent)
    assert own(result.trace.entries) == [
        (0, "left behind task a in nap"),
        (0, "left behind task in nap"),
    ]
    assert type(result.trace.entries[-1]) is entries.Ended


async def fails() -> None:
    raise ValueError("lost")


async def in_a_task() -> None:
    asyncio.create_task(fails())  # noqa: RUF006 - nobody looks at it, on purpose
    await asyncio.sleep(0.5)


def parses() -> None:
    raise ValueError("not a number")


async def in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(parses)
    await asyncio.sleep(0.5)


@pytest.mark.parametrize(
    ("code", "name", "place"),
    [
        (in_a_task, "ValueError: lost", " in fails"),
        (in_a_callback, "ValueError: not a number", " in parses"),
    ],
)
def test_an_exception_that_nobody_looked_at_is_recorded_and_the_outcome_stands(
    code: Callable[[], Awaitable[None]], name: str, place: str
) -> None:
    async def agent(_: str) -> str:
        await code()
        return "Done."

    result = run(Scenario(prompt="Hi", then=["Again."]), loop=agent)
    assert result.outcomes == ("completed", "completed")
    left = [entry for entry in result.trace.entries if isinstance(entry, entries.LeftBehind)]
    assert len(left) == 2  # each prompt has its own
    assert (left[0].what, left[0].name) == ("exception", name)
    assert left[0].place.startswith("test_agent.py:")
    assert left[0].place.endswith(place)
    assert type(result.exceptions[0].error) is ValueError


def test_an_exception_that_the_program_hears_of_itself_is_not_recorded() -> None:
    heard: list[BaseException] = []

    async def agent(_: str) -> None:
        handle = asyncio.get_running_loop().set_exception_handler
        handle(lambda _, context: heard.append(context["exception"]))
        await in_a_task()

    assert own(play(agent).trace.entries) == []
    assert [str(error) for error in heard] == ["lost"]


def test_a_program_that_only_sleeps_does_not_fill_the_trace() -> None:
    async def agent(prompt: str, world: World) -> None:
        for _ in range(MOST_IN_A_ROW + 50):
            await asyncio.sleep(1)
        await world.model.reply([UserMessage(prompt)])
        await asyncio.sleep(1)

    record = play(agent, Reply(say="Hi")).trace.entries
    assert len(own(record)) == MOST_IN_A_ROW + 1
    assert own(record)[-1][0] == MOST_IN_A_ROW + 50


def test_agents_of_one_simulation_leave_no_listener_behind() -> None:
    async def agent(_: str) -> None:
        await asyncio.sleep(2)

    async def main() -> tuple[bool, bool]:
        scenario = Scenario(prompt="Hi")
        await asyncio.gather(arun(scenario, loop=agent), arun(scenario, loop=agent))
        loop = running_loop()
        return listener_of(loop) is None, "call_later" in vars(loop)

    assert simulate(main()) == (True, False)


def test_code_in_threads_is_recorded_and_threads_that_go_on_too() -> None:
    ended = []

    def work(seconds: float) -> None:
        note(f"works for {seconds} s")
        time.sleep(seconds)
        ended.append(seconds)

    async def agent(_: str) -> None:
        await asyncio.to_thread(work, 2)
        threading.Thread(target=work, args=(30,), name="stays").start()
        await asyncio.sleep(1)

    record = play(agent).trace.entries
    notes = [entry.text for entry in record if isinstance(entry, entries.Note)]
    assert notes == ["works for 2 s", "works for 30 s"]
    assert own(record) == [
        (0, "sleep 2.000s in work"),
        (2, "sleep 1.000s in agent"),
        (2, "sleep 30.000s in work"),
        (3, "left behind thread stays in work"),
    ]


def test_what_an_earlier_prompt_left_behind_is_recorded_once() -> None:
    async def agent(_: str) -> None:
        if not begun:
            begun.append(asyncio.create_task(nap(0.9), name="a"))
            threading.Thread(target=time.sleep, args=(0.9,), name="b").start()
        await asyncio.sleep(0)

    begun: list[object] = []
    record = play(agent, then=["Again."]).trace.entries
    assert [e.name for e in record if isinstance(e, entries.LeftBehind)] == ["a", "b"]


def test_the_code_of_tools_is_not_recorded_in_the_run_of_a_machine() -> None:
    def look() -> str:
        time.sleep(3)
        return "seen"

    model = [Reply(call={"look": {}}), Reply(say="Hi")]
    result = run(Scenario(prompt="Hi", model=model), tools=[look])
    assert own(result.trace.entries) == []

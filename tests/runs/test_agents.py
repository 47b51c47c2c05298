"""Agents as loops: every form that they take, async or in a simulated thread."""

import asyncio
import contextlib
import queue
import random
import re
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from builders import calls_tools

from simloop import (
    Outcome,
    Queued,
    Reply,
    Scenario,
    ScenarioError,
    ScriptedTool,
    Trigger,
    run,
)
from simloop.errors import CannotExpress
from simloop.kernel.limits import Limits as KernelLimits
from simloop.loops.pi import PiLoop
from simloop.runs.result import Result, refused_lines
from simloop.trace import entries
from simloop.trace.timeline import timeline
from simloop.virtual.simulate import running_loop
from simloop.world.world import World

HERE = "test_agents"
ANSWERED = Scenario(prompt="Go.", model=[Reply(say="Done.")])
SLOW = Scenario(
    prompt="Go.",
    tools={"work": ScriptedTool(takes="10s", returns="done")},
    model=[Reply(say="I begin.", call={"work": {}}), Reply(say="Done.")],
)
MADE: list[object] = []


async def echoes(prompt: str) -> str:
    return prompt


async def has_a_default(prompt: str, style: str = "plain") -> str:
    return f"{prompt} {style}"


async def may_have_a_world(prompt: str, world: World | None = None) -> str:
    return f"{prompt} {world is not None}"


class Asking:
    def __init__(self, *, manner: str = "") -> None:
        MADE.append(self)
        self.manner = manner
        self.prompts: list[str] = []

    async def __call__(self, prompt: str, world: World) -> str:
        self.prompts.append(prompt)
        return f"{len(self.prompts)}{self.manner} {await calls_tools(prompt, world)}"


def made() -> Asking:
    return Asking()


def made_with(*, manner: str = "") -> Asking:
    return Asking(manner=manner)


ASKING = Asking()
FORMS: dict[str, Any] = {
    "function": calls_tools,
    "name of a function": "builders:calls_tools",
    "partial": partial(calls_tools),
    "class": Asking,
    "name of a class": f"{HERE}:Asking",
    "object": Asking(),
    "name of an object": f"{HERE}:ASKING",
    "factory": made,
    "name of a factory": f"{HERE}:made",
    "method": Asking().__call__,
}


@pytest.mark.parametrize("loop", FORMS.values(), ids=FORMS)
def test_an_agent_runs_in_every_form(loop: Any) -> None:
    result = run(ANSWERED, loop=loop)
    assert (result.outcome, result.text[-5:]) == (Outcome.COMPLETED, "Done.")
    assert result.trace.header.python == ("loop",)
    assert len(result.requests) == 1


@pytest.mark.parametrize("loop", [Asking, made, f"{HERE}:Asking", f"{HERE}:made"])
def test_what_makes_an_agent_makes_one_for_each_run_which_keeps_the_conversation(
    loop: Any,
) -> None:
    twice = Scenario(prompt="a", then=["b"], model=[Reply(say="Yes.", times=2)])
    MADE.clear()
    assert [run(twice, loop=loop).text for _ in range(2)] == ["2 Yes.", "2 Yes."]
    assert len(MADE) == 2


def test_a_constructor_runs_on_the_virtual_clock_with_the_seed_of_the_run() -> None:
    class Drawing:
        def __init__(self) -> None:
            self.drawn = f"{time.time()} {random.random()}"

        async def __call__(self, _: str) -> str:
            return self.drawn

    bare = Scenario(prompt="Go.")
    assert run(bare, loop=Drawing).text == run(bare, loop=Drawing).text
    assert run(bare, loop=Drawing).text != run(bare, loop=Drawing, seed=1).text


def test_an_agent_that_needs_no_world_leaves_it_out() -> None:
    bare = Scenario(prompt="Go.")
    assert run(bare, loop=echoes).text == "Go."
    assert run(bare, loop=has_a_default).text == "Go. plain"
    assert run(bare, loop=may_have_a_world).text == "Go. True"


def test_a_class_and_a_factory_take_options() -> None:
    for loop in (Asking, made_with, f"{HERE}:made_with"):
        result = run(ANSWERED, loop=loop, loop_options={"manner": "!"})
        assert result.text == "1! Done."
    with pytest.raises(ScenarioError, match=r"manners.*it takes manner"):
        run(ANSWERED, loop=Asking, loop_options={"manners": 1})
    with pytest.raises(ScenarioError, match="is an agent that is made already, and takes no"):
        run(ANSWERED, loop=calls_tools, loop_options={"manner": "!"})


async def takes_too_much(prompt: str, world: World, more: int) -> str:
    return f"{prompt}{world}{more}"


def unclear(question):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201 - the types are missing
    return question


def takes_limits(_: KernelLimits) -> Asking:
    return Asking()


def makes_a_machine() -> PiLoop:
    return PiLoop()


class NeedsMore:
    def __init__(self, model: str) -> None:
        self.model = model

    async def __call__(self, prompt: str) -> str:
        return prompt + self.model


class TakesNothing:
    async def __call__(self) -> str:
        return ""


WRONG: dict[str, tuple[Any, str]] = {
    "three parameters": (takes_too_much, r"takes_too_much` takes .*write `async def agent\("),
    "none": (TakesNothing, r"TakesNothing` takes \(\).*write `async def agent\("),
    "unclear": (
        unclear,
        r"unclear` may be an agent or .*`prompt: str` for an agent, or as `limits: L",
    ),
    "limits": (takes_limits, r"takes_limits` is not a machine: .*a function without parameters"),
    "no agent": (
        lambda: 7,
        r"returns int, which is not an agent .*a function that makes a machine",
    ),
    "a machine": (makes_a_machine, r"returns PiLoop, which is not an agent .* takes Limits"),
    "an argument": (NeedsMore, r"NeedsMore` cannot be made.*missing .*'model'"),
}


@pytest.mark.parametrize(("loop", "says"), WRONG.values(), ids=WRONG)
def test_what_is_no_agent_is_refused_with_its_name_and_what_to_write(loop: Any, says: str) -> None:
    with pytest.raises(ScenarioError, match=says) as caught:
        run(ANSWERED, loop=loop)
    assert caught.value.key.startswith("loop")


def test_an_agent_that_returns_no_text_is_refused() -> None:
    async def returns_a_number(_: str) -> Any:
        return 7

    with pytest.raises(ScenarioError, match=r"returned int, not a text .*or None"):
        run(Scenario(prompt="Go."), loop=returns_a_number)


def test_an_agent_may_return_nothing_and_text_that_no_file_can_hold() -> None:
    async def returns_nothing(_: str) -> None:
        return None

    async def returns_half_a_pair(_: str) -> str:
        return "\ud800"

    assert run(Scenario(prompt="Go."), loop=returns_nothing).text == ""
    assert run(Scenario(prompt="Go."), loop=returns_half_a_pair).text == "\ufffd"


# The user


def test_messages_that_the_agent_did_not_take_are_its_next_prompts() -> None:
    heard: list[str] = []

    async def listens(prompt: str) -> str:
        heard.append(prompt)
        await asyncio.sleep(1)
        return ""

    queue = [Queued(say="b", at="0.5s"), Queued(say="c", at="0.6s")]
    result = run(Scenario(prompt="a", then=["d"], queue=queue), loop=listens)
    assert heard == ["a", "b", "c", "d"]
    assert len(result.outcomes) == 4


def test_messages_that_the_agent_takes_are_no_prompts() -> None:
    heard: list[str] = []

    async def takes(_: str, world: World) -> str:
        await asyncio.sleep(1)
        heard.extend(world.user.take())
        return ""

    queue = [Queued(say="b", at="0.5s")]
    assert run(Scenario(prompt="a", queue=queue), loop=takes).outcomes == (Outcome.COMPLETED,)
    assert heard == ["b"]


# What an agent lacks


LACKED: dict[str, dict[str, Any]] = {
    "hooks of simloop": {"hooks": [{"at": "before_llm_call"}]},
    "keeps its own context": {"summaries": [Reply(say="A.")]},
    "starts its tools itself": {"tool_execution": {"start": "when-called"}},
    "keeps its own history": {"history": [{"user": "Hi."}]},
    "no limits of simloop but max_wall_clock": {"limits": {"max_steps": 3}},
    "limits of simloop": {"limits": {"model_call_timeout": "3s"}},
    "its own system prompt": {"system_prompt": "Be brief."},
    "no policies of simloop": {"retry": {}},
    "no policies": {"hook_execution": {"order": "parallel"}},
    "policies of simloop": {"clock": {"ahead": "1s"}},
    "no entries of an engine": {"abort": {"after": "backoff"}},
}


@pytest.mark.parametrize(("says", "changes"), LACKED.items(), ids=LACKED)
def test_a_scenario_that_needs_an_engine_cannot_be_expressed(
    says: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(CannotExpress, match=says):
        run(Scenario(prompt="Go.", **changes), loop=echoes)


def tries_git(times: int) -> Any:
    async def agent(prompt: str) -> str:
        for _ in range(times):
            with contextlib.suppress(FileNotFoundError):
                subprocess.run(["git", "status"], check=False)  # noqa: ASYNC221 - as agents do
        return prompt

    return agent


@pytest.mark.parametrize("tries", [1, 3])
def test_a_refusal_is_in_the_timeline_once_in_a_row_and_the_run_goes_on(tries: int) -> None:
    result = run(Scenario(prompt="Go."), loop=tries_git(tries))
    assert result.ok
    (line,) = [line for line in timeline(result.trace) if " refused " in line]
    assert "program git status at test_agents.py:" in line


def test_a_refusal_fails_a_run_in_which_nothing_may_be_unscripted() -> None:
    expected = "expect.refused: expected [], got ['program git status']"
    strict = Scenario(prompt="Go.", unscripted="fail")
    assert run(strict, loop=tries_git(1)).failures == (expected,)
    assert run(Scenario(prompt="Go."), loop=tries_git(1), unscripted="fail").failures == (expected,)
    assert run(strict, loop=echoes).ok


@pytest.mark.parametrize("absent", ["git", "g*"])
def test_a_program_that_is_meant_to_be_absent_fails_nothing_and_is_not_listed(absent: str) -> None:
    strict = Scenario(prompt="Go.", unscripted="fail", absent=[absent])
    result = run(strict, loop=tries_git(1))
    assert result.ok
    (entry,) = (each for each in result.trace.entries if isinstance(each, entries.Refused))
    assert entry.meant
    assert list(refused_lines(result.trace)) == []


def test_the_refusals_are_listed_with_their_number_and_place() -> None:
    async def agent(prompt: str) -> str:
        for program in ("git", "ls", "git"):
            with contextlib.suppress(FileNotFoundError):
                subprocess.run([program], check=False)  # noqa: ASYNC221 - as agents do
        return prompt

    _, *lines = refused_lines(run(Scenario(prompt="Go."), loop=agent).trace)
    git, ls = lines
    assert re.fullmatch(r"  program git, asked at test_agents.py:\d+ in .*agent \(2 times\)", git)
    assert re.fullmatch(r"  program ls, asked at test_agents.py:\d+ in .*agent", ls)


def test_what_is_refused_can_be_expected() -> None:
    named = Scenario(prompt="Go.", expect={"refused": ["program git status"]})
    assert run(named, loop=tries_git(1)).ok
    assert not run(named, loop=echoes).ok


def test_an_agent_has_no_counters_and_no_messages() -> None:
    result = run(ANSWERED, loop=Asking)
    assert (result.counters, result.messages) == (None, ())


@pytest.mark.parametrize(
    ("expect", "says"),
    [
        ({"counters": {"total_steps": 1}}, "total_steps: expected 1, got None .*has no counters"),
        ({"counters": {"total_steps": {"min": 1}}}, "at least 1, got None .*has no counters"),
        ({"messages": "user assistant"}, "got ''"),
        ({"backoffs": ["2s"]}, r"got \[\]"),
    ],
)
def test_an_expectation_of_what_an_agent_does_not_have_says_so(
    expect: dict[str, Any], says: str
) -> None:
    result = run(Scenario(prompt="Go.", expect=expect), loop=echoes)
    assert len(result.failures) == 1
    assert re.search(says, result.failures[0])


HERE_SYNC = "test_agents"
NS = 10**9
GO = Scenario(prompt="Go.")
ABORTED_AT_3S = Scenario(prompt="Go.", abort=Trigger(at="3s"))


def works(prompt: str) -> str:
    time.sleep(5)
    return f"{prompt} {time.monotonic()}"


def works_in_a_world(prompt: str, world: World) -> str:
    time.sleep(5)
    assert world.model.loop is running_loop()
    return f"{prompt} {time.monotonic()}"


class SyncCounting:
    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        time.sleep(5)
        return f"{self.prompts[0]} {time.monotonic()}"


def made_sync() -> SyncCounting:
    return SyncCounting()


def with_a_prefix(prefix: str, prompt: str) -> str:
    return prefix + works(prompt)


async def asynchronous(prompt: str) -> str:
    await asyncio.sleep(5)
    return f"{prompt} {time.monotonic()}"


def wraps(prompt: str) -> Any:
    return asynchronous(prompt)


def runs_a_loop(prompt: str) -> str:
    return asyncio.run(asynchronous(prompt))


def with_a_pool(prompt: str) -> str:
    with ThreadPoolExecutor() as pool:
        return [*pool.map(works, [prompt] * 3)][-1]


SYNC_FORMS: dict[str, Any] = {
    "function": works,
    "name": f"{HERE_SYNC}:works",
    "with a world": works_in_a_world,
    "object": SyncCounting(),
    "class": SyncCounting,
    "name of a class": f"{HERE_SYNC}:SyncCounting",
    "factory": made_sync,
    "method": SyncCounting().__call__,
    "partial": partial(with_a_prefix, ""),
    "function that returns a coroutine": wraps,
    "its own event loop": runs_a_loop,
    "its own pool": with_a_pool,
}


@pytest.mark.parametrize("loop", SYNC_FORMS.values(), ids=SYNC_FORMS)
def test_an_agent_that_is_not_async_runs_in_every_form_on_virtual_time(loop: Any) -> None:
    result = run(GO, loop=loop)
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "Go. 5.0")
    assert result.elapsed_ns == 5 * 10**9


def test_an_object_keeps_the_conversation() -> None:
    twice = Scenario(prompt="a", then=["b"])
    assert run(twice, loop=SyncCounting).text == "a 10.0"


def ends(
    action: Callable[[list[str]], None], scenario: Scenario = ABORTED_AT_3S
) -> tuple[Result, list[str]]:
    log: list[str] = []

    def waiting(prompt: str) -> str:
        action(log)
        return prompt

    return run(scenario, loop=waiting), log


def cleans_up(log: list[str]) -> None:
    try:
        time.sleep(60)
        log.append("went on")
    except Exception:  # noqa: BLE001 - an abort must pass
        log.append("swallowed")
    finally:
        log.append(f"ended at {time.monotonic()}")


WAITS: dict[str, Callable[[list[str]], object]] = {
    "a sleep": cleans_up,
    "a queue": lambda _: queue.Queue[int]().get(),
    "an event": lambda _: threading.Event().wait(),
    "a join": lambda _: threading.Timer(60, print).join(),
}


def test_an_abort_ends_the_thread_where_it_waits() -> None:
    result, log = ends(cleans_up)
    assert (result.outcome, log) == (Outcome.ABORTED, ["ended at 3.0"])
    assert result.elapsed_ns == 3 * 10**9


@pytest.mark.parametrize("wait", ["a queue", "an event"])
def test_an_abort_ends_every_kind_of_wait(wait: str) -> None:
    assert ends(lambda log: (WAITS[wait](log), None)[1])[0].outcome is Outcome.ABORTED


def test_an_exception_is_the_failure_of_the_prompt() -> None:
    def fails(prompt: str) -> str:
        raise KeyError(prompt)

    def exits(prompt: str) -> str:
        raise SystemExit(prompt)

    def stops(prompt: str) -> str:
        raise StopIteration(prompt)

    for loop, says in (fails, "KeyError"), (exits, "SystemExit"), (stops, "StopIteration"):
        result = run(GO, loop=loop)
        assert result.outcome is Outcome.FAILED
        assert says in result.text + result.message


@pytest.mark.parametrize(
    ("patience_s", "timeout", "expected"),
    [
        (3, None, ("broken off", 3)),
        (30, "2s", ("Error: timed out after 2000 ms", 2)),
        (30, None, ("done", 10)),
    ],
)
def test_a_tool_on_an_event_loop_of_a_thread_is_broken_off_in_time(
    patience_s: int, timeout: str | None, expected: tuple[str, int]
) -> None:
    async def asks(world: World) -> str:
        reply = await world.model.reply([], tools=world.tools.specs)
        try:
            async with asyncio.timeout(patience_s):
                return (await world.tools.run(reply.message.calls[0])).text
        except TimeoutError:
            return "broken off"

    def agent(prompt: str, world: World) -> str:
        return asyncio.run(asks(world))

    tools = {"work": ScriptedTool(takes="10s", returns="done", timeout=timeout)}
    changes: dict[str, Any] = {"tools": tools, "model": SLOW.model[:1]}
    result = run(SLOW.model_copy(update=changes), loop=agent)
    assert (result.text, result.elapsed_ns / NS) == expected


def test_threads_that_an_agent_leaves_behind_are_in_its_trace() -> None:
    def leaves(prompt: str) -> str:
        threading.Thread(target=time.sleep, args=(60,)).start()
        threading.Thread(target=time.sleep, args=(60,), daemon=True, name="daemon").start()
        ThreadPoolExecutor(1).submit(int)
        return prompt

    left = [e for e in run(GO, loop=leaves).trace.entries if isinstance(e, entries.LeftBehind)]
    assert [(each.what, each.name) for each in left] == [("thread", "Thread-1 (sleep)")]


def test_the_sleeps_on_an_event_loop_of_a_thread_are_in_the_trace() -> None:
    async def sleeps() -> None:
        await asyncio.sleep(7)
        await asyncio.sleep(0.5)
        await asyncio.sleep(2)

    def runs_a_loop(prompt: str) -> str:
        asyncio.run(sleeps())
        return prompt

    found = [e for e in run(GO, loop=runs_a_loop).trace.entries if isinstance(e, entries.Sleep)]
    assert [(each.at_ns, each.duration_ns) for each in found] == [(0, 7 * NS), (7.5 * NS, 2 * NS)]
    assert [each.place.rpartition(".")[2] for each in found] == ["sleeps", "sleeps"]


def test_scopes_of_anyio_are_cancelled_in_the_order_of_their_entries() -> None:
    """anyio has them in a set, in the order of their addresses."""
    anyio = pytest.importorskip("anyio")
    ended: list[int] = []

    async def waits(number: int) -> None:
        with anyio.CancelScope():
            try:
                await asyncio.sleep(100)
            finally:
                ended.append(number)

    async def agent(prompt: str) -> str:
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(waits, number)
            await asyncio.sleep(1)
            group.cancel_scope.cancel()
        return prompt

    run(Scenario(prompt="Hi", model=[]), loop=agent)
    assert ended == list(range(50))

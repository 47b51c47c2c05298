"""The end of an agent's run: its exceptions, stops and exits, and the errors of simloop."""

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
from builders import calls_tools
from test_agents import ANSWERED, SLOW
from wire import Heard, posted

from simloop import (
    Expect,
    Limits,
    Outcome,
    Reply,
    Scenario,
    ScriptedTool,
    ScriptExhausted,
    Simulation,
    Trigger,
    arun,
    run,
    simulate,
)
from simloop.check.trial import verify
from simloop.errors import CheckFailed, RunawayRun
from simloop.messages import UserMessage
from simloop.trace import entries
from simloop.trace.codec import read_trace, write_trace
from simloop.virtual.threads.calls import run_blocking
from simloop.world.world import World, current_world, note


def test_an_exception_ends_the_run_as_failed_and_keeps_its_traceback() -> None:
    async def raises(prompt: str, world: World) -> str:
        await world.model.reply([UserMessage(prompt)])
        raise ValueError("oops")

    result = run(ANSWERED, loop=raises)
    assert (result.outcome, result.message) == (Outcome.FAILED, "Error: ValueError: oops")
    assert result.text == "Done.", "what the model said last"
    assert [each.where for each in result.exceptions] == ["the agent"]
    assert any("raise ValueError" in line for line in result.exceptions[0].lines())


STOPS: dict[str, tuple[dict[str, Any], Outcome, str]] = {
    "abort": ({"abort": Trigger(at="2s")}, Outcome.ABORTED, ""),
    "wall clock": (
        {"limits": Limits(max_wall_clock_ms=2_000)},
        Outcome.TIMED_OUT,
        "max_wall_clock",
    ),
}


def stopped(**changes: Any) -> Scenario:
    return SLOW.model_copy(update={"model": SLOW.model[:1], **changes})


@pytest.mark.parametrize(("changes", "outcome", "limit"), STOPS.values(), ids=STOPS)
def test_a_stop_cancels_the_agent(changes: dict[str, Any], outcome: Outcome, limit: str) -> None:
    result = run(stopped(**changes), loop=calls_tools)
    assert (result.outcome, result.limit, result.text) == (outcome, limit, "I begin.")
    assert result.elapsed_s == 2
    assert [type(each) for each in result.trace.entries][-2:] == [
        entries.StopRequested,
        entries.Ended,
    ]


def test_an_agent_that_swallows_the_stop_is_cancelled_again_after_the_grace() -> None:
    times: list[float] = []

    async def stubborn(_: str) -> str:
        while len(times) < 3:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                times.append(asyncio.get_running_loop().time())
        return "I went on."

    result = run(Scenario(prompt="Go.", abort=Trigger(at="1s")), loop=stubborn)
    assert times == [1, 1.25, 1.5]
    assert (result.outcome, result.elapsed_s) == (Outcome.ABORTED, 1.5)


async def swallows_in_a_tool(prompt: str, world: World) -> str:
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    return (await world.model.reply([UserMessage(prompt)])).message.text


def swallows_in_a_thread(prompt: str, world: World) -> str:
    with suppress(BaseException):
        time.sleep(60)
    return run_blocking(world.model.reply([UserMessage(prompt)])).message.text


async def swallows_in_a_task(prompt: str, world: World) -> str:
    return await asyncio.create_task(swallows_in_a_tool(prompt, world))


async def swallows_and_asks_over_http(prompt: str) -> str:
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    asked = posted({"model": "m", "messages": [{"role": "user", "content": prompt}]})
    return (await Heard().listen(asked)).body.decode()


def has_a_task_at_the_stop(prompt: str, world: World) -> None:
    """A task that its loop had before it heard of the stop has its first step in the clean-up."""
    loop = asyncio.new_event_loop()

    async def main() -> None:
        asked = asyncio.ensure_future(world.model.reply([UserMessage(prompt)]))
        time.sleep(60)  # noqa: ASYNC251 - the stop comes here
        await asked

    try:
        loop.run_until_complete(main())
    finally:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def obeys(prompt: str, world: World) -> str:
    await asyncio.sleep(60)
    return (await world.model.reply([UserMessage(prompt)])).message.text


@pytest.mark.parametrize(
    ("agent", "places"),
    [
        (swallows_in_a_tool, ["test_agents_ended.py"]),
        (swallows_in_a_thread, ["test_agents_ended.py"]),
        (swallows_in_a_task, ["test_agents_ended.py"]),
        (swallows_and_asks_over_http, ["wire.py"]),
        (has_a_task_at_the_stop, []),
        (obeys, []),
    ],
)
def test_the_trace_shows_where_an_agent_goes_on_after_a_stop(agent: Any, places: list[str]) -> None:
    scenario = Scenario(prompt="Go.", model=[ALWAYS], abort=Trigger(at="1s"))
    found = Simulation(scenario, loop=agent).run_unchecked()
    left = [each for each in found.trace.entries if type(each) is entries.LeftBehind]
    assert [(each.what, each.place.partition(":")[0]) for each in left] == [
        ("stop", place) for place in places
    ]
    assert found.outcome is Outcome.ABORTED


def test_an_agent_that_fails_while_it_stops_is_aborted_and_can_be_prompted_again() -> None:
    async def fails_at_the_stop(prompt: str) -> str:
        if prompt == "again":
            await asyncio.sleep(1)
            return "Here."
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ValueError("not now") from None
        return ""

    scenario = Scenario(prompt="Go.", then=["again"], abort=Trigger(at="1s"))
    result = run(scenario, loop=fails_at_the_stop)
    assert result.outcomes == (Outcome.ABORTED, Outcome.COMPLETED)
    assert [str(each.error) for each in result.exceptions] == ["not now"]


@pytest.mark.parametrize(
    "moment", ["request", "tool-call", "finish", "tool-started", "tool-result"]
)
def test_a_stop_after_an_entry_takes_effect_before_the_next_call_at_the_boundary(
    moment: Any,
) -> None:
    quick = {"work": ScriptedTool(returns="done")}
    scenario = stopped(tools=quick, abort=Trigger(after=moment), expect=Expect(unused=1))
    result = run(scenario, loop=calls_tools)
    kinds = [str(type(each).__struct_config__.tag) for each in result.trace.entries]
    after = kinds[kinds.index(moment) + 1 :]
    assert result.outcome is Outcome.ABORTED
    assert not {"request", "tool-started"} & set(after)
    assert len(result.unused_places) == (moment == "request"), "that model is not asked"


async def swallows(prompt: str, world: World) -> str:
    for _ in range(3):
        with suppress(Exception):  # that is the defect
            await world.model.reply([UserMessage(prompt)])
    return "All is well."


def test_an_agent_cannot_hide_that_its_script_is_used_up() -> None:
    with pytest.raises(ScriptExhausted, match="no reply for request 2"):
        run(ANSWERED, loop=swallows)


def test_an_agent_cannot_go_on_after_a_request_that_is_too_long_for_its_trace() -> None:
    tries: list[int] = []

    async def says_too_much(_: str, world: World) -> str:
        for number in range(5):
            tries.append(number)
            with suppress(Exception):
                await world.model.reply([UserMessage("x" * 1_000)])
        return "All is well."

    with pytest.raises(RunawayRun, match="max_trace_chars"):
        run(ANSWERED.model_copy(update={"max_trace_chars": 500}), loop=says_too_much)
    assert tries == [0, 1], "the second call ends the agent"


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


class Own(BaseException):
    """An exception that `except Exception` does not catch."""


ENDS = [KeyboardInterrupt("enough"), SystemExit("enough"), Own("enough")]


async def to_thread(end: Callable[[], NoReturn]) -> None:
    await asyncio.to_thread(end)


async def in_a_task(end: Callable[[], NoReturn]) -> None:
    async def work() -> None:
        end()

    await asyncio.create_task(work())


async def in_a_loop_of_a_thread(end: Callable[[], NoReturn]) -> None:
    async def work() -> None:
        end()

    await asyncio.to_thread(lambda: asyncio.run(work()))


async def at_once(end: Callable[[], NoReturn]) -> None:
    end()


@pytest.mark.parametrize("where", [at_once, in_a_task, to_thread, in_a_loop_of_a_thread])
@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
def test_an_agent_that_ends_its_program_ends_its_run_as_failed(
    error: BaseException, where: Callable[..., Awaitable[None]], plain: object
) -> None:
    def end() -> NoReturn:
        raise error

    async def ends(_: str) -> None:
        await where(end)

    def ends_plainly(prompt: str) -> None:
        asyncio.run(ends(prompt))

    result = run(Scenario(prompt="Go.", then=["Again."]), loop=ends_plainly if plain else ends)
    assert result.outcomes == (Outcome.FAILED, Outcome.FAILED)
    assert result.message == f"Error: {type(error).__name__}: enough"
    assert [raised.error for raised in result.exceptions] == [error, error]


@pytest.mark.parametrize("error", ENDS[:2], ids=lambda error: type(error).__name__)
def test_a_task_that_nobody_awaits_ends_the_program_too(error: BaseException) -> None:
    """As in Python, where the error leaves `asyncio.run`."""

    async def ends(_: str) -> str:
        async def work() -> None:
            raise error

        task = asyncio.create_task(work())
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return f"went on {task.done()}"

    result = run(Scenario(prompt="Go."), loop=ends)
    assert result.outcome is Outcome.FAILED
    assert result.elapsed_ns == 0


def test_an_exception_that_ends_a_thread_of_an_agent_ends_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)

    def end() -> NoReturn:
        raise Own("enough")

    async def starts(_: str) -> str:
        thread = threading.Thread(target=end)
        thread.start()
        thread.join()
        return "Done."

    assert run(Scenario(prompt="Go."), loop=starts).outcome is Outcome.COMPLETED
    assert capsys.readouterr().err.endswith("Own: enough\n")


def test_a_ctrl_c_is_not_the_agents() -> None:
    pressed = signal.raise_signal  # looked up before the run, which refuses the one of the module

    async def computes(_: str) -> None:
        pressed(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run(Scenario(prompt="Go."), loop=computes)


def test_a_thread_that_outlives_the_agent_has_its_world_until_the_run_is_closed(
    tmp_path: Path,
) -> None:
    refused: list[str] = []

    def late() -> None:
        time.sleep(10)
        world = current_world()
        assert world is not None
        note("late")
        completion = run_blocking(world.model.reply([UserMessage("Go.")]))
        note(completion.message.text)
        try:
            socket.create_connection(("nobody.example", 80))
        except OSError as error:
            refused.append(type(error).__name__)

    def agent(prompt: str) -> str:
        threading.Thread(target=late, name="late").start()
        return prompt

    scenario = Scenario(prompt="Go.", model=[Reply(say="Yes.")], expect=Expect(unused=1))
    result = run(scenario, loop=agent)
    kinds = [type(entry).__name__ for entry in result.trace.entries]
    after = kinds[kinds.index("Ended") + 1 :]
    assert after == ["Note", "Request", "TextDelta", "Finish", "Note", "Refused"]
    assert refused == ["ConnectionRefusedError"]
    assert result.elapsed_ns == 0
    write_trace(result.trace, tmp_path / "trace.jsonl")
    read = read_trace(tmp_path / "trace.jsonl")
    assert read.entries == result.trace.entries
    assert not read.truncated
    verdict = verify(scenario, loop=agent)
    assert verdict.deterministic
    assert verdict.entries == result.trace.entries
    assert verdict.violations == ()


def test_a_thread_that_goes_on_after_a_stop_gets_no_answer() -> None:
    def late() -> None:
        try:
            time.sleep(10)
        finally:
            worlds.append(current_world())

    async def agent(prompt: str) -> str:
        threading.Thread(target=late).start()
        await asyncio.sleep(60)
        return prompt

    worlds: list[object] = []
    result = run(Scenario(prompt="Go.", abort=Trigger(at="1s")), loop=agent)
    assert result.outcome == "aborted"
    assert worlds == [None]


def test_each_run_of_one_simulation_answers_the_threads_that_it_has_left() -> None:
    def late(prompt: str) -> None:
        time.sleep(5)
        note(f"late {prompt}")

    def agent(prompt: str) -> str:
        threading.Thread(target=late, args=(prompt,)).start()
        return prompt

    async def both() -> list[list[str]]:
        results = [await arun(Scenario(prompt=prompt), loop=agent) for prompt in ("a", "b")]
        await asyncio.sleep(60)
        return [
            [entry.text for entry in each.trace.entries if isinstance(entry, entries.Note)]
            for each in results
        ]

    assert simulate(both()) == [["late a"], ["late b"]]

"""Standard input: who answers, when, and what the agent reads, in every way that it may read."""

import asyncio
import contextlib
import getpass
import inspect
import io
import os
import select
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simloop import (
    Deadlock,
    Line,
    Result,
    RunawayRun,
    Scenario,
    ScenarioError,
    ScriptUnused,
    run,
    traced,
)
from simloop.messages import Outcome
from simloop.trace import entries
from simloop.trace.codec import encode
from simloop.world import keyboard


def played(code: Callable[[], Any], *lines: Any, **scenario: Any) -> Result:
    """Run an agent that runs `code`, and returns what that returns as text."""

    def agent(prompt: str) -> str:
        return str(code())

    return run(Scenario(prompt="Go.", **{"input": [*lines], **scenario}), loop=agent)


def typed(result: Result) -> list[tuple[float, str, str]]:
    """The seconds, the text and the prompt of each line that the user has typed."""
    found = [each for each in result.trace.entries if type(each) is entries.Input]
    return [(each.at_ns / 1e9, each.text, each.prompt) for each in found if not each.ends]


LATE = Line(say="no", after="40m")


def test_lines_come_in_order_each_in_its_time_after_the_question() -> None:
    def code() -> Any:
        return [input("Delete a? "), input("Delete b? "), input()]

    result = played(code, "yes", LATE, Line(say="", after="1s"))
    assert result.text == "['yes', 'no', '']"
    assert typed(result) == [
        (0, "yes", "Delete a?"), (2400, "no", "Delete b?"), (2401, "", "")
    ]  # fmt: skip


def test_time_counts_from_the_question_and_not_from_the_line_before() -> None:
    def code() -> str:
        first = input()
        asyncio.run(asyncio.sleep(100))
        return first + input()

    assert typed(played(code, "a", Line(say="b", after="5s"))) == [(0, "a", ""), (105, "b", "")]


def by_lines() -> Any:
    return [sys.stdin.readline(), sys.stdin.readline()]


def by_iteration() -> Any:
    return list(sys.stdin)


def whole() -> Any:
    return sys.stdin.read().splitlines(keepends=True)


def by_bytes() -> Any:
    return [line.decode() for line in sys.stdin.buffer]


def by_descriptor() -> Any:
    return [os.read(sys.stdin.fileno(), 99).decode() for _ in range(2)]


def by_select() -> Any:
    ready = [select.select([sys.stdin], [], [], 60)[0] for _ in range(45)]
    assert ready[0] == ready[38] == []
    assert ready[44] == [sys.stdin]
    return by_lines()


def by_selector() -> Any:
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin, selectors.EVENT_READ)
        assert selector.select(2399) == []
        assert len(selector.select(2)) == 1
    return by_lines()


async def by_event_loop() -> Any:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    pipe = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    lines = [(await reader.readline()).decode() for _ in range(2)]
    pipe[0].close()
    await asyncio.sleep(0)
    return lines


async def in_executor() -> Any:
    loop = asyncio.get_running_loop()
    return [await loop.run_in_executor(None, sys.stdin.readline) for _ in range(2)]


@pytest.mark.parametrize(
    "code",
    [by_lines, by_iteration, whole, by_bytes, by_descriptor, by_select, by_selector,
     by_event_loop, in_executor],
)  # fmt: skip
def test_every_way_to_read_waits_for_the_user(code: Callable[[], Any]) -> None:
    is_async = inspect.iscoroutinefunction(code)
    result = played(
        lambda: asyncio.run(code()) if is_async else code(), LATE, Line(say="yes", after="1s")
    )
    assert result.text == "['no\\n', 'yes\\n']"
    assert [at for at, *_ in typed(result)] == [2400, 2401]


def test_other_tasks_go_on_while_a_thread_waits_for_the_user() -> None:
    async def agent(prompt: str) -> str:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(600)
                ticks += 1

        ticking = asyncio.create_task(tick())
        answer = await asyncio.to_thread(input, "Go on? ")
        ticking.cancel()
        return f"{answer} {ticks}"

    assert run(Scenario(prompt="Go.", input=[LATE]), loop=agent).text == "no 4"


def test_a_coroutine_that_asks_blocks_its_event_loop() -> None:
    async def agent(prompt: str) -> str:
        return input("Go on? ")  # noqa: ASYNC250 - the point

    result = run(Scenario(prompt="Go.", input=[LATE]), loop=agent)
    assert result.text == "no"
    assert [type(each) for each in result.trace.entries][-2] is entries.LoopBlocked


def test_after_the_last_line_comes_the_end_of_the_file() -> None:
    def code() -> Any:
        first = input()
        with pytest.raises(EOFError):
            input("And? ")
        return first, sys.stdin.readline()

    result = played(code, "a")
    assert result.text == "('a', '')"
    end = next(each for each in result.trace.entries if type(each) is entries.Input and each.ends)
    assert end.prompt == "And?"


def test_an_agent_without_a_user_reads_the_end_at_once() -> None:
    result = played(lambda: input("Sure? "))
    assert result.outcome is Outcome.FAILED
    assert "EOFError" in result.message


def test_a_line_for_a_question_waits_for_it() -> None:
    def code() -> Any:
        sys.stdout.write("1) keep\n2) delete\n")
        return [input("Choose: "), input("Sure? ")]

    lines = Line(to={"contains": "Sure"}, say="y"), Line(to={"contains": ["keep", "del"]}, say="2")
    assert played(code, *lines).text == "['2', 'y']"


def test_a_line_may_be_typed_several_times_or_always() -> None:
    def code() -> Any:
        return [input(f"{n}? ") for n in range(4)]

    lines = Line(say="a", times=2), Line(say="b", times="always")
    assert played(code, *lines).text == "['a', 'a', 'b', 'b']"


def test_a_program_that_asks_for_ever_is_a_runaway(monkeypatch: pytest.MonkeyPatch) -> None:
    def code() -> None:
        while True:
            input()

    monkeypatch.setattr(keyboard, "MOST_LINES", 10)
    with pytest.raises(RunawayRun, match="has asked its user 10 times"):
        played(code, Line(say="y", times="always"))


def test_what_the_program_wrote_before_the_last_line_is_no_question() -> None:
    def code() -> Any:
        first = input("Delete a? ")
        with contextlib.suppress(EOFError):
            return first + input("Go on? ")
        return first

    assert played(code, Line(to={"contains": "Delete"}, say="y", times="always")).text == "y"


def test_a_scenario_expects_the_questions() -> None:
    def code() -> Any:
        return input("Delete a? "), input("b\nDelete b? "), sys.stdin.read()

    assert played(code, "y", "n", expect={"asked": ["Delete a?", "Delete b?", ""]}).ok
    assert played(code, "y", "n", expect={"asked": ["Delete a?", ...]}).ok
    (found,) = played(code, "y", "n", expect={"asked": ["Delete a?", "Go on?", ...]}).failures
    assert "asked: expected ['Delete a?', 'Go on?', '...']" in str(found)


def test_lines_that_nobody_asks_for_are_unused() -> None:
    with pytest.raises(ScriptUnused, match=r"never happened: input.1, input.2"):
        played(input, "a", LATE, Line(say="c", times=2))
    stated = played(input, "a", LATE, expect={"unused": 1})
    assert stated.unused_places == ("input.1",)
    assert played(input, "a", Line(say="b", times="always"), expect={"unused": 1}).unused == 1


def test_a_redirected_file_is_there_at_once_and_is_no_terminal() -> None:
    def code() -> Any:
        return sys.stdin.isatty(), os.isatty(sys.stdin.fileno()), sys.stdin.read()

    result = played(code, input="a\nb")
    assert result.text == "(False, False, 'a\\nb')"
    assert typed(result) == [(0, "a\nb", "")]


def test_a_secret_is_typed_too() -> None:
    def code() -> Any:
        found = getpass.getpass(), getpass.getpass("Key: ", sys.stdout)
        with pytest.raises(EOFError):
            getpass.getpass()
        return found

    result = played(code, "secret", Line(to={"contains": "Key"}, say="k", after="1s"))
    assert result.text == "('secret', 'k')"
    assert typed(result) == [(0, "secret", "Password:"), (1, "k", "Key:")]


def test_a_library_that_asks_may_want_to_hear_of_signals() -> None:
    async def agent(prompt: str) -> str:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, print)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        return prompt

    assert run(Scenario(prompt="Go.", input=[]), loop=agent).text == "Go."
    with pytest.raises(ScenarioError, match="add_signal_handler is not available"):
        run(Scenario(prompt="Go."), loop=agent)


def test_a_user_who_types_is_at_a_terminal() -> None:
    def code() -> Any:
        return sys.stdin.isatty(), os.isatty(sys.stdin.fileno()), os.isatty(os.pipe()[0]), input()

    assert played(code, "a").text == "(True, True, False, 'a')"


def test_a_large_file_passes_through_the_pipe_and_the_trace_is_bounded() -> None:
    result = played(lambda: len(sys.stdin.read()), input="0123456789" * 50_000)
    assert result.text == "500000"
    assert typed(result)[0][1].endswith("[... and 400000 more characters]")


def test_two_threads_that_ask_at_once_read_one_after_the_other() -> None:
    async def agent(prompt: str) -> str:
        asked = [asyncio.to_thread(input, f"{name}? ") for name in "ab"]
        return " ".join(await asyncio.gather(*asked))

    lines = [Line(say="x", after="1s"), Line(say="y", after="1s")]
    assert run(Scenario(prompt="Go.", input=lines), loop=agent).text == "x y"


def test_the_trace_names_the_calls_that_ask_and_that_read() -> None:
    @traced
    def delete(path: str) -> str:
        return input(f"Delete {path}? ")

    async def agent(prompt: str) -> str:
        found = [asyncio.to_thread(delete, path) for path in ("a", "b")]
        return " ".join(await asyncio.gather(*found))

    def of(*lines: Any) -> list[tuple[str, str]]:
        result = run(Scenario(prompt="Go.", input=[*lines]), loop=agent)
        record = result.trace.entries
        return [(e.asked_by, e.read_by) for e in record if type(e) is entries.Input]

    late = Line(say="y", after="1s")
    assert of(late, late) == [("own-2", "own-1"), ("", "own-2")]
    to_a = Line(to={"contains": "Delete a"}, say="y", after="1s")
    assert of(to_a, late) == [("own-1", "own-1"), ("", "own-2")]


def test_a_tool_that_only_writes_lines_has_not_asked() -> None:
    @traced
    def delete(path: str) -> str:
        return input(f"Delete {path}? ")

    @traced
    def load(path: str) -> None:
        sys.stdout.write("loading\n")

    async def agent(prompt: str) -> str:
        loads = asyncio.to_thread(load, "b")
        return (await asyncio.gather(asyncio.to_thread(delete, "a"), loads))[0]

    result = run(Scenario(prompt="Go.", input=[Line(say="y", after="1s")]), loop=agent)
    (line,) = [each for each in result.trace.entries if type(each) is entries.Input]
    assert (line.asked_by, line.read_by) == ("own-1", "own-1")


def test_standard_input_lasts_over_the_prompts_of_a_run() -> None:
    def agent(prompt: str) -> str:
        return prompt + input()

    result = run(Scenario(prompt="a", then=["b"], input=["1", "2"]), loop=agent)
    assert result.text == "b2"
    assert len(typed(result)) == 2


def test_a_stop_ends_an_agent_that_waits_for_the_user() -> None:
    result = played(input, LATE, abort={"at": "1m"}, expect={"unused": 1, "outcome": "aborted"})
    assert result.outcome is Outcome.ABORTED
    assert result.elapsed_ns == 60 * 10**9
    assert result.ok


def test_a_deadlock_names_the_user_who_waits_for_a_question() -> None:
    async def agent(prompt: str) -> str:
        await asyncio.get_running_loop().create_future()
        return ""

    with pytest.raises(Deadlock, match=r"the user: .*waits for a question on standard input"):
        run(Scenario(prompt="Go.", input=["a"]), loop=agent)


def test_a_real_process_of_a_question_about_the_machine_is_no_pipe_of_the_run() -> None:
    """`platform` starts `uname`, with the first request of an SDK."""
    asked: dict[str, Any] = {"__name__": "platform", "subprocess": subprocess}
    exec("def uname(): return subprocess.check_output(['sh', '-c', 'sleep 0.1; echo x'])", asked)
    assert played(asked["uname"]).text == "b'x\\n'"


def test_code_outside_of_the_run_has_its_own_standard_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("outside\n"))
    before = sys.stdin
    assert played(input, "inside").text == "inside"
    assert sys.stdin is before
    assert input() == "outside"


def test_equal_runs_have_equal_traces() -> None:
    def code() -> Any:
        return input("a? "), input("b? ")

    first, second = (played(code, "1", LATE) for _ in range(2))
    assert encode(first.trace) == encode(second.trace)


PROGRAM = """
import sys
from sys import stdin
print(sys.stdin.isatty(), stdin is sys.__stdin__)
print(input("Name? ").upper())
print(list(stdin))
"""


@pytest.mark.slow
def test_a_whole_program_reads_from_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asks.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    scenario = Scenario(prompt="Go.", loop="$ python asks.py", input=["ann", LATE])
    result = run(scenario)
    assert result.text == "True True\nName? ANN\n['no\\n']"
    assert typed(result)[:1] == [(0, "ann", "Name?")]
    assert result.elapsed_ns == 2400 * 10**9
    redirected = run(scenario.model_copy(update={"input": "ann\nno\n"}))
    assert redirected.text == "False True\nName? ANN\n['no\\n']"

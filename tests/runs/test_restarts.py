"""Further prompts after a time, and a fresh instance of the agent that answers them."""

import asyncio
import multiprocessing
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from simloop import (
    Line,
    Reply,
    Result,
    Scenario,
    ScenarioError,
    Then,
    World,
    folder,
    run,
)
from simloop.messages import Outcome
from simloop.runs.folders import begin_in_own_folder, can_bind, own_folder
from simloop.runs.isolation import isolated
from simloop.scenario.loader import parse_scenario
from simloop.scenario.writing import scenario_text
from simloop.trace import entries
from simloop.trace.codec import encode


class Counts:
    """An agent that counts its prompts."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, prompt: str) -> str:
        self.count += 1
        return f"{prompt} {self.count}"


def kinds(result: Result) -> list[str]:
    return [type(each).__name__ for each in result.trace.entries]


def test_time_passes_before_a_further_prompt() -> None:
    scenario = Scenario(prompt="a", then=["b", {"after": "2h", "say": "c"}])
    result = run(scenario, loop=Counts)
    asked = [each for each in result.trace.entries if type(each) is entries.Prompt]
    assert [(each.text, each.at_ns) for each in asked] == [
        ("a", 0), ("b", 0), ("c", 7_200 * 10**9)
    ]  # fmt: skip
    assert result.text == "c 3"
    assert result.elapsed_ns == 7_200 * 10**9


def test_a_restart_makes_a_fresh_instance() -> None:
    again = Scenario(prompt="a", then=[Then(after="1h", say="b", restart=True), "c"])
    result = run(again, loop=Counts)
    assert result.text == "c 2"
    assert kinds(result) == ["Prompt", "Ended", "Restarted", "Prompt", "Ended", "Prompt", "Ended"]
    assert result.trace.entries[2].at_ns == 3_600 * 10**9


def makes_it_once() -> Counts:
    return Counts()


@pytest.mark.parametrize("loop", [Counts, makes_it_once, lambda: Counts()])  # noqa: PLW0108 - another function
def test_a_class_and_a_factory_are_called_again(loop: Any) -> None:
    scenario = Scenario(prompt="a", then=[Then(say="b", restart=True)])
    assert run(scenario, loop=loop).text == "b 1"


def test_a_plain_function_restarts_too() -> None:
    async def agent(prompt: str) -> str:
        return prompt

    assert run(Scenario(prompt="a", then=[Then(say="b", restart=True)]), loop=agent).text == "b"


def test_a_machine_begins_anew() -> None:
    replies = [Reply(say="One."), Reply(say="Two.")]
    result = run(Scenario(prompt="a", then=[Then(say="b", restart=True)], model=replies))
    assert [message.text for message in result.messages] == ["b", "Two."]


@pytest.mark.parametrize("loop", [Counts(), Counts().__call__])
def test_an_object_that_is_made_already_cannot_restart(loop: Any) -> None:
    text = "prompt: a\nthen:\n  - b\n  - {say: c, restart: true}\n"
    with pytest.raises(ScenarioError, match=r"then\.1\.restart: the loop .* made already"):
        run(parse_scenario(text), loop=loop)


def test_what_the_agent_has_left_running_goes_on_in_the_pause_and_ends_with_the_restart() -> None:
    heard: list[str] = []

    async def tick() -> None:
        try:
            while True:
                await asyncio.sleep(60)
                heard.append("task")
        finally:
            heard.append("task ends")

    def tick_in_thread() -> None:
        while True:
            time.sleep(100)
            heard.append("thread")

    class Ticks:
        def __init__(self) -> None:
            self.tasks: list[asyncio.Task[None]] = []

        async def __call__(self, prompt: str) -> str:
            if prompt == "a":
                self.tasks.append(asyncio.create_task(tick()))
                threading.Thread(target=tick_in_thread, daemon=True).start()
            return prompt

    pause = Then(after="190s", say="b", restart=True)
    run(Scenario(prompt="a", then=[pause, Then(after="1h", say="c")]), loop=Ticks)
    assert heard == ["task", "thread", "task", "task", "task ends"]


def test_a_pool_of_threads_works_after_a_restart() -> None:
    class Works:
        async def __call__(self, prompt: str) -> str:
            return await asyncio.to_thread(lambda: prompt * 2)

    scenario = Scenario(prompt="a", then=[Then(say="b", restart=True)])
    assert run(scenario, loop=Works).text == "bb"


def test_a_worker_of_anyio_works_after_a_restart() -> None:
    class Works:
        async def __call__(self, prompt: str) -> str:
            return await anyio.to_thread.run_sync(lambda: prompt * 2)

    scenario = Scenario(prompt="a", then=[Then(say="b", restart=True)])
    assert run(scenario, loop=Works).text == "bb"


def test_an_agent_with_a_database_goes_on_after_a_restart(tmp_path: Path) -> None:
    class Remembers:
        def __init__(self) -> None:
            self.store = sqlite3.connect(tmp_path / "store.db")
            self.store.execute("create table if not exists said (text)")

        async def __call__(self, prompt: str, world: World) -> str:
            with self.store:
                self.store.execute("insert into said values (?)", (prompt,))
            said = [text for (text,) in self.store.execute("select text from said")]
            if prompt == "b":
                self.store.close()
            return " ".join(said)

    scenario = Scenario(prompt="a", then=[Then(after="2h", say="b", restart=True)])
    assert run(scenario, loop=Remembers).text == "a b"


def test_equal_runs_with_restarts_have_equal_traces() -> None:
    scenario = Scenario(
        prompt="a", then=[Then(after="2h", say="b", restart=True)], input=[Line(say="y")]
    )

    def agent(prompt: str) -> str:
        return prompt if prompt == "a" else input("? ")

    first, second = (run(scenario, loop=agent) for _ in range(2))
    assert encode(first.trace) == encode(second.trace)
    assert first.outcome is Outcome.COMPLETED


def test_a_scenario_of_a_file_is_written_as_it_was_read() -> None:
    text = """\
prompt: Delete all.
then: [Go on., {say: approve, after: 7200s, restart: true}]
input: ["y", {say: "n", after: 2400s, to: {contains: Sure}, times: 2}]
"""
    scenario = parse_scenario(text)
    assert scenario.then == ["Go on.", Then(say="approve", after="2h", restart=True)]
    assert text in scenario_text(scenario)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("then: [{after: 2h}]", r"<text>:2:8: then\.0: the key `say` is missing"),
        ("then: [{say: a, after: 2}]", r"2:24: then\.0\.after: "),
        ("then: [{say: a, restart: yes}]", r"2:26: then\.0\.restart: must be true or false"),
        ("then: [{say: a, when: x}]", r"2:17: then\.0\.when: unknown key"),
        ("then: x", r"2:7: then: must be a list"),
        ("input: [{after: 2h}]", r"input\.0: the key `say` is missing"),
        ("input: 3", r"2:8: input: "),
        ('input: [{say: "a\\nb"}]', r"2:10: input\.0\.say: a line has no line break"),
        ("input: [{say: a, to: b}]", r"input\.0\.to: must be a mapping"),
        ("input: [{say: a, times: 0}]", r"input\.0\.times: "),
    ],
)
def test_mistakes_have_a_place_and_a_reason(text: str, place: str) -> None:
    with pytest.raises(ScenarioError, match=place):
        parse_scenario(f"prompt: x\n{text}\n")


class Diary:
    """An agent that writes its prompts into a file of its run."""

    def __init__(self) -> None:
        self.file = folder() / "diary"

    async def __call__(self, prompt: str) -> str:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{prompt} ")
        return self.file.read_text("utf-8")


def test_the_folder_of_a_run_is_empty_at_its_start_and_outlives_a_restart() -> None:
    scenario = Scenario(prompt="a", then=[Then(after="2h", say="b", restart=True)])
    assert [run(scenario, loop=Diary).text for _ in range(2)] == ["a b ", "a b "]


def test_the_folder_of_a_run_is_empty_after_it() -> None:
    kept: list[Path] = []

    async def agent(prompt: str) -> str:
        kept.append(folder())
        (kept[0] / "inner").mkdir()
        (kept[0] / "inner" / "file").touch()
        return str(folder() == kept[0])

    assert run(Scenario(prompt="a"), loop=agent).text == "True"
    assert not kept[0].exists() or not [*kept[0].iterdir()]


def test_runs_inside_one_another_have_folders_of_their_own() -> None:
    with own_folder("simloop-test") as first, own_folder("simloop-test") as second:
        assert first != second
        assert first.is_dir()
        assert second.is_dir()
    assert not second.exists()
    first.rmdir()  # it stays, for forks that have their own there


@pytest.mark.skipif(not can_bind(), reason="this system lets no process have a view of its own")
def test_a_worker_keeps_its_folder_when_the_run_of_another_process_ends() -> None:
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()

    def works() -> None:
        begin_in_own_folder()
        with own_folder("simloop-run") as mine:
            (mine / "kept").touch()
            theirs.send("begun")
            theirs.recv()
            theirs.send((mine / "kept").exists())

    worker = fork.Process(target=works)
    worker.start()
    ours.recv()
    with own_folder("simloop-run") as other:
        (other / "file").touch()
    ours.send("ended")
    assert ours.recv()
    worker.join()


@pytest.mark.skipif(not can_bind(), reason="this system lets no process have a view of its own")
def test_the_folder_of_a_worker_has_the_usual_name_beside_those_of_others() -> None:
    def works() -> str:
        begin_in_own_folder()
        return run(Scenario(prompt="a"), loop=named).text + str(Path("/tmp/simloop-run").exists())

    async def named(prompt: str) -> str:
        (folder() / "kept").touch()
        return f"{folder()} "

    with own_folder("simloop-run"):
        assert [isolated(works) for _ in range(2)] == ["/tmp/simloop-run True"] * 2


def test_there_is_no_folder_outside_of_a_run() -> None:
    with pytest.raises(ScenarioError, match="no run"):
        folder()

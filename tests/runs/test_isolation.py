"""Runs in processes of their own: what they tell, and that nothing of them is left."""

import ctypes
import faulthandler
import signal
import tempfile
import weakref
from pathlib import Path
from typing import Any

import pytest

from simloop import Reply, RunawayRun, Scenario, ScenarioError, run
from simloop.check.trial import Until, verify
from simloop.errors import CannotExpress, CheckFailed, Deadlock
from simloop.messages import UserMessage
from simloop.runs.isolation import isolated
from simloop.world.world import World, note

SEEN: list[str] = []
ANSWERED = Scenario(prompt="Go.", model=[Reply(say="Done.")])


class UnknownError(Exception):
    def __init__(self, value: object, text: str) -> None:
        super().__init__(text)
        self.value = value


def raises(error: BaseException) -> Any:
    raise error


async def asks(prompt: str, world: World) -> str:
    completion = await world.model.reply([UserMessage(prompt)])
    return completion.message.text


async def keeps(prompt: str, world: World) -> str:
    SEEN.append(prompt)
    note(f"prompt {len(SEEN)}")
    return await asks(prompt, world)


async def fails(prompt: str) -> str:
    raise UnknownError(object(), "no luck")


async def breaks_its_process(prompt: str) -> str:
    faulthandler.disable()
    ctypes.string_at(0)
    return prompt


def test_an_isolated_run_has_the_result_and_the_trace_of_any_other() -> None:
    plain = run(ANSWERED, loop=asks)
    apart = run(ANSWERED, loop=asks, isolate=True)
    assert apart.trace.entries == plain.trace.entries
    assert apart.trace.footer == plain.trace.footer
    assert (apart.text, apart.outcome, apart.elapsed_ns) == ("Done.", "completed", 0)
    assert "--isolate" not in plain.reproduce
    assert "isolate=True" in apart.reproduce


def test_nothing_of_an_isolated_run_is_left_in_this_process() -> None:
    SEEN.clear()
    texts = [str(run(ANSWERED, loop=keeps, isolate=True).trace.entries[1]) for _ in range(2)]
    assert SEEN == []
    assert texts[0] == texts[1]
    assert "prompt 1" in texts[0]


def test_an_isolated_run_tells_the_exceptions_of_its_code_with_their_tracebacks() -> None:
    result = run(ANSWERED.model_copy(update={"model": []}), loop=fails, isolate=True)
    assert result.message == "Error: UnknownError: no luck"
    (raised,) = result.exceptions
    assert type(raised.error).__name__ == "UnknownError"
    assert 'raise UnknownError(object(), "no luck")' in "\n".join(raised.lines())


def test_two_runs_that_differ_are_equal_in_processes_of_their_own() -> None:
    SEEN.clear()
    (error,) = verify(ANSWERED, loop=keeps).errors
    assert "each in a process of its own, two runs are equal (--isolate)" in str(error)
    assert verify(ANSWERED, loop=keeps, isolate=True).errors == []


def test_two_runs_that_differ_in_processes_of_their_own_are_told_so(tmp_path: Path) -> None:
    file = tmp_path / "runs"

    async def counts_in_a_file(prompt: str, world: World) -> str:
        with file.open("a") as runs:
            runs.write("x")
        note(file.read_text())
        return await asks(prompt, world)

    (error,) = verify(ANSWERED, loop=counts_in_a_file).errors
    assert "each in a process of its own (--isolate), two runs differ, too" in str(error)


def test_a_machine_that_is_ours_is_not_run_again_for_that() -> None:
    assert verify(ANSWERED).deterministic


@pytest.mark.parametrize(
    "error",
    [
        ScenarioError("wrong", path="a.yaml", line=3, column=4, key="model.1", hint="mend it"),
        CannotExpress("pi", ["it has no hooks"]),
        Deadlock("nothing can run", reproduce="simloop run a.yaml"),
        FileNotFoundError(2, "No such file or directory", "a"),
        SystemExit(3),
        KeyboardInterrupt(),
    ],
)
def test_an_error_of_simloop_or_python_keeps_its_class_its_message_and_its_place(
    error: BaseException,
) -> None:
    with pytest.raises(type(error)) as caught:
        isolated(lambda: raises(error))
    assert str(caught.value) == str(error)


def test_an_error_of_any_other_class_keeps_its_name_and_its_message() -> None:
    with pytest.raises(Exception, match="no luck") as caught:
        isolated(lambda: raises(UnknownError(object(), "no luck")))
    assert caught.type.__name__ == "UnknownError"


def test_a_large_result_comes_back_whole() -> None:
    assert isolated(lambda: "x" * 3_000_000) == "x" * 3_000_000


def test_a_process_that_breaks_is_an_error_that_names_the_signal() -> None:
    with pytest.raises(CheckFailed, match="without a result: killed by SIGSEGV"):
        run(ANSWERED, loop=breaks_its_process, isolate=True)


def test_a_call_that_does_not_end_is_killed_after_its_limit() -> None:
    def hangs() -> None:
        while True:
            signal.pause()

    with pytest.raises(RunawayRun, match="had not ended after 0 s of real time"):
        isolated(hangs, limit_s=0.05)


def test_an_isolated_run_is_judged_as_any_other() -> None:
    plain, apart = (
        verify(ANSWERED, Until.VIOLATION, loop=fails_after_an_answer, isolate=isolate)
        for isolate in (False, True)
    )
    assert [each.name for each in apart.violations] == ["no-failure-after-an-answer"]
    assert apart.violations == plain.violations
    assert apart.errors == plain.errors
    assert apart.failure() == plain.failure()


async def fails_after_an_answer(prompt: str, world: World) -> str:
    await asks(prompt, world)
    raise ValueError("late")


def test_a_fork_removes_its_own_temporary_folders_and_no_others() -> None:
    kept = [tempfile.TemporaryDirectory()]
    name = kept[0].name

    def forget() -> str:
        kept[0] = tempfile.TemporaryDirectory()  # the last reference to that of the parent goes
        assert Path(kept[0].name).exists()
        return kept[0].name

    own = isolated(forget)
    assert Path(name).exists()
    assert not Path(own).exists()
    kept[0].cleanup()


def test_the_garbage_of_a_run_is_freed_before_the_next_one_begins() -> None:
    alive = [weakref.ref(object.__new__(Node))]

    async def agent(prompt: str, world: World) -> str:
        assert alive[-1]() is None
        node = Node()
        node.itself = node
        alive.append(weakref.ref(node))
        return await asks(prompt, world)

    for _ in range(3):
        assert run(ANSWERED, loop=agent).outcome == "completed"
    assert alive[-1]() is None


class Node:
    itself: object = None

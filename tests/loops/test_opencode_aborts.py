"""Where document 004 looks for an abort, and where 1.18.34 sees one at once."""

from collections.abc import Sequence
from typing import Any

import pytest
from test_opencode import SECOND
from test_opencode_runs import CALL, SLOWLY, TWO, failing, go, results_of

from simloop import Limits, Outcome, Reply, Result, ScriptedHook
from simloop.loops.opencode import MAX_STEPS, Steps
from simloop.messages import AssistantMessage, UserMessage
from simloop.scenario.expect import Expect
from simloop.scenario.schema import Trigger

SLOW_TEXT = Reply(say=["a", "b", "c"], pace=SLOWLY)
IN_THE_STREAM, HALF_A_SECOND = Trigger(at="1.5s"), Trigger(at="500ms")


def aborted(*model: Reply, abort: Trigger, version: str = "", **more: Any) -> Result:
    result = go(*model, loop=f"opencode{version}", abort=abort, **more)
    assert result.outcome is Outcome.ABORTED
    return result


@pytest.mark.parametrize(("version", "at_ns"), [("", 2 * SECOND), ("@1.18.34", 3 * SECOND // 2)])
def test_an_abort_in_the_stream_is_found_at_the_next_part_or_at_once(
    version: str, at_ns: int
) -> None:
    result = aborted(SLOW_TEXT, abort=IN_THE_STREAM, version=version)
    assert (result.elapsed_ns, result.text) == (at_ns, "a")


@pytest.mark.parametrize(("version", "at_s"), [("", 180), ("@1.18.34", 1.5)])
def test_an_abort_of_a_silent_stream_is_found_when_its_time_is_up_or_at_once(
    version: str, at_s: float
) -> None:
    silent = Reply(stall="before-headers")
    assert aborted(silent, abort=IN_THE_STREAM, version=version).elapsed_s == at_s


@pytest.mark.parametrize(
    ("version", "at_ns", "told", "started"),
    [
        ("", SECOND, ["ok", "Error: not finished, the request was aborted"], 1),
        ("@1.18.34", SECOND // 2, ["Error: not finished, the request was aborted"] * 2, 2),
    ],
)
def test_an_abort_while_tools_run_waits_for_those_that_run_or_not(
    version: str, at_ns: int, told: Sequence[str], started: int
) -> None:
    result = aborted(TWO, abort=HALF_A_SECOND, version=version)
    assert (result.elapsed_ns, results_of(result), len(result.calls)) == (at_ns, told, started)


@pytest.mark.parametrize(
    ("nth", "at_ns", "told"),
    [(1, 0, ["Error: not finished, the request was aborted"]), (2, SECOND, ["ok", "ok"])],
)
def test_a_tool_is_waited_for_only_if_no_part_of_the_stream_follows_it(
    nth: int, at_ns: int, told: Sequence[str]
) -> None:
    """The second call is a part of the stream: there the loop sees the abort."""
    result = aborted(TWO, abort=Trigger(after="tool-started", nth=nth), options={"parallel": True})
    assert (result.elapsed_ns, results_of(result), len(result.calls)) == (at_ns, told, nth)


@pytest.mark.parametrize(("version", "requests"), [("", 2), ("@1.18.34", 1)])
def test_an_abort_in_the_wait_makes_one_more_call_that_comes_back_aborted_or_none(
    version: str, requests: int
) -> None:
    result = aborted(failing(500), abort=HALF_A_SECOND, version=version)
    assert (result.elapsed_ns, len(result.requests)) == (SECOND // 2, requests)


def test_the_call_after_an_abort_in_the_wait_is_the_one_that_failed_again() -> None:
    """The retry sends again the same request: with its note, and without tools if they are off."""
    options = {"steps": Steps.ENFORCE}
    result = aborted(failing(500), abort=HALF_A_SECOND, limits=Limits(max_steps=1), options=options)
    failed, again = [(request.messages, request.tools) for request in result.requests]
    assert list(again[0]) == list(failed[0]) == [UserMessage("Go."), AssistantMessage(MAX_STEPS)]
    assert again[1] == failed[1] == ()


@pytest.mark.parametrize("version", ["", "@1.18.34"])
def test_an_abort_after_a_step_leads_to_no_other_call(version: str) -> None:
    slow = ScriptedHook(at="after_llm_call", takes="1s")
    result = aborted(CALL, abort=Trigger(after="finish"), version=version, hooks=[slow])
    assert len(result.requests) == 1


@pytest.mark.parametrize(
    ("point", "at_s"),
    [
        ("before_llm_call", 4),
        ("before_tool_call", 4),
        ("after_tool_call", 4 + 1),  # the tool takes 1 s
        ("after_llm_call", 1 + 1 / 2),
    ],
)
def test_an_abort_waits_for_the_hooks_around_a_call_and_not_for_those_after_a_step(
    point: Any, at_s: float
) -> None:
    hook = ScriptedHook(at=point, takes="4s")
    result = aborted(CALL, abort=Trigger(at="1.5s"), hooks=[hook], expect=Expect(unused=1))
    assert result.elapsed_s == at_s
    assert (
        aborted(
            CALL,
            abort=Trigger(at="1.5s"),
            hooks=[hook],
            version="@1.18.34",
            expect=Expect(unused=1),
        ).elapsed_s
        == 1.5
    )

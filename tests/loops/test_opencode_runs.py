"""Runs of the opencode loop: exits, retries, compactions and the note on steps."""

from collections.abc import Sequence
from typing import Any

import pytest
from builders import counters_of
from test_opencode import ENFORCED, SECOND

from simloop import (
    ExponentialBackoff,
    Http,
    Limits,
    Outcome,
    Reply,
    Result,
    RunawayRun,
    Scenario,
    ScriptedHook,
    ScriptedTool,
    run,
)
from simloop.loops.opencode import GO_ON, MAX_STEPS, OpencodeOptions
from simloop.messages import AssistantMessage, ToolMessage, UserMessage
from simloop.scenario.designs import LoopOptions
from simloop.scenario.expect import Expect
from simloop.scenario.replies import Pace, StreamFault
from simloop.scenario.schema import Context, Queued, Trigger

TOOLS = {"t": ScriptedTool(returns="ok", takes="1s")}


CALL, TWO, DONE = Reply(call={"t": {}}), Reply(call=[{"t": {}}, {"t": {}}]), Reply(say="Done.")


BLOCKS = ScriptedHook(at="before_tool_call", block="not allowed")


NO_ROOM = Context(over=[True], shrunk=[False])


SLOWLY = Pace(first_part="1s", per_part="1s")


def go(*model: Reply, options: Any = None, loop: str = "opencode", **more: Any) -> Result:
    chosen = LoopOptions(opencode=OpencodeOptions(**options or {}))
    given = {"prompt": "Go.", "tools": TOOLS, "model": list(model), "loops": chosen, **more}
    return run(Scenario(**given), loop=loop)


def results_of(result: Result) -> list[str]:
    return [message.text for message in result.messages if isinstance(message, ToolMessage)]


def failing(status: int, times: int = 1) -> Reply:
    return Reply(http=Http(status=status), times=times)


# The exits of section 1.2 and what else ends a run: each with a call on the way.
EXITS: dict[str, tuple[Outcome, dict[str, Any], list[Reply]]] = {
    "answered": (Outcome.COMPLETED, {}, [CALL, DONE]),
    "stop-with-calls": (Outcome.COMPLETED, {}, [Reply(call={"t": {}}, finish="stop")]),
    "aborted-in-tools": (Outcome.ABORTED, {"abort": Trigger(at="500ms")}, [TWO]),
    "aborted-in-the-stream": (
        Outcome.ABORTED,
        {"abort": Trigger(after="tool-call")},
        [Reply(call=[{"t": {}}, {"t": {}}], pace=SLOWLY)],
    ),
    "aborted-in-the-wait": (
        Outcome.ABORTED,
        {"abort": Trigger(after="backoff")},
        [CALL, failing(500)],
    ),
    "forbidden": (Outcome.BLOCKED, {"hooks": [BLOCKS]}, [TWO]),
    "error": (Outcome.FAILED, {}, [CALL, failing(401)]),
    "error-after-a-call": (
        Outcome.FAILED,
        {},
        [Reply(call={"t": {}}, error=StreamFault(message="no", code="billing_error"))],
    ),
    "retries-used-up": (Outcome.TOO_MANY_ERRORS, {}, [CALL, failing(500, 6)]),
    "compaction-stops": (Outcome.CONTEXT_LIMIT, {"context": NO_ROOM}, [CALL]),
    "steps-used-up": (
        Outcome.MAX_STEPS,
        {"limits": Limits(max_steps=2), "options": ENFORCED},
        [CALL, TWO],
    ),
    "wall-clock": (Outcome.TIMED_OUT, {"limits": Limits(max_wall_clock_ms=500)}, [TWO]),
}


@pytest.mark.parametrize("way", EXITS)
def test_whatever_ends_the_run_every_call_in_the_context_has_a_result(way: str) -> None:
    outcome, world, model = EXITS[way]
    result = go(*model, **world)
    assert result.outcome is outcome
    said = [m for m in result.messages if isinstance(m, AssistantMessage)]
    answered = [m.call_id for m in result.messages if isinstance(m, ToolMessage)]
    assert answered == [call.id for message in said for call in message.calls]


def test_the_user_is_told_why_a_forbidden_call_ended_the_run() -> None:
    result = go(CALL, hooks=[BLOCKS])
    assert (result.message, results_of(result)) == ("Blocked: not allowed", ["Error: not allowed"])
    assert (result.calls, len(result.requests)) == ([], 1)


def test_the_delays_are_1_2_4_8_and_16_seconds_then_it_gives_up() -> None:
    result = go(failing(500, 6))
    assert result.backoffs_s == [1, 2, 4, 8, 16]
    assert result.message == "Failed after 6 errors: 500 Internal Server Error"
    assert (result.limit, counters_of(result).error_count) == ("max_retries", 6)


def test_each_step_counts_its_failures_anew() -> None:
    result = go(failing(500, 5), CALL, failing(500, 5), DONE)
    assert result.backoffs_s == [1, 2, 4, 8, 16] * 2
    assert (result.outcome, counters_of(result).error_count) == (Outcome.COMPLETED, 0)


def test_a_compaction_is_followed_by_a_word_of_the_loop_and_the_run_goes_on() -> None:
    result = go(CALL, DONE, context=Context(over=[True, False]))
    assert result.outcome is Outcome.COMPLETED
    assert result.requests[-1].messages[-1] == UserMessage(GO_ON)


def test_past_max_steps_the_model_keeps_its_tools_and_its_calls_run() -> None:
    result = go(CALL, CALL, CALL, DONE, limits=Limits(max_steps=2))
    assert (result.outcome, results_of(result)) == (Outcome.COMPLETED, ["ok"] * 3)
    noted = [request.messages[-1] == AssistantMessage(MAX_STEPS) for request in result.requests]
    assert noted == [False, True, True, True]
    assert all(request.tools for request in result.requests)


def test_a_call_on_an_enforced_last_step_is_not_run_and_ends_the_run() -> None:
    result = go(CALL, CALL, limits=Limits(max_steps=2), options=ENFORCED)
    assert (result.outcome, result.limit) == (Outcome.MAX_STEPS, "max_steps")
    assert results_of(result) == ["ok", "Error: not executed, tools are off"]


def test_a_message_said_meanwhile_is_heard_with_the_next_step() -> None:
    say = [Queued(at="500ms", say="now"), Queued(after="finish", nth=2, say="later")]
    result = go(CALL, DONE, DONE, queue=say)
    heard = [[m.text for m in q.messages if isinstance(m, UserMessage)] for q in result.requests]
    assert heard == [["Go."], ["Go.", "now"], ["Go.", "now", "later"]]


TOO_LONG = Http(status=400, message="prompt is too long")
VERSION = "opencode@1.18.34"


# Options, and the version: what `documented-loops.md` says of it


@pytest.mark.parametrize(("loop", "at_s"), [("opencode", 2), (VERSION, 1)])
def test_the_calls_of_a_reply_run_one_after_the_other_or_in_the_version_at_once(
    loop: str, at_s: int
) -> None:
    assert go(TWO, DONE, loop=loop).elapsed_s == at_s


def test_the_retry_policy_of_a_scenario_takes_the_place_of_the_first_delay() -> None:
    own = ExponentialBackoff(max_delay_ms=3_000)
    result = go(failing(500, 2), DONE, options={"first_delay_ms": 100}, retry=own)
    assert result.backoffs_s == [2, 3]


# Section 4.6: no guard against compactions that do not help


def test_an_overflow_that_no_compaction_cures_goes_on_for_ever() -> None:
    with pytest.raises(RunawayRun):
        go(
            Reply(http=TOO_LONG, times="always"),
            loop=VERSION,
            context=Context(shrunk=[False]),
            max_transitions=500,
        )


def test_a_context_that_is_always_full_is_compacted_after_every_answer() -> None:
    with pytest.raises(RunawayRun):
        go(
            Reply(say="Done.", times="always"),
            loop=VERSION,
            context=Context(over=[True], shrunk=[False]),
            max_transitions=500,
        )


# The order of the document, where it is easily missed


def test_what_the_user_says_during_a_compaction_goes_with_the_next_request() -> None:
    """Section 4.1: messages are read again from storage at the top of each turn."""
    queue = [Queued(after="compaction", say="now")]
    result = go(CALL, DONE, queue=queue, context=Context(over=[True, False]))
    assert UserMessage("now") in result.requests[1].messages


def test_what_a_run_that_ended_early_did_not_hear_comes_behind_the_next_prompt() -> None:
    """Section 4.1: there it is in storage before that prompt is; ours waits in a queue."""
    result = go(
        failing(401), DONE, queue=[Queued(after="error", say="said first")], then=["said second"]
    )
    said = [message.text for message in result.requests[-1].messages]
    assert said == ["Go.", "said second", "said first"]


# Aborts


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
    options = {"steps": "enforce"}
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

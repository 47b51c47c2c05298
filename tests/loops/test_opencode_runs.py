"""Runs of the opencode loop: exits, retries, compactions and the note on steps."""

from typing import Any

import pytest
from builders import counters_of
from test_opencode import ENFORCED

from simloop import (
    Http,
    Limits,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScriptedHook,
    ScriptedTool,
    run,
)
from simloop.loops.opencode import GO_ON, MAX_STEPS, OpencodeOptions
from simloop.messages import AssistantMessage, ToolMessage, UserMessage
from simloop.scenario.designs import LoopOptions
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

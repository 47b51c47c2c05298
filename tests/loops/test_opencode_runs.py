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
    RunawayRun,
    Scenario,
    ScriptedHook,
    ScriptedTool,
    run,
)
from simloop.loops.opencode import GO_ON, MAX_STEPS, OpencodeOptions
from simloop.messages import AssistantMessage, ToolMessage, UserMessage
from simloop.scenario.designs import LoopOptions
from simloop.scenario.replies import Pace, StreamFault
from simloop.scenario.schema import Context
from simloop.scenario.triggers import Queued, Trigger

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


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "length", "content_filter", "weird"])
def test_a_forbidden_call_stops_the_run_whatever_the_finish(finish: str) -> None:
    assert go(Reply(call={"t": {}}, finish=finish), hooks=[BLOCKS]).outcome is Outcome.BLOCKED


def test_the_delays_are_1_2_4_8_and_16_seconds_then_it_gives_up() -> None:
    result = go(failing(500, 6))
    assert result.backoffs_s == [1, 2, 4, 8, 16]
    assert result.message == "Failed after 6 errors: 500 Internal Server Error"
    assert (result.limit, counters_of(result).error_count) == ("max_retries", 6)


def test_retry_after_is_honoured() -> None:
    slow = Reply(http=Http(status=429, retry_after="7s"))
    assert go(slow, failing(500), DONE).backoffs_s == [7, 2]


RETRIED: list[Reply] = [
    *(failing(status) for status in (429, 500, 502, 503, 529)),
    Reply(lost="before-headers"),
    Reply(lost="after-headers"),
    Reply(say="Half", lost="mid-output"),
    Reply(stall="before-headers"),
]


@pytest.mark.parametrize("reply", RETRIED)
def test_network_limits_and_server_errors_are_retried(reply: Reply) -> None:
    result = go(reply, DONE)
    assert (result.outcome, result.backoffs_s, result.text) == (Outcome.COMPLETED, [1], "Done.")


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404])
def test_auth_and_bad_requests_are_not_retried(status: int) -> None:
    result = go(failing(status))
    assert (result.outcome, result.backoffs_s, len(result.requests)) == (Outcome.FAILED, [], 1)


def test_each_step_counts_its_failures_anew() -> None:
    result = go(failing(500, 5), CALL, failing(500, 5), DONE)
    assert result.backoffs_s == [1, 2, 4, 8, 16] * 2
    assert (result.outcome, counters_of(result).error_count) == (Outcome.COMPLETED, 0)


def test_a_compaction_is_followed_by_a_word_of_the_loop_and_the_run_goes_on() -> None:
    result = go(CALL, DONE, context=Context(over=[True, False]))
    assert result.outcome is Outcome.COMPLETED
    assert result.requests[-1].messages[-1] == UserMessage(GO_ON)


def test_a_compaction_that_stops_leaves_the_model_alone() -> None:
    result = go(CALL, context=NO_ROOM)
    assert (result.outcome, len(result.requests)) == (Outcome.CONTEXT_LIMIT, 1)


def test_past_max_steps_the_model_keeps_its_tools_and_its_calls_run() -> None:
    result = go(CALL, CALL, CALL, DONE, limits=Limits(max_steps=2))
    assert (result.outcome, results_of(result)) == (Outcome.COMPLETED, ["ok"] * 3)
    noted = [request.messages[-1] == AssistantMessage(MAX_STEPS) for request in result.requests]
    assert noted == [False, True, True, True]
    assert all(request.tools for request in result.requests)


def test_a_model_that_never_answers_is_never_stopped_by_max_steps() -> None:
    with pytest.raises(RunawayRun):
        go(Reply(call={"t": {}}, times="always"), limits=Limits(max_steps=2), max_transitions=200)


def test_an_enforced_last_step_tells_the_model_so_and_offers_no_tools() -> None:
    result = go(CALL, DONE, limits=Limits(max_steps=2), options=ENFORCED)
    first, last = result.requests
    assert (last.messages[-1], last.tools) == (AssistantMessage(MAX_STEPS), ())
    assert [spec.name for spec in first.tools] == ["t"]
    assert AssistantMessage(MAX_STEPS) not in (*first.messages, *result.messages)


def test_a_call_on_an_enforced_last_step_is_not_run_and_ends_the_run() -> None:
    result = go(CALL, CALL, limits=Limits(max_steps=2), options=ENFORCED)
    assert (result.outcome, result.limit) == (Outcome.MAX_STEPS, "max_steps")
    assert results_of(result) == ["ok", "Error: not executed, tools are off"]


def test_a_tool_that_raises_is_told_to_the_model_and_ends_nothing() -> None:
    """The document's catch would end the run; the docstring says why this loop does not."""
    result = go(CALL, DONE, tools={"t": ScriptedTool(raises="no disk")})
    assert (result.outcome, results_of(result)) == (Outcome.COMPLETED, ["Error: no disk"])


def test_a_message_said_meanwhile_is_heard_with_the_next_step() -> None:
    say = [Queued(at="500ms", say="now"), Queued(after="finish", nth=2, say="later")]
    result = go(CALL, DONE, DONE, queue=say)
    heard = [[m.text for m in q.messages if isinstance(m, UserMessage)] for q in result.requests]
    assert heard == [["Go."], ["Go.", "now"], ["Go.", "now", "later"]]

"""Runs of the loop of document 001: its queues, its one warning, its compaction, its versions."""

from collections.abc import Sequence
from typing import Any

import pytest
from builders import counters_of

from simloop import (
    Compaction,
    Http,
    Limits,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScriptedTool,
    ToolExecution,
    run,
)
from simloop.loops.pi import PiOptions
from simloop.messages import ToolMessage, UserMessage
from simloop.scenario.designs import LoopOptions
from simloop.scenario.schema import Context, Queued
from simloop.trace import entries

SECOND = 10**9
TOOLS = {
    "t": ScriptedTool(returns="ok", takes="1s"),
    "strict": ScriptedTool(parameters={"path": "string"}),
    "broken": ScriptedTool(raises="no such file"),
}
CALL, DONE = Reply(call={"t": {}}), Reply(say="Done.")


def go(*model: Reply, loop: str = "pi", options: PiOptions | None = None, **more: Any) -> Result:
    chosen = LoopOptions(pi=options or PiOptions())
    given = {"prompt": "Go.", "tools": TOOLS, "model": list(model), "loops": chosen, **more}
    return run(Scenario(**given), loop=loop)


def heard(result: Result) -> list[list[str]]:
    """What the user had said, as it came new with each request."""
    said = [[m.text for m in r.messages if isinstance(m, UserMessage)] for r in result.requests]
    return [now[len(before) :] for before, now in zip([[], *said], said, strict=False)]


def results_of(result: Result) -> list[str]:
    return [message.text for message in result.messages if isinstance(message, ToolMessage)]


WAITING = [
    Queued(at="500ms", say=say, follow_up=say.startswith("f")) for say in ("f1", "s1", "f2", "s2")
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (PiOptions(), [["Go."], ["s1"], ["s2"], ["f1"], ["f2"]]),
        (PiOptions(steering="all"), [["Go."], ["s1", "s2"], ["f1"], ["f2"]]),
        (PiOptions(follow_up="all"), [["Go."], ["s1"], ["s2"], ["f1", "f2"]]),
    ],
    ids=["one-at-a-time", "all-steering", "all-follow-ups"],
)
def test_steering_is_heard_before_follow_ups_each_as_its_mode_says(
    options: PiOptions, expected: list[list[str]]
) -> None:
    result = go(CALL, *[DONE] * (len(expected) - 1), options=options, queue=WAITING)
    assert heard(result) == expected


def test_steering_waits_for_the_whole_batch_of_tools() -> None:
    result = go(Reply(call=[{"t": {}}] * 3), DONE, queue=[WAITING[1]])
    assert heard(result) == [["Go."], ["s1"]]
    assert results_of(result) == ["ok"] * 3


def notices(result: Result) -> list[str]:
    return [entry.text for entry in result.trace.entries if isinstance(entry, entries.Notice)]


@pytest.mark.parametrize(
    ("rounds", "told"),
    [(49, []), (50, ["51 model calls, and no end yet"])],
    ids=["50-calls", "51-calls"],
)
def test_each_call_past_the_fiftieth_is_reported_and_the_run_goes_on(
    rounds: int, told: list[str]
) -> None:
    result = go(Reply(call={"t": {}}, times=rounds), DONE, context=Context())
    assert (result.outcome, notices(result)) == (Outcome.COMPLETED, told)


def test_it_has_no_cap_300_rounds_are_301_calls() -> None:
    endless = Reply(call={"t": {}}, times=300)
    result = go(endless, DONE, limits=Limits(max_steps=1), context=Context())
    assert (result.outcome, len(result.requests)) == (Outcome.COMPLETED, 301)
    assert (counters_of(result).total_steps, len(notices(result))) == (301, 251)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"strict": {}}, "Error: Invalid parameters\n"),
        ({"strict": "{not json"}, "Error: Invalid parameters\n"),
        ({"nobody": {}}, "Error: tool nobody not found"),
        ({"broken": {}}, "Error: no such file"),
    ],
    ids=["invalid", "no-json", "unknown", "raises"],
)
def test_a_call_that_goes_wrong_is_told_to_the_model_and_the_next_one_runs(
    call: dict[str, object], told: str
) -> None:
    result = go(Reply(call=[call, {"t": {}}]), DONE)
    assert result.outcome is Outcome.COMPLETED
    newest = [m for m in result.requests[-1].messages if isinstance(m, ToolMessage)]
    assert newest[0].text.startswith(told)
    assert ([m.is_error for m in newest], newest[1].text) == ([True, False], "ok")


def compactions(result: Result) -> int:
    return sum(isinstance(entry, entries.Compaction) for entry in result.trace.entries)


@pytest.mark.parametrize(("rounds", "queue"), [(49, [WAITING[1]]), (50, [])], ids=["100", "101"])
def test_over_100_messages_and_not_before_the_context_is_compacted(
    rounds: int, queue: Sequence[Queued]
) -> None:
    many = 1 + 2 * rounds + len(queue) > 100
    result = go(
        Reply(call={"t": {}}, times=rounds),
        DONE,
        queue=queue,
        summaries=[Reply(say="So far.")] * many,
    )
    assert (result.outcome, compactions(result)) == (Outcome.COMPLETED, many)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Compaction(), 0),
        (Compaction(window=600), 1),
        (Compaction(window=600, max_messages=200), 0),
        (Compaction(max_messages=100), 1),
    ],
    ids=["64000-tokens", "600-tokens", "200-messages", "100-messages"],
)
def test_a_compaction_of_its_own_goes_by_tokens_unless_it_says_how_many_messages(
    policy: Compaction, expected: int
) -> None:
    summaries = [Reply(say="So far.")] * expected
    endless = Reply(call={"t": {}}, times=60)
    assert compactions(go(endless, DONE, compaction=policy, summaries=summaries)) == expected


def test_a_failed_model_call_is_not_tried_again_and_the_queues_are_left_alone() -> None:
    result = go(CALL, Reply(http=Http(status=503)), queue=[WAITING[0]])
    assert (result.outcome, len(result.requests)) == (Outcome.FAILED, 2)
    assert result.message == "Error: 503 Service Unavailable"


@pytest.mark.parametrize("loop", ["pi@0.87.1", "pi"])
def test_a_timeout_alone_leaves_the_order_of_tools_as_the_loop_has_it(loop: str) -> None:
    policy = ToolExecution(timeout_ms=60_000)
    result = go(Reply(call=[{"t": {}}] * 3), DONE, loop=loop, tool_execution=policy)
    assert result.elapsed_ns == (3 * SECOND if loop == "pi" else SECOND)

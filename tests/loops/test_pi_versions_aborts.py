"""What the versions of pi do after an abort, as observed of pi-agent-core 0.73.1 and 0.87.1.

Each expected value is that of the real package, driven by a model and tools on a virtual clock.
"""

from typing import Any

import pytest
from piversions import BOTH, SEQUENTIAL, TOOLS, events, heard, play, results, sent, talk, tools_run

from simloop import Outcome, Reply, ScriptedHook, ScriptedTool
from simloop.messages import AssistantMessage
from simloop.scenario.replies import Pace
from simloop.scenario.triggers import Queued, Trigger
from simloop.trace import entries

TWO = Reply(call=[{"slow": {}}, {"quick": {}}])
DONE = Reply(say="Done.")
DURING_SLOW = Trigger(at="500ms")
ABORTED_TURN = [
    "turn_start",
    "message_start:assistant",
    "message_end:assistant/aborted",
    "turn_end",
]


@BOTH
def test_0_73_1_and_0_87_1_an_abort_in_mid_stream_leaves_nothing_in_later_requests(
    loop: str,
) -> None:
    broken = Reply(say="I see", call={"quick": {}}, pace=Pace(per_part="1s"))
    result = play(loop, broken, DONE, abort=Trigger(after="tool-call"), then=["And now?"])
    assert sent(result) == ["user", "user user"]
    assert result.outcomes == (Outcome.ABORTED, Outcome.COMPLETED)
    failed = result.messages[1]
    assert isinstance(failed, AssistantMessage)
    assert (failed.text, [call.name for call in failed.calls], failed.failed) == (
        "I see",
        ["quick"],
        "aborted",
    )


@pytest.mark.parametrize("part", ["text-delta", "tool-call-delta", "tool-call"])
@BOTH
def test_0_73_1_and_0_87_1_an_abort_at_a_part_takes_no_further_part_though_no_time_passes(
    loop: str, part: Any
) -> None:
    """The client of the model breaks the stream off; a reply that ended as aborted ends the run."""
    reply = Reply(say=["I", " see"], call={"quick": {}}, fragments=2)
    result = play(loop, reply, abort=Trigger(after=part))
    assert (result.outcome, sent(result), tools_run(result)) == (Outcome.ABORTED, ["user"], [])
    assert events(result)[2:] == [
        "message_start:user",
        "message_end:user",
        *ABORTED_TURN[1:],
        "agent_end",
    ]
    parts = [e for e in result.trace.entries if type(e).__struct_config__.tag == part]
    assert len(parts) == 1


@BOTH
def test_0_73_1_and_0_87_1_an_abort_at_0_reports_the_user_and_makes_one_aborted_call(
    loop: str,
) -> None:
    result = play(loop, abort=Trigger(at="0s"))
    assert (result.outcome, sent(result), result.elapsed_ns) == (Outcome.ABORTED, ["user"], 0)
    assert events(result) == [
        "agent_start",
        "turn_start",
        "message_start:user",
        "message_end:user",
        "message_start:assistant",
        "message_end:assistant/aborted",
        "turn_end",
        "agent_end",
    ]


def test_0_73_1_after_an_abort_at_the_finish_the_tools_run() -> None:
    result = play("pi@0.73.1", TWO, abort=Trigger(after="finish"))
    assert tools_run(result) == ["slow", "quick"]
    assert results(result) == ["slept", "woke"]
    assert sent(result) == ["user", "user assistant tool tool"]
    assert result.elapsed_ns == 2 * 10**9


def test_0_87_1_after_an_abort_at_the_finish_the_first_call_ends_as_aborted() -> None:
    result = play("pi@0.87.1", TWO, abort=Trigger(after="finish"))
    assert tools_run(result) == []
    assert results(result) == ["Operation aborted"]
    answers = [message.text for message in result.requests[-1].messages[-2:]]
    assert answers == ["Operation aborted", "No result provided"]
    assert events(result)[6:] == [
        "tool_execution_start:call-1",
        "tool_execution_end:call-1",
        "message_start:toolResult",
        "message_end:toolResult",
        "turn_end",
        *ABORTED_TURN,
        "agent_end",
    ]


@BOTH
def test_0_73_1_and_0_87_1_after_the_last_reply_an_abort_lets_the_run_complete(loop: str) -> None:
    result = play(loop, DONE, abort=Trigger(after="finish"))
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "Done.")


@BOTH
def test_0_73_1_and_0_87_1_after_the_last_reply_an_aborted_run_still_takes_a_follow_up(
    loop: str,
) -> None:
    more = Queued(after="finish", say="And?", follow_up=True)
    result = play(loop, DONE, abort=Trigger(after="finish"), queue=[more])
    assert (result.outcome, sent(result)) == (Outcome.ABORTED, ["user", "user assistant user"])


@pytest.mark.parametrize(
    ("event", "nth"),
    [
        ("turn_start", 1),
        ("message_end", 1),  # the user's
        ("message_end", 2),  # the assistant's
        ("tool_execution_end", 1),
        ("turn_end", 1),
    ],
)
@BOTH
def test_0_73_1_and_0_87_1_an_abort_from_a_listener_lets_the_turn_end_and_calls_once_more(
    loop: str, event: str, nth: int
) -> None:
    said = talk(loop, Reply(call={"quick": {}}), on=event, nth=nth, act="abort")
    before_the_reply = (event, nth) in {("turn_start", 1), ("message_end", 1)}
    assert said.requests == (["user"] if before_the_reply else ["user", "user assistant tool"])
    assert said.events[-5:-1] == (
        [*said.events[-5:-4], *ABORTED_TURN[1:]] if before_the_reply else ABORTED_TURN
    )
    runs = not before_the_reply and (event != "message_end" or loop == "pi@0.73.1")
    assert said.tools == (["quick"] if runs else [])


@BOTH
def test_0_73_1_and_0_87_1_steering_from_a_listener_of_the_last_turn_end_causes_a_turn(
    loop: str,
) -> None:
    said = talk(loop, DONE, DONE, on="turn_end", nth=1, act="steer")
    assert said.requests == ["user", "user assistant user"]


@BOTH
def test_0_73_1_and_0_87_1_steering_from_a_listener_of_turn_start_is_heard_a_turn_later(
    loop: str,
) -> None:
    said = talk(loop, Reply(call={"quick": {}}), DONE, DONE, on="turn_start", nth=2, act="steer")
    assert said.requests == [
        "user",
        "user assistant tool",
        "user assistant tool assistant user",
    ]


@BOTH
def test_0_73_1_and_0_87_1_the_after_hook_runs_on_the_result_of_an_aborted_tool(loop: str) -> None:
    hook = ScriptedHook(at="after_tool_call", result="by the hook")
    result = play(loop, Reply(call={"slow": {}}), hooks=[hook], abort=DURING_SLOW)
    assert results(result) == ["by the hook"]
    assert result.elapsed_ns == 500_000_000


@BOTH
def test_0_73_1_and_0_87_1_an_after_hook_that_is_aborted_ends_and_counts(loop: str) -> None:
    hook = ScriptedHook(at="after_tool_call", result="by the hook", takes="3s")
    result = play(loop, Reply(call={"quick": {}}), hooks=[hook], abort=Trigger(at="2s"))
    assert (results(result), result.elapsed_ns) == (["by the hook"], 4 * 10**9)


def before(**does: Any) -> list[ScriptedHook]:
    return [ScriptedHook(at="before_tool_call", takes="2s", **does)]


def test_0_87_1_an_abort_during_a_before_hook_starts_the_call_and_ends_it_as_aborted() -> None:
    result = play("pi@0.87.1", TWO, hooks=before(), abort=Trigger(at="1s"))
    assert (tools_run(result), results(result)) == ([], ["Operation aborted"])
    assert events(result)[6:8] == ["tool_execution_start:call-1", "tool_execution_end:call-1"]
    assert result.elapsed_ns == 2 * 10**9


def test_0_73_1_an_abort_during_a_before_hook_that_blocks_runs_it_once_and_no_tool() -> None:
    hooks = before(block="not allowed", nth=1)  # called again, it would let the tool run
    result = play("pi@0.73.1", Reply(call={"quick": {}}), hooks=hooks, abort=Trigger(at="1s"))
    assert (tools_run(result), results(result)) == ([], ["Error: not allowed"])
    ran = [entry for entry in result.trace.entries if isinstance(entry, entries.Hook)]
    assert [(entry.result, entry.took_ns) for entry in ran] == [("blocked", 2 * 10**9)]


@BOTH
def test_0_73_1_and_0_87_1_of_parallel_calls_the_one_that_hears_an_abort_ends_first(
    loop: str,
) -> None:
    tools = {
        **TOOLS,
        "deaf": ScriptedTool(returns="heard nothing", takes="1s", outlives_cancel="1s"),
    }
    calls = Reply(call=[{"deaf": {}}, {"slow": {}}])
    result = play(loop, calls, tools=tools, abort=DURING_SLOW)
    ended = [entry for entry in result.trace.entries if isinstance(entry, entries.Answered)]
    assert [(entry.name, entry.at_ns // 10**6, entry.text) for entry in ended] == [
        ("slow", 500, "Operation aborted"),
        ("deaf", 1500, "heard nothing"),
    ]


def test_0_73_1_sequential_after_an_abort_the_calls_that_cannot_run_are_reported_too() -> None:
    calls = Reply(call=[{"slow": {}}, {"nobody": {}}, {"strict": {}}, {"quick": {}}])
    hooks = [ScriptedHook(at="before_tool_call", tool="quick", block="no")]
    more = {"hooks": hooks, "tool_execution": SEQUENTIAL, "abort": DURING_SLOW}
    result = play("pi@0.73.1", calls, **more)
    assert [text.partition("\n")[0] for text in results(result)] == [
        "Operation aborted",
        "Error: tool nobody not found",
        "Error: Invalid parameters",
        "Error: no",
    ]
    ends = [event for event in events(result) if event.startswith("tool_execution_end")]
    assert ends == [f"tool_execution_end:call-{n}" for n in (1, 2, 3, 4)]
    assert results(play("pi@0.87.1", calls, **more)) == ["Operation aborted"]


@BOTH
def test_0_73_1_and_0_87_1_there_is_one_wording_of_an_aborted_request(loop: str) -> None:
    streaming = play(loop, Reply(say="x", pace=Pace(first_part="1s")), abort=DURING_SLOW)
    called = play(loop, abort=Trigger(at="0s"))
    told = {
        entry.fault.message
        for result in (streaming, called)
        for entry in result.trace.entries
        if isinstance(entry, entries.Classified) and entry.fault is not None
    }
    assert told == {"Request was aborted"}


@BOTH
def test_0_73_1_and_0_87_1_a_provider_that_aborts_by_itself_ends_the_run_as_aborted(
    loop: str,
) -> None:
    aborted = Reply(say="I", error={"message": "gone", "code": "aborted"})
    result = play(loop, aborted, queue=[Queued(after="error", say="Never heard.")])
    assert (result.outcome, sent(result)) == (Outcome.ABORTED, ["user"])
    assert heard(result)[-1] == "message_end:assistant/aborted"

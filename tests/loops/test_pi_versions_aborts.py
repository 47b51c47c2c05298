"""What pi-agent-core 0.87.1 was observed to do after an abort.

Each expected value is that of the real package, driven by a model and tools on a virtual clock.
"""

from typing import Any

import pytest
from piversions import PARALLEL, SEQUENTIAL, TOOLS, play, results, sent, tools_run

from simloop import Outcome, Reply, ScriptedHook, ScriptedTool, ToolExecution
from simloop.messages import AssistantMessage, ToolMessage
from simloop.scenario.replies import Pace
from simloop.scenario.schema import Queued, Trigger
from simloop.trace import entries

TWO = Reply(call=[{"slow": {}}, {"quick": {}}])
DONE = Reply(say="Done.")
DURING_SLOW = Trigger(at="500ms")


def test_0_87_1_an_abort_in_mid_stream_leaves_nothing_in_later_requests() -> None:
    broken = Reply(say="I see", call={"quick": {}}, pace=Pace(per_part="1s"))
    result = play(broken, DONE, abort=Trigger(after="tool-call"), then=["And now?"])
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
def test_0_87_1_an_abort_at_a_part_takes_no_further_part_though_no_time_passes(part: Any) -> None:
    """The client of the model breaks the stream off; a reply that ended as aborted ends the run."""
    reply = Reply(say=["I", " see"], call={"quick": {}}, fragments=2)
    result = play(reply, abort=Trigger(after=part))
    assert (result.outcome, sent(result), tools_run(result)) == (Outcome.ABORTED, ["user"], [])
    parts = [e for e in result.trace.entries if type(e).__struct_config__.tag == part]
    assert len(parts) == 1


def test_0_87_1_after_an_abort_at_the_finish_the_first_call_ends_as_aborted() -> None:
    result = play(TWO, abort=Trigger(after="finish"))
    assert tools_run(result) == []
    assert results(result) == ["Operation aborted"]
    answers = [message.text for message in result.requests[-1].messages[-2:]]
    assert answers == ["Operation aborted", "No result provided"]


def test_0_87_1_after_the_last_reply_an_aborted_run_still_takes_a_follow_up() -> None:
    more = Queued(after="finish", say="And?", follow_up=True)
    result = play(DONE, abort=Trigger(after="finish"), queue=[more])
    assert (result.outcome, sent(result)) == (Outcome.ABORTED, ["user", "user assistant user"])


def test_0_87_1_the_after_hook_runs_on_the_result_of_an_aborted_tool() -> None:
    hook = ScriptedHook(at="after_tool_call", result="by the hook")
    result = play(Reply(call={"slow": {}}), hooks=[hook], abort=DURING_SLOW)
    assert results(result) == ["by the hook"]
    assert result.elapsed_ns == 500_000_000


def before(**does: Any) -> list[ScriptedHook]:
    return [ScriptedHook(at="before_tool_call", takes="2s", **does)]


def test_0_87_1_an_abort_during_a_before_hook_starts_the_call_and_ends_it_as_aborted() -> None:
    result = play(TWO, hooks=before(), abort=Trigger(at="1s"))
    assert (tools_run(result), results(result)) == ([], ["Operation aborted"])
    assert result.elapsed_ns == 2 * 10**9


def test_0_87_1_of_parallel_calls_the_one_that_hears_an_abort_ends_first() -> None:
    tools = {
        **TOOLS,
        "deaf": ScriptedTool(returns="heard nothing", takes="1s", outlives_cancel="1s"),
    }
    calls = Reply(call=[{"deaf": {}}, {"slow": {}}])
    result = play(calls, tools=tools, abort=DURING_SLOW)
    ended = [entry for entry in result.trace.entries if isinstance(entry, entries.Answered)]
    assert [(entry.name, entry.at_ns // 10**6, entry.text) for entry in ended] == [
        ("slow", 500, "Operation aborted"),
        ("deaf", 1500, "heard nothing"),
    ]


def test_0_87_1_sequential_after_an_abort_no_later_call_has_a_result() -> None:
    calls = Reply(call=[{"slow": {}}, {"nobody": {}}, {"strict": {}}, {"quick": {}}])
    result = play(calls, tool_execution=SEQUENTIAL, abort=DURING_SLOW)
    assert (results(result), tools_run(result)) == (["Operation aborted"], ["slow"])
    assert len(result.requests) == 2


def test_0_87_1_what_is_sent_after_an_abort_answers_the_call_that_was_never_started() -> None:
    """The real program adds that answer on the wire only."""
    result = play(TWO, tool_execution=SEQUENTIAL, abort=DURING_SLOW)
    said, *answers = result.requests[-1].messages[1:]
    assert isinstance(said, AssistantMessage)
    assert [m.call_id for m in answers if isinstance(m, ToolMessage)] == [c.id for c in said.calls]


def test_0_87_1_what_steers_before_an_abort_goes_with_the_last_call() -> None:
    steered = [Queued(at="250ms", say="Not so.")]
    result = play(Reply(call={"slow": {}}), abort=DURING_SLOW, queue=steered)
    assert result.requests[-1].messages[-1].text == "Not so."


@pytest.mark.parametrize("order", [SEQUENTIAL, PARALLEL], ids=["sequential", "parallel"])
def test_the_documents_pi_calls_no_model_after_an_abort(order: ToolExecution) -> None:
    result = play(TWO, loop="pi", tool_execution=order, abort=DURING_SLOW)
    assert len(result.requests) == 1
    assert tools_run(result) == (["slow"] if order is SEQUENTIAL else ["slow", "quick"])


def test_0_87_1_there_is_one_wording_of_an_aborted_request() -> None:
    streaming = play(Reply(say="x", pace=Pace(first_part="1s")), abort=DURING_SLOW)
    called = play(abort=Trigger(at="0s"))
    told = {
        entry.fault.message
        for result in (streaming, called)
        for entry in result.trace.entries
        if isinstance(entry, entries.Classified) and entry.fault is not None
    }
    assert told == {"Request was aborted"}


def test_0_87_1_a_provider_that_aborts_by_itself_ends_the_run_as_aborted() -> None:
    aborted = Reply(say="I", error={"message": "gone", "code": "aborted"})
    result = play(aborted, queue=[Queued(after="error", say="Never heard.")])
    assert (result.outcome, sent(result)) == (Outcome.ABORTED, ["user"])

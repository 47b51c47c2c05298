"""The event orders of the real pi, as they are printed in `documented-loops.md` 2.4 and 2.6.

Each expected sequence is in the notation of that page: A is slow, B is fast. Updates of a message
are left out there, and so here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import pytest

from simloop import Outcome, Reply, Result, Scenario, ScriptedHook, ScriptedTool, ToolExecution, run
from simloop.kernel.policies import ToolOrder
from simloop.messages import AssistantMessage, ToolMessage
from simloop.runs.conversation import event_view
from simloop.scenario.replies import Pace
from simloop.scenario.triggers import Queued, Trigger
from simloop.trace import entries
from simloop.trace.exports import pi_program_events as pi
from simloop.trace.exports.event import Event

SECOND = 10**9
TOOLS = {
    "A": ScriptedTool(takes="2s"),
    "B": ScriptedTool(takes="1s"),
    "Strict": ScriptedTool(parameters={"path": "string"}),
    "Blocked": ScriptedTool(),
    "C": ScriptedTool(),
}
SEQUENTIAL = ToolExecution(order=ToolOrder.SEQUENTIAL)
PARALLEL = ToolExecution(order=ToolOrder.PARALLEL)
DURING_A = Trigger(at="500ms")


def scenario(
    *calls: str,
    order: ToolExecution | None = None,
    then: Sequence[Reply] = (Reply(say="Done."),),
    finish: str | None = None,
    abort: Trigger | None = None,
    queue: Sequence[Queued] = (),
) -> Scenario:
    return Scenario(
        prompt="Go.",
        tools=TOOLS,
        hooks=[ScriptedHook(at="before_tool_call", tool="Blocked", block="no")],
        model=[Reply(call=[{name: {}} for name in calls], finish=finish), *then],
        tool_execution=order,
        abort=abort,
        queue=list(queue),
    )


def told(world: Scenario, loop: str) -> list[str]:
    """The events of a run, in the notation of the page."""
    return events_of(run(world, loop=loop), world, loop)


def events_of(result: Result, world: Scenario, loop: str) -> list[str]:
    view = event_view(world, loop, "program")
    events = [event for line in result.trace.entries for event in view.feed(line)]
    tools = {e.tool_call_id: e.tool_name for e in events if isinstance(e, pi.ToolExecutionStart)}
    return [word for event in events for word in words_for(event, tools)]


def words_for(event: Event, tools: Mapping[str, str]) -> Iterator[str]:
    kind = str(type(event).__struct_config__.tag)
    match event:
        case pi.MessageUpdate():
            return
        case pi.MessageStart(role="toolResult") | pi.MessageEnd(role="toolResult"):
            yield f"{kind}:toolResult({tools[event.tool_call_id]})"
        case pi.MessageEnd(stop_reason=why) if why:
            yield f"{kind}:{event.role}/{why}"
        case pi.MessageStart() | pi.MessageEnd():
            yield f"{kind}:{event.role}"
        case pi.ToolExecutionStart(tool_name=name) | pi.ToolExecutionEnd(tool_name=name):
            yield f"{kind}:{name}"
        case _:
            yield kind


def printed(text: str) -> list[str]:
    """The words of a printed sequence, each `message_start/end:` written out."""
    replies = re.sub(r"message_start/end:(\w+)(/\w+)", r"message_start:\1 message_end:\1\2", text)
    return re.sub(r"message_start/end:(\S+)", r"message_start:\1 message_end:\1", replies).split()


OPENING = (
    "agent_start turn_start message_start:user message_end:user "
    "message_start:assistant message_end:assistant/toolUse "
)
CLOSING = "turn_end turn_start message_start/end:assistant/stop turn_end agent_end"
BOTH_RAN = (
    "tool_execution_start:A tool_execution_start:B tool_execution_end:B tool_execution_end:A "
    "message_start/end:toolResult(A) message_start/end:toolResult(B) "
)


def test_pi_0_87_1_parallel_ends_come_in_completion_order() -> None:
    assert told(scenario("A", "B"), "pi@0.87.1") == printed(
        "agent_start turn_start message_start:user message_end:user message_start:assistant "
        "message_end:assistant/toolUse tool_execution_start:A tool_execution_start:B "
        "tool_execution_end:B tool_execution_end:A message_start/end:toolResult(A) "
        "message_start/end:toolResult(B) turn_end turn_start message_start/end:assistant/stop "
        "turn_end agent_end"
    )


def test_pi_0_73_1_parallel_ends_come_in_completion_order() -> None:
    assert told(scenario("A", "B"), "pi@0.73.1") == printed(OPENING + BOTH_RAN + CLOSING)


def test_pi_0_87_1_parallel_calls_all_start_before_one_ends_that_takes_no_time() -> None:
    assert told(scenario("C", "B"), "pi@0.87.1") == printed(
        OPENING + "tool_execution_start:C tool_execution_start:B tool_execution_end:C "
        "tool_execution_end:B message_start/end:toolResult(C) message_start/end:toolResult(B) "
        + CLOSING
    )


def test_pi_0_87_1_the_transcript_is_in_source_order() -> None:
    messages = run(scenario("A", "B"), loop="pi@0.87.1").messages
    answers = [message.call_id for message in messages if isinstance(message, ToolMessage)]
    assert answers == ["call-1", "call-2"]


@pytest.mark.parametrize("fails", ["no_such_tool", "Strict", "Blocked"])
def test_pi_0_87_1_an_immediate_failure_ends_before_any_later_start(fails: str) -> None:
    assert told(scenario("A", fails, "B"), "pi@0.87.1") == printed(
        OPENING + f"tool_execution_start:A tool_execution_start:{fails} tool_execution_end:{fails} "
        "tool_execution_start:B tool_execution_end:B tool_execution_end:A "
        f"message_start/end:toolResult(A) message_start/end:toolResult({fails}) "
        "message_start/end:toolResult(B) " + CLOSING
    )


@pytest.mark.parametrize("loop", ["pi@0.73.1", "pi@0.87.1"])
def test_pi_0_73_1_and_0_87_1_sequential_a_result_comes_before_the_next_start(loop: str) -> None:
    assert told(scenario("A", "B", order=SEQUENTIAL), loop) == printed(
        OPENING + "tool_execution_start:A tool_execution_end:A message_start/end:toolResult(A) "
        "tool_execution_start:B tool_execution_end:B message_start/end:toolResult(B) " + CLOSING
    )


def test_pi_0_87_1_steer_and_follow_up_during_tools_wait_for_the_batch() -> None:
    world = scenario(
        "A",
        "B",
        then=[Reply(say="Steered."), Reply(say="Followed up.")],
        queue=[
            Queued(at="500ms", say="And then?", follow_up=True),
            Queued(at="500ms", say="Not so."),
        ],
    )
    assert told(world, "pi@0.87.1") == printed(
        OPENING + BOTH_RAN + "turn_end turn_start message_start:user message_end:user "
        "message_start/end:assistant/stop turn_end turn_start message_start:user message_end:user "
        "message_start/end:assistant/stop turn_end agent_end"
    )
    texts = [message.text for message in run(world, loop="pi@0.87.1").messages]
    assert texts[-4:] == ["Not so.", "Steered.", "And then?", "Followed up."]


def test_pi_0_87_1_calls_of_a_cut_reply_fail_one_by_one() -> None:
    """Not printed: read in the source, `failToolCallsFromTruncatedMessage`."""
    assert told(scenario("A", "B", finish="length"), "pi@0.87.1") == printed(
        OPENING.replace("toolUse", "length")
        + "tool_execution_start:A tool_execution_end:A message_start/end:toolResult(A) "
        "tool_execution_start:B tool_execution_end:B message_start/end:toolResult(B) " + CLOSING
    )


def test_pi_0_73_1_calls_of_a_cut_reply_are_run() -> None:
    cut = OPENING.replace("toolUse", "length")
    assert told(scenario("A", "B", finish="length"), "pi@0.73.1") == printed(
        cut + BOTH_RAN + CLOSING
    )


# ------------------------------------------------------------------ 2.6: an abort during A


def aborted(loop: str, order: ToolExecution) -> tuple[Scenario, Result]:
    """A run of one reply that was aborted during A; a second model call would be unscripted."""
    world = scenario("A", "B", order=order, then=(), abort=DURING_A)
    result = run(world, loop=loop)
    assert result.outcome is Outcome.ABORTED
    return world, result


def started(result: Result) -> list[str]:
    return [e.name for e in result.trace.entries if isinstance(e, entries.ToolStarted)]


def errors(result: Result) -> dict[str, bool]:
    """Which tool's result is an error."""
    found = (e for e in result.trace.entries if isinstance(e, entries.Answered))
    return {entry.name: entry.is_error for entry in found}


ONE_MORE_CALL = "turn_end turn_start message_start/end:assistant/aborted turn_end agent_end"


def test_pi_0_73_1_sequential_abort_during_a_still_runs_b_and_calls_once_more() -> None:
    world, result = aborted("pi@0.73.1", SEQUENTIAL)
    assert started(result) == ["A", "B"]
    assert errors(result) == {"A": True, "B": False}
    assert len(result.requests) == 2
    assert events_of(result, world, "pi@0.73.1") == printed(
        OPENING + "tool_execution_start:A tool_execution_end:A message_start/end:toolResult(A) "
        "tool_execution_start:B tool_execution_end:B message_start/end:toolResult(B) "
        + ONE_MORE_CALL
    )


def test_pi_0_87_1_sequential_abort_during_a_never_starts_b_and_calls_once_more() -> None:
    world, result = aborted("pi@0.87.1", SEQUENTIAL)
    assert started(result) == ["A"]
    assert len(result.requests) == 2
    assert events_of(result, world, "pi@0.87.1") == printed(
        OPENING
        + "tool_execution_start:A tool_execution_end:A message_start/end:toolResult(A) "
        + ONE_MORE_CALL
    )


@pytest.mark.parametrize("loop", ["pi@0.73.1", "pi@0.87.1"])
def test_pi_0_73_1_and_0_87_1_what_steers_before_an_abort_goes_with_the_last_call(
    loop: str,
) -> None:
    """Not printed: read in the source, 2.2: the turn that follows the batch polls what steers."""
    steered = [Queued(at="250ms", say="Not so.")]
    world = scenario("A", then=(), abort=DURING_A, queue=steered)
    result = run(world, loop=loop)
    assert events_of(result, world, loop) == printed(
        OPENING + "tool_execution_start:A tool_execution_end:A message_start/end:toolResult(A) "
        "turn_end turn_start message_start:user message_end:user "
        "message_start/end:assistant/aborted turn_end agent_end"
    )
    assert result.requests[-1].messages[-1].text == "Not so."


def test_unlike_pi_0_87_1_our_transcript_answers_the_call_that_was_never_started() -> None:
    """The real program adds that answer on the wire only; what is sent is paired in both."""
    _, result = aborted("pi@0.87.1", SEQUENTIAL)
    assert errors(result) == {"A": True, "B": True}
    said = result.requests[-1].messages[1]
    assert isinstance(said, AssistantMessage)
    answers = [m.call_id for m in result.requests[-1].messages if isinstance(m, ToolMessage)]
    assert answers == [call.id for call in said.calls]


@pytest.mark.parametrize("loop", ["pi@0.73.1", "pi@0.87.1"])
def test_pi_0_73_1_and_0_87_1_parallel_abort_during_a_when_b_is_done(loop: str) -> None:
    """A error, B done, one more model call, which comes back as aborted."""
    world = scenario("A", "B", order=PARALLEL, then=(), abort=Trigger(at="1.5s"))
    result = run(world, loop=loop)
    assert result.outcome is Outcome.ABORTED
    assert errors(result) == {"A": True, "B": False}
    assert len(result.requests) == 2
    assert events_of(result, world, loop) == printed(OPENING + BOTH_RAN + ONE_MORE_CALL)


@pytest.mark.parametrize("loop", ["pi@0.73.1", "pi@0.87.1"])
def test_pi_0_73_1_and_0_87_1_parallel_abort_calls_the_model_once_more(loop: str) -> None:
    _, result = aborted(loop, PARALLEL)
    assert started(result) == ["A", "B"]
    assert len(result.requests) == 2


@pytest.mark.parametrize("order", [SEQUENTIAL, PARALLEL], ids=["sequential", "parallel"])
def test_the_documents_pi_calls_no_model_after_an_abort(order: ToolExecution) -> None:
    world, result = aborted("pi", order)
    assert len(result.requests) == 1
    assert started(result) == (["A"] if order is SEQUENTIAL else ["A", "B"])
    assert events_of(result, world, "pi")[-2:] == ["turn_end", "agent_end"]


def test_pi_0_87_1_a_reply_that_is_aborted_ends_the_run_at_once() -> None:
    """2.2: a hard exit, no tool is run, the turn has no results, the queues are not polled."""
    world = Scenario(
        prompt="Go.",
        tools=TOOLS,
        model=[Reply(say="I see", call={"A": {}}, pace=Pace(per_part="1s"))],
        abort=Trigger(after="tool-call"),
        queue=[Queued(after="tool-call", say="Never heard.")],
    )
    result = run(world, loop="pi@0.87.1")
    assert len(result.requests) == 1
    assert events_of(result, world, "pi@0.87.1") == printed(
        "agent_start turn_start message_start:user message_end:user "
        "message_start/end:assistant/aborted turn_end agent_end"
    )

"""What pi-agent-core 0.87.1 was observed to do, driven by a model and tools on a virtual clock."""

from collections.abc import Sequence
from typing import Any

import pytest

from simloop import (
    Outcome,
    Reply,
    Result,
    Scenario,
    ScriptedHook,
    ScriptedTool,
    ToolExecution,
    run,
)
from simloop.messages import AssistantMessage, Message, Request, ToolCall, ToolMessage, ToolResult
from simloop.scenario.loader import parse_scenario
from simloop.scenario.replies import Pace
from simloop.scenario.schema import Queued, Trigger
from simloop.trace import entries

SEQUENTIAL = ToolExecution(order="sequential")
PARALLEL = ToolExecution(order="parallel")
TOOLS = {
    "slow": ScriptedTool(returns="slept", takes="2s"),
    "quick": ScriptedTool(returns="woke", takes="1s"),
    "strict": ScriptedTool(parameters={"path": "string", "lines": "integer?"}, returns="read"),
}


def play(*model: Reply, loop: str = "pi@0.87.1", **more: Any) -> Result:
    """A run with the tools above."""
    given = {"prompt": "Go.", "loop": loop, "tools": TOOLS, "model": list(model), **more}
    return run(Scenario(**given))


def roles(messages: Sequence[Message]) -> str:
    return " ".join(str(type(message).__struct_config__.tag) for message in messages)


def sent(result: Result) -> list[str]:
    """The roles of each request."""
    return [roles(request.messages) for request in result.requests]


def results(result: Result) -> list[str]:
    """The results in the transcript."""
    return [message.text for message in result.messages if isinstance(message, ToolMessage)]


def tools_run(result: Result) -> list[str]:
    """The tools that were started."""
    return [e.name for e in result.trace.entries if isinstance(e, entries.ToolStarted)]


DONE = Reply(say="Done.")


def said(result: Result, place: int) -> AssistantMessage:
    message = result.messages[place]
    assert isinstance(message, AssistantMessage)
    return message


def got(result: Result) -> list[tuple[str, Any]]:
    """The tools that ran, with the arguments that they got."""
    return [(call.name, call.arguments) for call in result.calls]


# ------------------------------------------------------------------ replies


@pytest.mark.parametrize(
    "failing",
    [
        Reply(say="Sorry.", finish="error"),
        Reply(say="Sorry.", unfinished=True),
        Reply(say="Sorry.", finish="content_filter"),
        Reply(say="Sorry.", error={"message": "broken"}),
    ],
    ids=["finish", "unfinished", "filtered", "error-part"],
)
def test_0_87_1_a_failed_reply_is_in_the_transcript_and_in_no_request(failing: Reply) -> None:
    result = play(failing, DONE, then=["And now?"])
    assert sent(result) == ["user", "user user"]
    assert (said(result, 1).text, said(result, 1).failed) == ("Sorry.", "error")


def test_0_87_1_half_a_call_of_a_failed_reply_is_in_the_transcript() -> None:
    half = Reply(call={"quick": {}}, half_call={"strict": '{"pa'}, lost="mid-output")
    result = play(half, DONE, then=["And now?"])
    assert [(call.name, call.arguments) for call in said(result, 1).calls] == [
        ("quick", "{}"),
        ("strict", '{"pa'),
    ]
    assert (tools_run(result), sent(result)) == ([], ["user", "user user"])


def test_0_87_1_thinking_is_sent_back() -> None:
    thinking = Reply(think="Let me see", call={"quick": {}})
    result = play(thinking, DONE)
    call = ToolCall("call-1", "quick", "{}")
    assert result.requests[-1].messages[1] == AssistantMessage("", (call,), "Let me see")


def test_0_87_1_a_context_of_more_than_a_hundred_messages_is_not_compacted() -> None:
    tools = {"now": ScriptedTool(returns="noon")}
    result = play(Reply(call={"now": {}}, times=60), DONE, tools=tools)
    assert (result.outcome, len(result.messages)) == (Outcome.COMPLETED, 122)
    assert not any(isinstance(e, entries.Compaction | entries.Notice) for e in result.trace.entries)


# ------------------------------------------------------------------ arguments and hooks


def test_0_87_1_arguments_are_converted_to_the_types_of_the_schema() -> None:
    result = play(Reply(call={"strict": {"path": 5, "lines": "3"}}), DONE)
    assert got(result) == [("strict", {"path": "5", "lines": 3})]
    assert results(result) == ["read"]


def test_0_87_1_an_optional_null_is_left_out() -> None:
    call = Reply(call={"strict": {"path": "a", "lines": None}})
    assert got(play(call, DONE)) == [("strict", {"path": "a"})]


def test_0_87_1_arguments_that_a_hook_makes_invalid_reach_the_tool() -> None:
    hook = ScriptedHook(at="before_tool_call", arguments={"path": {"is": "no text"}})
    result = play(Reply(call={"strict": {"path": "a"}}), DONE, hooks=[hook])
    assert got(result) == [("strict", {"path": {"is": "no text"}})]
    assert results(result) == ["read"]


def test_0_87_1_a_before_hook_that_raises_answers_the_call_and_no_tool_runs() -> None:
    hook = ScriptedHook(at="before_tool_call", raises="ask first")
    result = play(Reply(call={"quick": {}}), DONE, hooks=[hook])
    assert (tools_run(result), results(result)) == ([], ["Error: ask first"])


def test_0_87_1_an_after_hook_that_raises_replaces_the_result() -> None:
    hook = ScriptedHook(at="after_tool_call", raises="not readable")
    result = play(Reply(call={"quick": {}}), DONE, hooks=[hook])
    assert (tools_run(result), results(result)) == (["quick"], ["Error: not readable"])


def test_0_87_1_a_before_hook_may_take_6_seconds_and_then_block() -> None:
    hook = ScriptedHook(at="before_tool_call", takes="6s", block="the user said no")
    result = play(Reply(call={"quick": {}}), DONE, hooks=[hook])
    assert (tools_run(result), results(result)) == ([], ["Error: the user said no"])
    assert result.elapsed_ns == 6 * 10**9


@pytest.mark.parametrize("loop", ["pi", "pi@0.87.1"])
def test_0_87_1_and_the_documents_pi_a_result_that_says_it_is_an_error_is_a_success(
    loop: str,
) -> None:
    """Only a tool that raises has failed: the document prints no other error."""

    def check() -> ToolResult:
        return ToolResult("3 tests fail", is_error=True, details={"exit_code": 1})

    scenario = Scenario(prompt="Go.", loop=loop, model=[Reply(call={"check": {}}), DONE])
    result = run(scenario, tools=[check])
    assert results(result) == ["3 tests fail"]
    assert [m.is_error for m in result.messages if isinstance(m, ToolMessage)] == [False]
    assert [e.is_error for e in result.trace.entries if isinstance(e, entries.Answered)] == [False]


# ------------------------------------------------------------------ batches


def test_0_87_1_results_that_all_ask_for_the_end_end_the_run() -> None:
    tools = {**TOOLS, "file": ScriptedTool(returns="filed", terminate=True)}
    one = play(Reply(call=[{"file": {}}, {"file": {}}]), tools=tools)
    assert (one.outcome, sent(one)) == (Outcome.COMPLETED, ["user"])
    mixed = play(Reply(call=[{"file": {}}, {"quick": {}}]), DONE, tools=tools)
    assert sent(mixed) == ["user", "user assistant tool tool"]


def test_0_87_1_after_results_that_ask_for_the_end_queued_messages_go_on() -> None:
    tools = {"file": ScriptedTool(returns="filed", terminate=True)}
    queue = [Queued(after="tool-started", say="And?", follow_up=True)]
    result = play(Reply(call={"file": {}}), DONE, tools=tools, queue=queue)
    assert sent(result) == ["user", "user assistant tool user"]


def test_0_87_1_one_sequential_tool_has_the_whole_reply_run_in_order() -> None:
    tools = {**TOOLS, "alone": ScriptedTool(returns="ok", takes="1s", sequential=True)}
    calls = Reply(call=[{"quick": {}}, {"alone": {}}, {"slow": {}}])
    result = play(calls, DONE, tools=tools)
    assert result.elapsed_ns == 4 * 10**9


# ------------------------------------------------------------------ options


def test_0_87_1_takes_its_queue_modes_from_a_file() -> None:
    scenario = parse_scenario(
        "prompt: Go.\nloop: pi@0.87.1\nloops: {pi: {steering: all}}\n"
        "tools: {t: {}}\nqueue: [{after: tool-started, say: a}, {after: tool-started, say: b}]\n"
        "model: [{call: {t: {}}}, {say: Done.}]"
    )
    assert sent(run(scenario)) == ["user", "user assistant tool user user"]


def test_the_notice_of_a_long_run_comes_where_a_scenario_says_and_for_every_loop() -> None:
    tools = {"now": ScriptedTool(returns="noon")}
    for loop in ("reference", "pi", "opencode", "pi@0.87.1"):
        scenario = Scenario(
            prompt="Go.",
            tools=tools,
            model=[Reply(call={"now": {}}, times=2), DONE],
            warn_after=1,
        )
        record = run(scenario, loop=loop).trace.entries
        assert [e.text for e in record if isinstance(e, entries.Notice)] == [
            "2 model calls, and no end yet",
            "3 model calls, and no end yet",
        ]


class AbortError(Exception):
    """As an SDK raises it."""


@pytest.mark.parametrize("loop", ["pi", "pi@0.87.1"])
def test_0_87_1_and_the_documents_pi_an_abort_error_of_an_sdk_is_an_abort(loop: str) -> None:
    def raises(_: Request) -> str:
        raise AbortError("the request was aborted")

    assert run(Scenario(prompt="Go.", loop=loop), model=raises).outcome is Outcome.ABORTED


# ------------------------------------------------------------------ order (documented-loops.md 2.4)


def happened(result: Result) -> list[str]:
    """The starts and answers of calls, in the order of the trace, each with its second."""
    return [
        f"{e.at_ns / 10**9:g} {'start' if isinstance(e, entries.ToolStarted) else 'end'} {e.name}"
        for e in result.trace.entries
        if isinstance(e, entries.ToolStarted | entries.Answered)
    ]


def test_0_87_1_parallel_calls_end_as_they_complete_and_are_in_the_transcript_as_called() -> None:
    result = play(Reply(call=[{"slow": {}}, {"quick": {}}]), DONE)
    assert happened(result) == ["0 start slow", "0 start quick", "1 end quick", "2 end slow"]
    assert results(result) == ["slept", "woke"]


def test_0_87_1_steer_and_follow_up_during_tools_wait_for_the_batch() -> None:
    queue = [
        Queued(at="500ms", say="Not so."),
        Queued(at="500ms", say="And then?", follow_up=True),
    ]
    model = [Reply(call=[{"slow": {}}, {"quick": {}}]), Reply(say="Steered."), DONE]
    texts = [message.text for message in play(*model, queue=queue).messages]
    assert texts[-4:] == ["Not so.", "Steered.", "And then?", "Done."]


def test_0_87_1_the_calls_of_a_reply_that_was_cut_off_fail() -> None:
    result = play(Reply(call=[{"slow": {}}, {"quick": {}}], finish="length"), DONE)
    assert (tools_run(result), len(results(result))) == ([], 2)


# ------------------------------------------------------------------ aborts

TWO = Reply(call=[{"slow": {}}, {"quick": {}}])
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

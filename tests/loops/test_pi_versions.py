"""What pi-agent-core 0.87.1 was observed to do with replies, arguments, hooks and results.

Aborts have their own file.
"""

from typing import Any

import pytest
from piversions import TOOLS, play, results, sent, tools_run

from simloop import (
    Outcome,
    Reply,
    Result,
    Scenario,
    ScriptedHook,
    ScriptedTool,
    run,
)
from simloop.messages import AssistantMessage, Request, ToolCall, ToolMessage, ToolResult
from simloop.scenario.loader import parse_scenario
from simloop.scenario.triggers import Queued
from simloop.trace import entries

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

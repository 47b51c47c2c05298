"""Calls of a reply: whatever the model, a tool or a hook does, each gets exactly one result."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pacing import MS, nap
from toolcalling import EVERY_ORDER, INVALID, answer, fail, result_of, results, square

from simloop import Reply, Scenario, Tool, ToolExecution
from simloop.messages import (
    Finish,
    FinishReason,
    Request,
    ToolCall,
    ToolCallPart,
    ToolMessage,
)
from simloop.runs.run import Simulation
from simloop.virtual.clock.timeouts import GRACE_NS


def test_an_unknown_tool_is_an_error_result_that_names_it() -> None:
    (message,) = results(answer(Reply(call={"gone": {}})))
    assert message == ToolMessage("call-1", "Error: tool gone not found", is_error=True)


@pytest.mark.parametrize(
    "arguments",
    ["", " ", "{", '{"n": 3', "{'n': 3}", "NaN", '{"n": 3} {}', "nothing", '{"n": "\\ud800"}'],
)
def test_arguments_that_are_no_json_are_an_error_result(arguments: str) -> None:
    message = result_of(square, arguments)
    assert message == ToolMessage("call-1", f"{INVALID}arguments: not valid JSON", is_error=True)


@pytest.mark.parametrize("arguments", ["[]", "3", "null", '"text"', "true"])
def test_arguments_that_are_no_object_never_reach_a_tool_with_any_schema(arguments: str) -> None:
    message = result_of(Tool(lambda **_: "ran", name="any", parameters={}), arguments)
    assert message.text == f"{INVALID}arguments: must be an object"


def test_arguments_against_the_schema_are_an_error_result_that_says_where() -> None:
    message = result_of(square, {"n": "three"})
    assert message.text == f'{INVALID}n: must have type "integer"'


def test_arguments_nested_deeper_than_can_be_read_are_an_error_result() -> None:
    message = result_of(square, "[" * 100_000)
    assert message == ToolMessage("call-1", f"{INVALID}arguments: not valid JSON", is_error=True)


def test_a_whole_number_of_any_size_reaches_the_tool() -> None:
    assert result_of(square, {"n": 10**40}).text == str(10**80)


@given(st.text() | st.from_regex(r'[\[\]{}",:0-9a\\ ]{0,20}', fullmatch=True))
def test_whatever_the_arguments_are_the_call_has_one_result(arguments: str) -> None:
    run = answer(Reply(call={"echo": arguments}), Tool(lambda **given: given, name="echo"))
    assert [message.call_id for message in results(run)] == ["call-1"]


def test_an_id_of_an_earlier_round_is_told_apart_too() -> None:
    reply = Reply(call={"square": {"n": 2}}, ids=["a"])
    scenario = Scenario(prompt="Go.", model=[reply, reply, Reply(say="Done.")])
    first, second = results(Simulation(scenario, tools=[square]).run())
    assert first.call_id != second.call_id


def test_a_call_without_an_id_gets_one() -> None:
    (message,) = results(answer(Reply(call={"square": {"n": 2}}, ids=[""]), square))
    assert message.call_id


def test_lone_surrogates_in_a_call_are_replaced_before_they_are_kept() -> None:
    def model(request: Request) -> Any:
        if len(request.messages) > 1:
            return "Done."
        call = ToolCall("\ud800", "square\ud800", '{"n": "\ud800"}')
        return [ToolCallPart(call), Finish(FinishReason.TOOL_CALLS, "tool-calls")]

    result = Simulation(Scenario(prompt="Go."), model=model, tools=[square]).run()
    text = "Error: tool square\ufffd not found"
    assert results(result) == [ToolMessage("\ufffd", text, is_error=True)]


@given(st.lists(st.sampled_from(["ok", "gone", "bad json", "bad type", "raises"]), max_size=6))
@EVERY_ORDER
def test_calls_and_results_pair_one_to_one_in_order(
    policy: ToolExecution, kinds: Sequence[str]
) -> None:
    spelled: dict[str, dict[str, Any]] = {
        "ok": {"square": {"n": 1}},
        "gone": {"gone": {}},
        "bad json": {"square": "{"},
        "bad type": {"square": {"n": "x"}},
        "raises": {"fails": {}},
    }
    reply = Reply(say="Go.", call=[spelled[kind] for kind in kinds])
    scenario = Scenario(
        prompt="Go.",
        model=[reply, *[Reply(say="Done.")] * bool(kinds)],
        tool_execution=policy,
    )
    run = Simulation(scenario, tools=[square, fail(ValueError("no"))]).run()
    assert [(m.call_id, m.is_error) for m in results(run)] == [
        (f"call-{number}", kind != "ok") for number, kind in enumerate(kinds, start=1)
    ]


def test_a_tool_that_takes_too_long_costs_its_timeout() -> None:
    async def tool() -> None:
        await nap(3_600_000)

    run = answer(Reply(call={"tool": {}}), tool, policy=ToolExecution(timeout_ms=10))
    assert run.elapsed_ns == 10 * MS


def test_the_timeout_of_a_tool_goes_before_that_of_the_policy() -> None:
    async def tool() -> Any:
        return await nap(15, "in time")

    patient = Tool(tool, timeout_ms=20)
    assert result_of(patient, policy=ToolExecution(timeout_ms=10)).text == "in time"


def test_a_result_that_comes_after_the_timeout_is_too_late() -> None:
    async def tool() -> str:
        try:
            await nap(100)
        except asyncio.CancelledError:
            return "all the same"
        return ""

    message = result_of(tool, policy=ToolExecution(timeout_ms=10))
    assert message.text == "Error: timed out after 10 ms"


def test_a_tool_that_sleeps_on_after_its_timeout_costs_no_more_than_the_grace() -> None:
    async def tool() -> None:
        try:
            await nap(100)
        except asyncio.CancelledError:
            await nap(3_600_000)

    run = answer(Reply(call={"tool": {}}), tool, policy=ToolExecution(timeout_ms=10))
    assert run.elapsed_ns <= 10 * MS + GRACE_NS


def test_a_timeout_within_the_tool_is_its_own_affair() -> None:
    async def tool() -> str:
        try:
            async with asyncio.timeout(0.005):
                await nap(100)
        except TimeoutError:
            return "gave up"
        return ""

    assert result_of(tool, policy=ToolExecution(timeout_ms=10)).text == "gave up"

"""Calls of a reply: whatever the model, a tool or a hook does, each gets exactly one result."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolcalling import EVERY_ORDER, INVALID, answer, fail, result_of, results, square, started

from simloop import Reply, Scenario, Tool, ToolExecution
from simloop.messages import (
    AssistantMessage,
    Finish,
    FinishReason,
    Request,
    ToolCall,
    ToolCallPart,
    ToolMessage,
)
from simloop.runs.run import Simulation

BY_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_a_tool_gets_the_arguments_of_its_call() -> None:
    assert result_of(square, {"n": 3}) == ToolMessage("call-1", "9")


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
def test_arguments_that_are_no_object_are_an_error_result(arguments: str) -> None:
    assert result_of(square, arguments).text.startswith(INVALID)


@pytest.mark.parametrize("arguments", ["[]", "3", "null", '"text"', "true"])
def test_arguments_that_are_no_object_never_reach_a_tool_with_any_schema(arguments: str) -> None:
    message = result_of(Tool(lambda **_: "ran", name="any", parameters={}), arguments)
    assert message.text == f"{INVALID}arguments: must be an object"


def test_arguments_against_the_schema_are_an_error_result_that_says_where() -> None:
    message = result_of(square, {"n": "three"})
    assert message.text == f'{INVALID}n: must have type "integer"'


def test_a_call_with_wrong_arguments_does_not_start_its_tool() -> None:
    assert started(answer(Reply(call={"square": {"n": "three"}}), square)) == []


def test_arguments_nested_deeper_than_can_be_read_are_an_error_result() -> None:
    message = result_of(square, "[" * 100_000)
    assert message == ToolMessage("call-1", f"{INVALID}arguments: not valid JSON", is_error=True)


def test_a_whole_number_of_any_size_reaches_the_tool() -> None:
    assert result_of(square, {"n": 10**40}).text == str(10**80)


@given(st.text() | st.from_regex(r'[\[\]{}",:0-9a\\ ]{0,20}', fullmatch=True))
def test_whatever_the_arguments_are_the_call_has_one_result(arguments: str) -> None:
    run = answer(Reply(call={"echo": arguments}), Tool(lambda **given: given, name="echo"))
    assert [message.call_id for message in results(run)] == ["call-1"]


REPEATED = Reply(call=[{"square": {"n": n}} for n in (2, 3, 4)], ids=["a", "a", "a"])


@EVERY_ORDER
def test_calls_that_share_an_id_are_told_apart(policy: ToolExecution) -> None:
    ids = [message.call_id for message in results(answer(REPEATED, square, policy=policy))]
    assert len(set(ids)) == 3


@EVERY_ORDER
def test_calls_that_shared_an_id_each_have_their_own_result(policy: ToolExecution) -> None:
    run = answer(REPEATED, square, policy=policy)
    calls = run.messages[1].calls if isinstance(run.messages[1], AssistantMessage) else ()
    assert [(m.call_id, m.text) for m in results(run)] == [
        (call.id, text) for call, text in zip(calls, ("4", "9", "16"), strict=True)
    ]


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

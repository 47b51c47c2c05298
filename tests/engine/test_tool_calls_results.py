"""What a tool returns or raises, and what the model is told of it."""

import asyncio
from typing import Any

import pytest
from pacing import nap
from toolcalling import EVERY_ORDER, answer, result_of, square

from simloop import Reply, ScenarioError, ToolExecution, ToolResult
from simloop.messages import ToolMessage
from simloop.trace import entries
from simloop.trace.codec import decode, encode

# ------------------------------------------------------------------- what comes out


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        (None, ""),
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        ([], "[]"),
        (0, "0"),
        ("é\x00", "é\x00"),
        ("\ud800", "\ufffd"),
        (ToolResult("told", details={"not": "told"}), "told"),
    ],
)
def test_what_a_tool_returns_is_told_as_text(value: Any, text: str) -> None:
    def tool() -> Any:
        return value

    assert result_of(tool) == ToolMessage("call-1", text)


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize("value", [object, b"bytes", {1, 2}, {"a": 1, 2: "b"}, CIRCLE])
def test_a_result_that_is_no_json_is_an_error_result(value: Any) -> None:
    def tool() -> Any:
        return value

    assert result_of(tool).is_error


def test_a_result_may_say_itself_that_it_is_an_error() -> None:
    def tool() -> ToolResult:
        return ToolResult("no such file", is_error=True)

    assert result_of(tool) == ToolMessage("call-1", "no such file", is_error=True)


def details_of(*tools: Any, **code: Any) -> list[Any]:
    """The details that the trace has for each call, of a trace that was written and read."""
    reply = Reply(call=[{tool.__name__: {}} for tool in tools])
    recorded = decode(encode(answer(reply, *tools, **code).trace)).entries
    return [entry.details for entry in recorded if isinstance(entry, entries.ToolResult)]


@pytest.mark.parametrize(
    "details",
    [{"lines": [1, None, "é"]}, [], "text", 0, False, 1.5, 10**40, {"a": {"b": {}}}],
    ids=repr,
)
def test_details_are_recorded_as_json(details: object) -> None:
    def tool() -> ToolResult:
        return ToolResult("told", details=details)

    assert details_of(tool) == [details]


def test_details_that_change_afterwards_are_recorded_as_they_were() -> None:
    details = {"lines": [1]}

    def tool() -> ToolResult:
        return ToolResult("told", details=details)

    def later() -> str:
        details["lines"].append(2)
        return ""

    assert details_of(tool, later) == [{"lines": [1]}, None]


@pytest.mark.parametrize(
    "details",
    [{1, 2}, object(), {"n": float("nan")}, "\ud800", CIRCLE, b"b"],
    ids=["set", "object", "nan", "surrogate", "circle", "bytes"],
)
def test_details_that_are_no_json_are_recorded_by_their_type(details: object) -> None:
    def tool() -> ToolResult:
        return ToolResult("told", details=details)

    assert details_of(tool) == [f"no JSON: {type(details).__name__}"]


def test_wrong_arguments_are_listed_in_the_details() -> None:
    run = answer(Reply(call={"square": {"n": "three"}}), square)
    found = [entry.details for entry in run.trace.entries if isinstance(entry, entries.Answered)]
    assert found == [{"validationErrors": ['n: must have type "integer"']}]


def test_ten_megabytes_are_a_result_like_any_other() -> None:
    def tool() -> str:
        return "x" * 10_000_000

    assert len(result_of(tool).text) == 10_000_000


# ------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad value"), "Error: bad value"),
        (ValueError(), "Error: ValueError"),
        (KeyError("key"), "Error: 'key'"),
        (StopIteration(), "Error: StopIteration"),
        (AssertionError("must hold"), "Error: must hold"),
        (TimeoutError(), "Error: TimeoutError"),
        (ExceptionGroup("both", [ValueError()]), "Error: both (1 sub-exception)"),
        (ValueError("\ud800"), "Error: \ufffd"),
        (asyncio.CancelledError(), "Error: the tool was cancelled"),
    ],
    ids=repr,
)
def test_an_exception_of_a_tool_is_an_error_result(error: BaseException, text: str) -> None:
    def tool() -> None:
        raise error

    assert result_of(tool) == ToolMessage("call-1", text, is_error=True)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@EVERY_ORDER
def test_what_ends_the_program_is_no_failure_of_a_tool(
    error: type[BaseException], policy: ToolExecution
) -> None:
    async def slow() -> str:
        return str(await nap(1_000, "slow"))

    def tool() -> None:
        raise error

    with pytest.raises(error):
        answer(Reply(call={"slow": {}, "tool": {}}), slow, tool, policy=policy)


@EVERY_ORDER
def test_an_error_of_ours_in_a_tool_is_raised_as_it_is(policy: ToolExecution) -> None:
    async def slow() -> str:
        return str(await nap(1_000, "slow"))

    def tool() -> None:
        raise ScenarioError("the author is wrong")

    with pytest.raises(ScenarioError, match="the author is wrong"):
        answer(Reply(call={"slow": {}, "tool": {}}), slow, tool, policy=policy)


def test_a_trace_with_hostile_results_can_be_written() -> None:
    def tool() -> str:
        return "\ud800 \x1b[31m \x00 \u202e"

    assert encode(answer(Reply(call={"tool": {}}), tool).trace)

"""Calls of a reply: whatever the model, a tool or a hook does, each gets exactly one result."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop import (
    Callbacks,
    HookIsolation,
    Hooks,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScenarioError,
    Simulation,
    Tool,
    ToolExecution,
    ToolResult,
)
from simloop.kernel.policies import OnHookFailure, ToolOrder
from simloop.messages import (
    AssistantMessage,
    Finish,
    FinishReason,
    Request,
    ToolCall,
    ToolCallPart,
    ToolMessage,
)
from simloop.sim.interrupts import GRACE_NS
from simloop.trace import entries
from simloop.trace.codec import encode

MS = 1_000_000
PARALLEL = ToolExecution(order=ToolOrder.PARALLEL)
EVERY_ORDER = pytest.mark.parametrize(
    "policy", [ToolExecution(), PARALLEL], ids=["sequential", "parallel"]
)
INVALID = "Error: Invalid parameters\n"
BY_NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def answer(
    reply: Reply,
    *tools: Callable[..., Any] | Tool,
    policy: ToolExecution | None = None,
    isolation: HookIsolation | None = None,
    **code: Any,
) -> Result:
    """A run whose first reply is `reply` and whose second ends it."""
    scenario = Scenario(
        prompt="Go.",
        model=[reply, Reply(say="Done.")],
        tool_execution=policy or ToolExecution(),
        hook_isolation=isolation or HookIsolation(),
    )
    return Simulation(scenario, tools=tools, **code).run()


def results(result: Result) -> list[ToolMessage]:
    return [message for message in result.messages if isinstance(message, ToolMessage)]


def result_of(
    tool: Callable[..., Any] | Tool, arguments: Any = None, **options: Any
) -> ToolMessage:
    """What the model is told after one call of `tool`."""
    name = tool.spec.name if isinstance(tool, Tool) else tool.__name__
    (message,) = results(answer(Reply(call={name: arguments}), tool, **options))
    return message


def started(result: Result) -> list[str]:
    return [e.name for e in result.trace.entries if isinstance(e, entries.ToolStarted)]


def square(n: int) -> str:
    return str(n * n)


async def nap(milliseconds: float, value: Any = "") -> Any:
    await asyncio.sleep(milliseconds / 1_000)
    return value


# ------------------------------------------------------------------- what goes in


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


@settings(deadline=None, max_examples=60)
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


class Unreadable(Exception):  # noqa: N818 - it is the message that is wrong with it
    def __str__(self) -> str:
        raise ValueError("no message")


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize("value", [object, b"bytes", {1, 2}, {"a": 1, 2: "b"}, CIRCLE])
def test_a_result_that_is_no_json_is_an_error_result(value: Any) -> None:
    def tool() -> Any:
        return value

    assert result_of(tool).is_error


@pytest.mark.parametrize("value", [5, None, b"bytes"])
def test_a_tool_result_whose_text_is_no_text_is_an_error_result(value: Any) -> None:
    def tool() -> ToolResult:
        return ToolResult(value)

    assert result_of(tool).is_error


def test_a_result_may_say_itself_that_it_is_an_error() -> None:
    def tool() -> ToolResult:
        return ToolResult("no such file", is_error=True)

    assert result_of(tool) == ToolMessage("call-1", "no such file", is_error=True)


def test_details_of_a_result_reach_the_callback_untouched() -> None:
    details, seen = {"lines": [1]}, []
    callbacks = Callbacks(on_tool_result=lambda _, result: seen.append(result.details))

    def tool() -> ToolResult:
        return ToolResult("told", details=details)

    result_of(tool, callbacks=callbacks)
    assert seen == [details]


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


@pytest.mark.parametrize("error", [ValueError("bad"), asyncio.CancelledError()], ids=repr)
@EVERY_ORDER
def test_an_exception_of_an_async_tool_is_an_error_result(
    error: BaseException, policy: ToolExecution
) -> None:
    async def tool() -> None:
        await nap(1)
        raise error

    run = answer(Reply(call={"tool": {}, "square": {"n": 2}}), tool, square, policy=policy)
    assert [message.is_error for message in results(run)] == [True, False]


def test_an_exception_that_cannot_be_worded_is_an_error_result() -> None:
    def tool() -> None:
        raise Unreadable

    assert result_of(tool).is_error


def test_a_tool_that_is_not_callable_as_its_schema_says_is_an_error_result() -> None:
    message = result_of(Tool(square, name="square", parameters={"type": "object"}), {"m": 1})
    assert message.is_error


def test_a_coroutine_from_a_plain_function_is_awaited() -> None:
    def tool() -> Any:
        return nap(1, "slept")

    assert result_of(tool).text == "slept"


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


# ------------------------------------------------------------------- timeouts


def test_a_tool_that_takes_too_long_is_an_error_result() -> None:
    async def tool() -> None:
        await nap(11)

    message = result_of(tool, policy=ToolExecution(timeout_ms=10))
    assert message == ToolMessage("call-1", "Error: timed out after 10 ms", is_error=True)


def test_a_tool_that_takes_too_long_costs_its_timeout() -> None:
    async def tool() -> None:
        await nap(3_600_000)

    run = answer(Reply(call={"tool": {}}), tool, policy=ToolExecution(timeout_ms=10))
    assert run.elapsed_ns == 10 * MS


def test_a_tool_that_returns_in_time_is_not_disturbed() -> None:
    async def tool() -> Any:
        return await nap(9, "in time")

    assert result_of(tool, policy=ToolExecution(timeout_ms=10)).text == "in time"


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


def test_every_parallel_tool_has_a_timeout_of_its_own() -> None:
    async def quick() -> Any:
        return await nap(5, "quick")

    async def slow() -> Any:
        return await nap(100, "slow")

    policy = ToolExecution(order=ToolOrder.PARALLEL, timeout_ms=10)
    run = answer(Reply(call={"slow": {}, "quick": {}}), slow, quick, policy=policy)
    assert [m.text for m in results(run)] == ["Error: timed out after 10 ms", "quick"]


# ------------------------------------------------------------------- several calls


def timed(*milliseconds: int) -> tuple[Reply, list[Tool]]:
    """A reply that calls one tool after the other, each taking its time."""

    def tool(number: int, wait: int) -> Tool:
        async def function() -> Any:
            return await nap(wait, f"result {number}")

        return Tool(function, name=f"tool-{number}")

    tools = [tool(number, wait) for number, wait in enumerate(milliseconds)]
    return Reply(call={tool.spec.name: {} for tool in tools}), tools


waits = st.lists(st.integers(0, 5), min_size=1, max_size=5)


@given(waits)
@settings(deadline=None, max_examples=40)
def test_sequential_tools_take_the_sum_of_their_times(milliseconds: list[int]) -> None:
    reply, tools = timed(*milliseconds)
    assert answer(reply, *tools).elapsed_ns == sum(milliseconds) * MS


@given(waits)
@settings(deadline=None, max_examples=40)
def test_parallel_tools_take_the_longest_of_their_times(milliseconds: list[int]) -> None:
    reply, tools = timed(*milliseconds)
    assert answer(reply, *tools, policy=PARALLEL).elapsed_ns == max(milliseconds) * MS


@given(waits)
@settings(deadline=None, max_examples=40)
def test_results_of_parallel_tools_are_kept_in_the_order_of_the_calls(
    milliseconds: list[int],
) -> None:
    reply, tools = timed(*milliseconds)
    texts = [message.text for message in results(answer(reply, *tools, policy=PARALLEL))]
    assert texts == [f"result {number}" for number in range(len(milliseconds))]


@given(waits)
@settings(deadline=None, max_examples=40)
def test_parallel_tools_start_in_the_order_of_the_calls(milliseconds: list[int]) -> None:
    reply, tools = timed(*milliseconds)
    run = answer(reply, *tools, policy=PARALLEL)
    assert started(run) == [f"tool-{number}" for number in range(len(milliseconds))]


def test_parallel_tools_start_in_the_order_of_the_calls_whatever_their_hooks_take() -> None:
    async def hook(given: Any) -> None:
        await nap(9 if given.call.name == "tool-0" else 1)

    reply, tools = timed(1, 1)
    run = answer(reply, *tools, policy=PARALLEL, hooks=Hooks(before_tool_call=[hook]))
    assert started(run) == ["tool-0", "tool-1"]


def test_results_of_parallel_tools_are_told_as_they_come() -> None:
    told: list[str] = []
    callbacks = Callbacks(on_tool_result=lambda call, _: told.append(call.name))
    reply, tools = timed(9, 3, 6)
    answer(reply, *tools, policy=PARALLEL, callbacks=callbacks)
    assert told == ["tool-1", "tool-2", "tool-0"]


def fail(error: BaseException) -> Tool:
    async def tool() -> None:
        await nap(2)
        raise error

    return Tool(tool, name="fails")


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()], ids=repr)
def test_a_parallel_tool_that_fails_does_not_disturb_the_others(error: BaseException) -> None:
    reply, tools = timed(1, 4)
    reply = Reply(call=[{"tool-0": {}}, {"fails": {}}, {"tool-1": {}}])
    run = answer(reply, *tools, fail(error), policy=PARALLEL)
    assert [message.is_error for message in results(run)] == [False, True, False]


def failing_hook(point: str) -> Result:
    async def hook(given: Any) -> None:
        await nap(1)
        if given.call.name == "tool-1":
            raise ValueError("bad hook")

    reply, tools = timed(5, 5, 50)
    scenario = Scenario(
        prompt="Go.",
        model=[reply],
        tool_execution=PARALLEL,
        hook_isolation=HookIsolation(on_failure=OnHookFailure.FAIL_RUN),
    )
    return Simulation(scenario, tools=tools, hooks=Hooks(**{point: [hook]})).run()


TOOL_POINTS = pytest.mark.parametrize("point", ["before_tool_call", "after_tool_call"])


@TOOL_POINTS
def test_a_hook_that_fails_the_run_while_tools_run_in_parallel_ends_it(point: str) -> None:
    result = failing_hook(point)
    assert (result.outcome, result.message) == (
        Outcome.FAILED,
        "Error: hook hook: ValueError: bad hook",
    )


@TOOL_POINTS
def test_a_hook_that_fails_the_run_leaves_no_parallel_call_without_result(point: str) -> None:
    assert [m.call_id for m in results(failing_hook(point))] == ["call-1", "call-2", "call-3"]


def test_a_hook_that_fails_the_run_ends_it_while_other_tools_still_run() -> None:
    assert failing_hook("after_tool_call").elapsed_ns == 6 * MS


def test_after_a_hook_has_failed_the_run_no_sequential_tool_starts() -> None:
    def hook(_: Any) -> None:
        raise ValueError("bad hook")

    reply, tools = timed(5, 5)
    scenario = Scenario(
        prompt="Go.",
        model=[reply],
        hook_isolation=HookIsolation(on_failure=OnHookFailure.FAIL_RUN),
    )
    hooks = Hooks(after_tool_call=[hook])
    assert started(Simulation(scenario, tools=tools, hooks=hooks).run()) == ["tool-0"]


# ------------------------------------------------------------------- hooks around a call


def before(change: Callable[[Any], None]) -> Hooks:
    return Hooks(before_tool_call=[change])


def after(change: Callable[[Any], None]) -> Hooks:
    return Hooks(after_tool_call=[change])


def test_arguments_that_a_hook_replaces_reach_the_tool() -> None:
    def hook(given: Any) -> None:
        given.arguments = {"n": 5}

    assert result_of(square, {"n": 3}, hooks=before(hook)).text == "25"


def test_arguments_that_a_hook_changes_in_place_reach_the_tool() -> None:
    def hook(given: Any) -> None:
        given.arguments["n"] += 1

    assert result_of(square, {"n": 3}, hooks=before(hook)).text == "16"


def test_arguments_that_a_hook_changes_are_those_that_the_trace_shows_as_run() -> None:
    def hook(given: Any) -> None:
        given.arguments["n"] += 1

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    shown = [e.arguments for e in run.trace.entries if isinstance(e, entries.ToolStarted)]
    assert shown == ['{"n":4}']


def test_arguments_that_a_hook_changes_leave_the_call_in_the_transcript_alone() -> None:
    def hook(given: Any) -> None:
        given.arguments["n"] += 1

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    calls = [e.arguments for e in run.trace.entries if isinstance(e, entries.ToolCall)]
    assert calls == ['{"n":3}']


@pytest.mark.parametrize("arguments", [{"n": "x"}, {}, {"n": 3, "m": 4}])
def test_arguments_that_a_hook_makes_wrong_are_an_error_result(arguments: Any) -> None:
    def hook(given: Any) -> None:
        given.arguments = arguments

    assert result_of(square, {"n": 3}, hooks=before(hook)).text.startswith(INVALID)


@pytest.mark.parametrize(
    "arguments", [[], None, "text", {"n": object()}], ids=["list", "none", "text", "object"]
)
def test_a_hook_that_makes_no_json_of_the_arguments_counts_as_failed(arguments: Any) -> None:
    def hook(given: Any) -> None:
        given.arguments = arguments

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    did = [e.did for e in run.trace.entries if isinstance(e, entries.Hook)]
    assert (did, results(run)[0].text) == (["failed"], "9")


@pytest.mark.parametrize("arguments", [{1: 2}, {"n": 3, None: 1}, {"n": (3,)}], ids=repr)
def test_arguments_that_a_hook_made_of_python_values_do_not_crash_the_run(arguments: Any) -> None:
    def hook(given: Any) -> None:
        given.arguments = arguments

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    assert run.outcome is Outcome.COMPLETED


def test_arguments_that_a_hook_makes_wrong_do_not_start_the_tool() -> None:
    def hook(given: Any) -> None:
        given.arguments = {"n": "x"}

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    assert started(run) == []


def test_arguments_that_were_wrong_are_refused_before_a_hook_sees_them() -> None:
    seen: list[Any] = []
    result_of(square, {"n": "x"}, hooks=before(seen.append))
    assert seen == []


def test_a_blocked_call_is_an_error_result_with_the_reason() -> None:
    message = result_of(square, {"n": 3}, hooks=before(lambda given: given.block("not today")))
    assert message == ToolMessage("call-1", "Error: not today", is_error=True)


def test_a_blocked_call_does_not_start_its_tool() -> None:
    hooks = before(lambda given: given.block("not today"))
    assert started(answer(Reply(call={"square": {"n": 3}}), square, hooks=hooks)) == []


def test_a_blocked_call_goes_to_no_after_hook() -> None:
    seen: list[Any] = []
    hooks = before(lambda given: given.block("not today")) + after(seen.append)
    result_of(square, {"n": 3}, hooks=hooks)
    assert seen == []


def test_only_the_call_that_a_hook_blocks_is_blocked() -> None:
    def hook(given: Any) -> None:
        if given.arguments["n"] == 2:
            given.block("not two")

    reply = Reply(call=[{"square": {"n": n}} for n in (1, 2, 3)])
    run = answer(reply, square, hooks=before(hook))
    assert [message.text for message in results(run)] == ["1", "Error: not two", "9"]


def test_a_result_that_a_hook_replaces_is_what_the_model_is_told() -> None:
    def hook(given: Any) -> None:
        given.result = ToolResult("masked")

    assert result_of(square, {"n": 3}, hooks=after(hook)).text == "masked"


def test_a_result_that_a_hook_replaces_is_what_the_callback_is_told() -> None:
    def hook(given: Any) -> None:
        given.result = ToolResult("masked")

    told: list[str] = []
    callbacks = Callbacks(on_tool_result=lambda _, result: told.append(result.text))
    result_of(square, {"n": 3}, hooks=after(hook), callbacks=callbacks)
    assert told == ["masked"]


@pytest.mark.parametrize("wrong", ["masked", None, 5, ToolResult(5)])  # type: ignore[arg-type]
def test_a_result_that_a_hook_makes_wrong_does_not_end_the_run(wrong: Any) -> None:
    def hook(given: Any) -> None:
        given.result = wrong

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=after(hook))
    assert run.outcome is Outcome.COMPLETED


def test_a_tool_that_fails_goes_to_the_after_hooks_as_an_error() -> None:
    seen: list[bool] = []
    result_of(fail(ValueError("no")), hooks=after(lambda given: seen.append(given.result.is_error)))
    assert seen == [True]


@settings(deadline=None, max_examples=40)
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


def test_a_trace_with_hostile_results_can_be_written() -> None:
    def tool() -> str:
        return "\ud800 \x1b[31m \x00 \u202e"

    assert encode(answer(Reply(call={"tool": {}}), tool).trace)

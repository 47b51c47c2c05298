"""Calls of a reply: whatever the model, a tool or a hook does, each gets exactly one result."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pacing import MS, nap, paced
from stopping import EARLY, EARLY_PARALLEL
from toolcalling import (
    EVERY_ORDER,
    INVALID,
    PARALLEL,
    SEQUENTIAL,
    answer,
    fail,
    result_of,
    results,
    square,
    started,
)

from simloop import (
    Callbacks,
    HookIsolation,
    Hooks,
    Limits,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScenarioError,
    Tool,
    ToolExecution,
    ToolResult,
    simulate,
)
from simloop.kernel import effects, signals, states
from simloop.kernel.machine import LegalMap, Machine, Run, Transition, finish
from simloop.kernel.signals import ModelReplied, Signal
from simloop.loops.pi import LEGAL, PiLoop
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
from simloop.scenario.replies import StreamFault
from simloop.trace import entries
from simloop.trace.codec import decode, encode
from simloop.virtual.clock.timeouts import GRACE_NS


def test_an_unknown_tool_is_an_error_result_that_names_it() -> None:
    (message,) = results(answer(Reply(call={"gone": {}})))
    assert message == ToolMessage("call-1", "Error: tool gone not found", is_error=True)


@pytest.mark.parametrize(
    "arguments",
    ["", " ", "{", '{"n": 3', "{'n': 3}", "NaN", '{"n": 3} {}', "nothing", '{"n": "\\ud800"}',
     pytest.param("[" * 100_000, id="deep")],
)  # fmt: skip
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
        prompt="Go.", model=[reply, *[Reply(say="Done.")] * bool(kinds)], tool_execution=policy
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


def before(change: Callable[[Any], None]) -> Hooks:
    return Hooks(before_tool_call=[change])


def after(change: Callable[[Any], None]) -> Hooks:
    return Hooks(after_tool_call=[change])


@pytest.mark.parametrize("arguments", [{"n": float("nan")}, {1: 2}, {"n": "x"}], ids=repr)
def test_arguments_that_a_hook_makes_wrong_are_an_error_result_and_start_no_tool(
    arguments: Any,
) -> None:
    def hook(given: Any) -> None:
        given.arguments = arguments

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    assert [message.text.startswith(INVALID) for message in results(run)] == [True]
    assert not [e for e in run.trace.entries if isinstance(e, entries.ToolStarted)]


def test_arguments_that_a_hook_changes_are_those_that_the_trace_shows_as_run() -> None:
    def hook(given: Any) -> None:
        given.arguments["n"] += 1

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    shown = [e.arguments for e in run.trace.entries if isinstance(e, entries.ToolStarted)]
    assert shown == ['{"n":4}']


@pytest.mark.parametrize(
    "arguments", [[], None, "text", {"n": object()}], ids=["list", "none", "text", "object"]
)
def test_a_hook_that_makes_no_json_of_the_arguments_counts_as_failed(arguments: Any) -> None:
    def hook(given: Any) -> None:
        given.arguments = arguments

    run = answer(Reply(call={"square": {"n": 3}}), square, hooks=before(hook))
    result = [e.result for e in run.trace.entries if isinstance(e, entries.Hook)]
    assert (result, results(run)[0].text) == (["failed"], "9")


def test_arguments_that_were_wrong_are_refused_before_a_hook_sees_them() -> None:
    seen: list[Any] = []
    calls = Reply(call=[{"square": {"n": "x"}}, {"square": {"n": 3}}])
    run = answer(calls, square, hooks=before(lambda given: seen.append(given.arguments)))
    assert seen == [{"n": 3}]
    assert [message.text.startswith(INVALID) for message in results(run)] == [True, False]


def test_a_blocked_call_is_an_error_result_with_the_reason() -> None:
    message = result_of(square, {"n": 3}, hooks=before(lambda given: given.block("not today")))
    assert message == ToolMessage("call-1", "Error: not today", is_error=True)


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


@pytest.mark.parametrize("limit", [None, 1_000])
def test_a_result_that_a_hook_replaces_stays_if_a_later_hook_ends_the_run_or_is_stopped(
    limit: int | None,
) -> None:
    def mask(given: Any) -> None:
        given.result = ToolResult("masked")

    async def spoil(given: Any) -> None:
        given.result = ToolResult("spoilt")
        await nap(5)
        raise ValueError

    scenario = Scenario(
        prompt="Go.",
        model=[Reply(call={"square": {"n": 3}})],
        limits=Limits(max_wall_clock_ms=limit),
        hook_isolation=HookIsolation(on_failure="fail-run"),
    )
    hooks = Hooks(after_tool_call=[mask, spoil])
    run = Simulation(scenario, tools=[square], hooks=hooks).run()
    told = [e.text for e in run.trace.entries if isinstance(e, entries.Answered)]
    assert (run.outcome is Outcome.COMPLETED, told) == (False, ["masked"])


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


# ------------------------------------------------------------------- a run that ends on it


def forbid(name: str) -> Hooks:
    def hook(given: Any) -> None:
        if given.call.name == name:
            given.block(f"{name} is forbidden")

    return before(hook)


TWO = Reply(call=[{"guarded": {}}, {"square": {"n": 2}}])


def guarded() -> str:
    raise AssertionError("it was run")


@EVERY_ORDER
def test_a_loop_that_ends_on_a_forbidden_call_has_its_other_calls_answered(
    policy: ToolExecution,
) -> None:
    scenario = Scenario(prompt="Go.", loop="opencode", model=[TWO], tool_execution=policy)
    run = Simulation(scenario, tools=[guarded, square], hooks=forbid("guarded")).run()
    assert (run.outcome, run.message) == (Outcome.BLOCKED, "Blocked: guarded is forbidden")
    assert [message.text for message in results(run)] == ["Error: guarded is forbidden", "4"]


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
def test_sequential_tools_take_the_sum_of_their_times(milliseconds: list[int]) -> None:
    reply, tools = timed(*milliseconds)
    assert answer(reply, *tools).elapsed_ns == sum(milliseconds) * MS


@given(waits)
def test_parallel_tools_take_the_longest_of_their_times(milliseconds: list[int]) -> None:
    reply, tools = timed(*milliseconds)
    assert answer(reply, *tools, policy=PARALLEL).elapsed_ns == max(milliseconds) * MS


@given(waits)
def test_results_of_parallel_tools_are_kept_in_the_order_of_the_calls(
    milliseconds: list[int],
) -> None:
    reply, tools = timed(*milliseconds)
    texts = [message.text for message in results(answer(reply, *tools, policy=PARALLEL))]
    assert texts == [f"result {number}" for number in range(len(milliseconds))]


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
        hook_isolation=HookIsolation(on_failure="fail-run"),
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


def test_after_a_hook_has_failed_the_run_no_sequential_tool_starts() -> None:
    def hook(_: Any) -> None:
        raise ValueError("bad hook")

    reply, tools = timed(5, 5)
    scenario = Scenario(
        prompt="Go.", model=[reply], hook_isolation=HookIsolation(on_failure="fail-run")
    )
    hooks = Hooks(after_tool_call=[hook])
    assert started(Simulation(scenario, tools=tools, hooks=hooks).run()) == ["tool-0"]


THREE = Reply(say="I count.", call=[{"square": {"n": n}} for n in (2, 3, 4)])


def answered(run: Result) -> list[tuple[str, bool, bool]]:
    """Every answer in the trace: of which call, an error or not, by its tool or not."""
    found = [entry for entry in run.trace.entries if isinstance(entry, entries.Answered)]
    return [(entry.call_id, entry.is_error, entry.ran) for entry in found]


def calls_kept(run: Result) -> list[str]:
    said = [message for message in run.messages if isinstance(message, AssistantMessage)]
    return [call.id for message in said for call in message.calls]


# ---------------------------------------------------------------------- the first one only


@EVERY_ORDER
def test_of_several_calls_a_loop_may_take_the_first_only(policy: ToolExecution) -> None:
    run = answer(THREE, square, policy=policy, loop="react")
    assert started(run) == ["square"]
    assert [message.text for message in results(run)] == ["4"]


def test_the_calls_that_it_does_not_take_are_answered_in_the_trace_and_told_to_the_callback() -> (
    None
):
    told: list[str] = []
    callbacks = Callbacks(on_tool_result=lambda call, _: told.append(call.id))
    run = answer(THREE, square, loop="react", callbacks=callbacks)
    assert answered(run) == [
        ("call-2", True, False),
        ("call-3", True, False),
        ("call-1", False, True),
    ]
    assert told == ["call-2", "call-3", "call-1"]


# ---------------------------------------------------------------------- run again after an abort

BOTH = Reply(call={"slow": {}, "quick": {}})


def stopped(loop: str | Machine, policy: ToolExecution, *, aborts_after_ms: int = 5) -> Result:
    """A run that is aborted while the first of two tools runs, by a loop that goes on with them."""

    async def slow() -> str:
        asyncio.get_running_loop().call_later(aborts_after_ms / 1_000, simulation.abort)
        return str(await nap(10, "slept"))

    async def quick() -> str:
        return str(await nap(1, "woke"))

    scenario = Scenario(prompt="Go.", model=[BOTH], tool_execution=policy)
    simulation = Simulation(scenario, tools=[slow, quick], loop=loop)
    return simulation.run()


class GoesOn(PiLoop):
    """Pi of the document, but it asks for the calls once more after an abort."""

    legal: LegalMap = {  # noqa: RUF012 - nobody changes it
        **LEGAL,
        states.RunningTools: {
            **LEGAL[states.RunningTools],
            signals.AbortRequested: frozenset({states.RunningTools}),
        },
        states.ClosingStep: {
            **LEGAL[states.ClosingStep],
            signals.AbortRequested: frozenset({states.Finished}),
        },
    }

    def advance(self, run: Run, signal: Signal) -> Transition:
        if type(run.state) is states.RunningTools and type(signal) is signals.AbortRequested:
            return run, (effects.RunTools(),)
        if type(signal) is signals.StepClosed:
            return finish(run, Outcome.ABORTED)
        return super().advance(run, signal)


def test_a_call_that_was_cut_short_is_not_started_again_and_the_others_are_run() -> None:
    run = stopped(GoesOn(), SEQUENTIAL)
    assert run.outcome is Outcome.ABORTED
    assert started(run) == ["slow", "quick"]
    assert [(message.call_id, message.text) for message in results(run)] == [
        ("call-1", "Error: not finished, it was interrupted"),
        ("call-2", "woke"),
    ]


def test_of_parallel_calls_those_that_had_returned_keep_their_results() -> None:
    run = stopped(GoesOn(), PARALLEL)
    assert started(run) == ["slow", "quick"]
    assert [message.text for message in results(run)] == [
        "Error: not finished, it was interrupted",
        "woke",
    ]


@EVERY_ORDER
@pytest.mark.parametrize("loop", ["pi@0.87.1", "pi", "reference", "opencode"])
def test_however_a_loop_takes_an_abort_every_call_has_exactly_one_result(
    loop: str, policy: ToolExecution
) -> None:
    run = stopped(loop, policy)
    assert run.outcome is Outcome.ABORTED
    assert sorted(call_id for call_id, _, _ in answered(run)) == ["call-1", "call-2"]
    assert calls_kept(run) == ["call-1", "call-2"]
    kept = [message.call_id for message in results(run)]
    begun = 1 if (loop, policy) == ("pi@0.87.1", SEQUENTIAL) else 2  # its transcript lacks the rest
    assert kept == ["call-1", "call-2"][:begun]


def test_a_loop_that_waits_for_its_tools_takes_their_results_before_it_sees_the_abort() -> None:
    run = stopped("opencode", PARALLEL)
    assert [message.text for message in results(run)] == ["slept", "woke"]
    assert run.elapsed_ns == 10_000_000


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


EITHER_ORDER = pytest.mark.parametrize(
    "policy", [EARLY, EARLY_PARALLEL], ids=["sequential", "parallel"]
)
DONE = Reply(say="Done.")
# The call arrives at 10 ms, the finish at 20 ms.
CALLS_ONE = Reply(say=["I look."], call={"look": {}}, pace=paced(per_part="10ms"))
# The calls arrive at 0 and 10 ms, the finish at 20 ms.
CALLS_TWO = Reply(call={"look": {}, "note": {}}, pace=paced(per_part="10ms"))
BREAKS = Reply(
    say="I look.", call={"look": {}}, error=StreamFault(message="busy", code="overloaded_error")
)


async def look() -> str:
    return str(await nap(40, "seen"))


async def note() -> str:
    return str(await nap(40, "noted"))


def play(*replies: Reply, tools: Any = (look, note), **fields: Any) -> Result:
    code = {name: fields.pop(name) for name in ("hooks", "callbacks") if name in fields}
    scenario = Scenario(prompt="Go.", **{"tool_execution": EARLY, **fields})
    script = iter((*replies, DONE, DONE))
    return Simulation(scenario, model=lambda _: next(script), tools=tools, **code).run()


def times(result: Result, kind: type) -> list[int]:
    return [entry.at_ns // MS for entry in result.trace.entries if isinstance(entry, kind)]


def kinds(result: Result, *wanted: type) -> list[str]:
    found = [entry for entry in result.trace.entries if isinstance(entry, wanted)]
    return [str(type(entry).__struct_config__.tag) for entry in found]


# ------------------------------------------------------------------------- time and order


def test_a_tool_starts_when_its_call_arrives() -> None:
    result = play(CALLS_ONE)
    assert times(result, entries.ToolStarted) == times(result, entries.ToolCall) == [10]


def test_a_tool_starts_after_the_reply_where_the_policy_says_so() -> None:
    assert times(play(CALLS_ONE, tool_execution=SEQUENTIAL), entries.ToolStarted) == [20]


def test_the_finish_is_recorded_as_it_arrives_and_counts_after_the_results() -> None:
    result = play(CALLS_ONE)
    shown = (entries.ToolStarted, entries.ToolResult, entries.Finish, entries.Answered)
    assert kinds(result, *shown) == [
        "tool-started", "finish", "tool-result", "answered", "finish",
    ]  # fmt: skip
    assert times(result, entries.Finish)[0] == 20
    replied = [
        entry.at_ns // MS
        for entry in result.trace.entries
        if isinstance(entry, entries.Transition) and isinstance(entry.signal, ModelReplied)
    ]
    assert replied == [50, 50]


def test_in_sequence_a_call_waits_for_the_calls_before_it() -> None:
    assert times(play(CALLS_TWO), entries.ToolStarted) == [0, 40]


def test_in_parallel_a_call_starts_when_it_arrives() -> None:
    result = play(CALLS_TWO, tool_execution=EARLY_PARALLEL)
    assert times(result, entries.ToolStarted) == times(result, entries.ToolCall) == [0, 10]


@EITHER_ORDER
def test_a_tool_has_started_before_the_next_part_if_no_time_passes(policy: Any) -> None:
    result = play(Reply(call={"look": {}, "note": {}}), tool_execution=policy)
    assert kinds(result, entries.ToolCall, entries.ToolStarted)[:2] == ["tool-call", "tool-started"]


# ------------------------------------------------------------------------- replies that go wrong


def test_a_tool_of_a_stream_that_breaks_has_run_and_the_retry_runs_it_again() -> None:
    result = play(BREAKS, Reply(call={"look": {}}))
    answers = [entry for entry in result.trace.entries if isinstance(entry, entries.Answered)]
    assert [(entry.text, entry.ran) for entry in answers] == [("seen", True)] * 2
    assert [message.text for message in results(result)] == ["seen"]


@pytest.mark.parametrize("finish", ["length", "content-filter", "error"])
def test_a_tool_that_has_run_keeps_its_result_when_the_loop_refuses_its_call(finish: str) -> None:
    result = play(Reply(say="I look.", call={"look": {}}, finish=finish))
    (message,) = results(result)
    assert (message.text, message.is_error) == ("seen", False)


@EITHER_ORDER
def test_unknown_and_invalid_calls_are_answered_as_they_come(policy: Any) -> None:
    result = play(Reply(call=[{"gone": {}}, {"look": "{"}]), tool_execution=policy)
    assert [message.text for message in results(result)] == [
        "Error: tool gone not found",
        "Error: Invalid parameters\narguments: not valid JSON",
    ]


# ------------------------------------------------------------------------- hooks


@pytest.mark.parametrize("point", ["before_tool_call", "after_tool_call"])
def test_a_hook_that_must_not_fail_ends_the_run_in_the_middle_of_the_reply(point: str) -> None:
    def fails(_: object) -> None:
        raise ValueError("no")

    reply = Reply(call={"look": {}}, pace=paced(per_part="100ms"))
    isolation = HookIsolation(on_failure="fail-run")
    result = play(reply, hooks=Hooks(**{point: [fails]}), hook_isolation=isolation)
    assert (result.outcome, times(result, entries.Finish)) == (Outcome.FAILED, [])
    assert len(results(result)) == 1


# ------------------------------------------------------------------------- errors of ours


@EITHER_ORDER
@pytest.mark.parametrize("reply", [CALLS_TWO, BREAKS], ids=["whole", "broken"])
def test_an_error_of_ours_in_a_tool_is_raised_and_leaves_no_task(policy: Any, reply: Any) -> None:
    async def wrong() -> str:
        raise ScenarioError("this tool is wrong")

    scenario = Scenario(prompt="Go.", tool_execution=policy)
    script = iter((reply, DONE))
    tools = {"look": Tool(wrong, name="look"), "note": note}
    simulation = Simulation(scenario, model=lambda _: next(script), tools=tools)

    async def main() -> int:
        with pytest.raises(ScenarioError, match="this tool is wrong"):
            await simulation.arun()
        return len(asyncio.all_tasks()) - 1

    assert simulate(main()) == 0


# ------------------------------------------------------------------------- no difference


@EVERY_ORDER
def test_without_time_the_start_makes_no_difference_to_the_transcript(policy: Any) -> None:
    early = EARLY_PARALLEL if policy is PARALLEL else EARLY
    reply = Reply(say="Now.", call={"look": {}, "note": {}})
    one, other = (answer(reply, look, note, policy=each) for each in (policy, early))
    assert (one.messages, one.message) == (other.messages, other.message)


# ------------------------------------------------------------------------- callbacks


@EITHER_ORDER
def test_on_chunk_is_given_the_results_between_the_calls_and_the_finish(policy: Any) -> None:
    heard: list[str] = []
    callbacks = Callbacks(on_chunk=lambda part: heard.append(type(part).__name__))
    play(CALLS_TWO, DONE, tool_execution=policy, callbacks=callbacks)
    assert heard[:5] == [*["ToolCallPart"] * 2, *["ToolResultPart"] * 2, "Finish"]

"""User code that fails, hangs or is cancelled stays on its side of the fence."""

import asyncio
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import pytest
from incases import in_cases

from simloop import (
    Callbacks,
    Compaction,
    HookIsolation,
    Hooks,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScenarioError,
)
from simloop.kernel.policies import OnHookFailure
from simloop.messages import Request
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.codec import encode
from simloop.virtual.clock.timeouts import GRACE_NS

MS = 1_000_000
POINTS = ("before_llm_call", "after_llm_call", "before_tool_call", "after_tool_call")
CALLBACKS = (
    "on_chunk", "on_text", "on_tool_call", "on_tool_result", "on_step_finish", "on_response",
    "on_compacted",
)  # fmt: skip
PAD = "word " * 40
COMPACTS = Compaction(window=130, trigger_percent=80, target_percent=60, keep_turns=1)

at_each_point = in_cases(POINTS)
in_each_callback = in_cases(CALLBACKS)


class Unreadable(Exception):  # noqa: N818 - it is the message that is wrong with it
    def __str__(self) -> str:
        raise ValueError("no message")


def play(
    policy: OnHookFailure = OnHookFailure.ISOLATE, timeout_ms: int = 50, **code: Any
) -> Result:
    """Two tool rounds, a compaction, an answer: all hooks and callbacks are called."""
    rounds = iter([Reply(say=[PAD], call={"look": {}})] * 2 + [Reply(say="Done.")])

    def model(request: Request) -> Reply:
        return Reply(say="Looked.") if request.purpose == "summary" else next(rounds)

    scenario = Scenario(
        prompt="Go.",
        compaction=COMPACTS,
        hook_isolation=HookIsolation(on_failure=policy, timeout_ms=timeout_ms),
    )
    return Simulation(scenario, model=model, tools={"look": lambda: "seen"}, **code).run()


def hooked(point: str, hook: Callable[..., Any], **options: Any) -> Result:
    return play(hooks=Hooks(**{point: [hook]}), **options)


def watched(name: str, callback: Callable[..., Any]) -> Result:
    return play(callbacks=Callbacks(**{name: callback}))


def hook_entries(result: Result) -> list[entries.Hook]:
    return [entry for entry in result.trace.entries if isinstance(entry, entries.Hook)]


def raises(error: BaseException) -> Callable[..., Any]:
    def fails(*_: object) -> None:
        raise error

    return fails


def raises_later(error: BaseException) -> Callable[..., Any]:
    async def fails(*_: object) -> None:
        await asyncio.sleep(0.001)
        raise error

    return fails


def waits(milliseconds: float) -> Callable[..., Any]:
    async def hook(*_: object) -> None:
        await asyncio.sleep(milliseconds / 1_000)

    return hook


async def sleeps_on(*_: object) -> None:
    try:
        await asyncio.sleep(1)
    except asyncio.CancelledError:
        await asyncio.sleep(3_600)


@cache
def undisturbed() -> Result:
    return play()


def clears(given: Any) -> None:
    given.__dict__.clear()


def overwrites(given: Any) -> None:
    for name in vars(given):
        setattr(given, name, 5)


FAILURES = {
    "raises": raises(ValueError("no")),
    "async": raises_later(ValueError("no")),
    "cancels": raises(asyncio.CancelledError()),
    "async cancels": raises_later(asyncio.CancelledError()),
    "unreadable": raises(Unreadable()),
    "stops": raises(StopIteration()),
    "hangs": waits(60),
    "clears": clears,
    "overwrites": overwrites,
}


# ------------------------------------------------------------------------- isolation policies


@in_cases(product(POINTS, FAILURES))
def test_isolated_a_failing_hook_changes_nothing_in_the_transcript(
    point: str, failure: str
) -> None:
    assert hooked(point, FAILURES[failure]).messages == undisturbed().messages


@at_each_point
def test_a_run_that_a_hook_fails_says_which_and_why(point: str) -> None:
    result = hooked(point, raises(ValueError("no")), policy=OnHookFailure.FAIL_RUN)
    assert result.message == "Error: hook fails: ValueError: no"


@at_each_point
def test_after_a_hook_has_failed_the_run_the_hooks_behind_it_do_not_run(point: str) -> None:
    seen: list[Any] = []
    hooks = Hooks(**{point: [raises(ValueError("no")), seen.append]})
    play(OnHookFailure.FAIL_RUN, hooks=hooks)
    assert seen == []


@in_cases(FAILURES)
def test_a_failing_hook_may_block_the_model_call(failure: str) -> None:
    result = hooked("before_llm_call", FAILURES[failure], policy=OnHookFailure.BLOCK_CALL)
    assert result.outcome is Outcome.BLOCKED


@in_cases(FAILURES)
def test_a_failing_hook_may_block_the_tool_call(failure: str) -> None:
    result = hooked("before_tool_call", FAILURES[failure], policy=OnHookFailure.BLOCK_CALL)
    assert [e for e in result.trace.entries if isinstance(e, entries.ToolStarted)] == []


@pytest.mark.parametrize("point", ["after_llm_call", "after_tool_call"])
def test_where_there_is_no_call_to_block_a_failure_is_isolated(point: str) -> None:
    result = hooked(point, raises(ValueError("no")), policy=OnHookFailure.BLOCK_CALL)
    assert result.outcome is Outcome.COMPLETED


@at_each_point
def test_a_hook_finds_all_that_a_failed_one_has_removed(point: str) -> None:
    seen: dict[str, set[str]] = {"first": set(), "last": set()}

    def first(given: Any) -> None:
        seen["first"] |= {name for name in dir(given) if getattr(given, name, None) is not None}

    def last(given: Any) -> None:
        seen["last"] |= {name for name in dir(given) if getattr(given, name, None) is not None}

    play(hooks=Hooks(**{point: [first, clears, last]}))
    assert seen["first"] == seen["last"]


@at_each_point
def test_a_failure_is_recorded_with_point_name_and_cause(point: str) -> None:
    hook = hook_entries(hooked(point, raises(ValueError("no"))))[0]
    assert (hook.point, hook.hook, hook.result, hook.detail) == (
        point, "fails", "failed", "ValueError: no"
    )  # fmt: skip


def test_an_isolated_hook_that_fails_leaves_no_half_made_change_of_the_request() -> None:
    def hook(given: Any) -> None:
        given.system_prompt = "half made"
        raise ValueError("no")

    result = hooked("before_llm_call", hook)
    sent = [e.system_prompt for e in result.trace.entries if isinstance(e, entries.Request)]
    assert "half made" not in sent


def test_an_isolated_hook_that_fails_leaves_no_half_made_change_of_the_result() -> None:
    def hook(given: Any) -> None:
        given.result = type(given.result)("half made")
        raise ValueError("no")

    result = hooked("after_tool_call", hook)
    assert "half made" not in [message.text for message in result.messages]


# ------------------------------------------------------------------------- timeouts


@at_each_point
def test_a_hook_that_hangs_costs_its_timeout(point: str) -> None:
    hook = hook_entries(hooked(point, waits(3_600_000)))[0]
    assert (hook.result, hook.took_ns) == ("timed-out", 50 * MS)


@at_each_point
def test_a_hook_that_sleeps_on_after_its_timeout_costs_no_more_than_the_grace(point: str) -> None:
    assert hook_entries(hooked(point, sleeps_on))[0].took_ns <= 50 * MS + GRACE_NS


@at_each_point
def test_a_hook_that_answers_its_timeout_with_an_exception_counts_as_failed(point: str) -> None:
    async def hook(_: Any) -> None:
        try:
            await asyncio.sleep(1)
        finally:
            raise ValueError("cannot clean up")

    assert hook_entries(hooked(point, hook))[0].result in {"failed", "timed-out"}


# ------------------------------------------------------------------------- callbacks


@in_cases(product(CALLBACKS, FAILURES))
def test_a_failing_callback_changes_nothing_in_the_transcript(name: str, failure: str) -> None:
    assert watched(name, FAILURES[failure]).messages == undisturbed().messages


@in_each_callback
def test_a_failing_callback_is_recorded_by_its_name(name: str) -> None:
    recorded = watched(name, raises(ValueError("no"))).trace.entries
    failure = next(e for e in recorded if isinstance(e, entries.Callback))
    assert (failure.callback, failure.detail) == (name, "ValueError: no")


@in_each_callback
def test_a_callback_that_hangs_costs_its_timeout(name: str) -> None:
    calls = 0

    async def hangs_once(*_: object) -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(3_600 if calls == 1 else 0)

    assert watched(name, hangs_once).elapsed_ns == 50 * MS


@in_each_callback
def test_a_callback_cannot_fail_the_run_by_policy(name: str) -> None:
    callbacks = Callbacks(**{name: raises(ValueError("no"))})
    assert play(OnHookFailure.FAIL_RUN, callbacks=callbacks).outcome is Outcome.COMPLETED


@in_each_callback
def test_what_a_callback_returns_is_ignored(name: str) -> None:
    assert watched(name, lambda *_: "something").messages == undisturbed().messages


# ------------------------------------------------------------------------- what is not isolated


@in_cases(product(POINTS, (KeyboardInterrupt, SystemExit)))
def test_what_ends_the_program_is_no_failure_of_a_hook(
    point: str, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        hooked(point, raises(error()))


@at_each_point
def test_an_error_of_ours_in_a_hook_is_raised_as_it_is(point: str) -> None:
    with pytest.raises(ScenarioError, match="the author is wrong"):
        hooked(point, raises(ScenarioError("the author is wrong")))


# ------------------------------------------------------------------------- words


def test_a_trace_with_a_hostile_system_prompt_can_be_written() -> None:
    def hook(given: Any) -> None:
        given.system_prompt = "\ud800"

    assert encode(hooked("before_llm_call", hook).trace)


@pytest.mark.parametrize("fail", [raises, raises_later])
def test_an_error_of_ours_in_a_callback_is_raised_as_it_is(fail: Callable[..., Any]) -> None:
    with pytest.raises(ScenarioError, match="the author is wrong"):
        watched("on_text", fail(ScenarioError("the author is wrong")))


@pytest.mark.parametrize("point", ["before_llm_call", "before_tool_call"])
def test_a_trace_with_a_hostile_reason_for_blocking_can_be_written(point: str) -> None:
    assert encode(hooked(point, lambda given: given.block("\ud800")).trace)


@at_each_point
def test_hooks_are_some_exactly_if_there_is_one_at_any_point(point: str) -> None:
    assert Hooks(**{point: [print]})
    assert not Hooks(**{point: []})

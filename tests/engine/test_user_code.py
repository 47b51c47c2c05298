"""User code that fails, hangs or is cancelled stays on its side of the fence."""

import asyncio
from collections.abc import Callable
from copy import copy
from functools import cache
from itertools import product
from typing import Any

import pytest
from incases import in_cases
from pacing import nap

from simloop import (
    Callbacks,
    CheckFailed,
    Compaction,
    HookExecution,
    HookIsolation,
    Hooks,
    Outcome,
    Reply,
    Result,
    Scenario,
    ScenarioError,
    ToolResult,
    Trigger,
    independent,
)
from simloop.kernel.policies import OnHookFailure
from simloop.messages import Request, ToolMessage
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.codec import encode
from simloop.virtual.clock.timeouts import GRACE_NS
from simloop.world.user_functions import UserFunction

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


def play(policy: OnHookFailure = "isolate", timeout_ms: int = 50, **code: Any) -> Result:
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


def overwrites(given: Any) -> None:
    for name in [each for each in vars(given) if each[0] != "_"]:
        setattr(given, name, 5)


FAILURES = {
    "raises": raises(ValueError("no")),
    "async": raises_later(ValueError("no")),
    "cancels": raises(asyncio.CancelledError()),
    "async cancels": raises_later(asyncio.CancelledError()),
    "unreadable": raises(Unreadable()),
    "stops": raises(StopIteration()),
    "hangs": waits(60),
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
    result = hooked(point, raises(ValueError("no")), policy="fail-run")
    assert result.message == "Error: hook fails: ValueError: no"


@at_each_point
def test_after_a_hook_has_failed_the_run_the_hooks_behind_it_do_not_run(point: str) -> None:
    seen: list[Any] = []
    hooks = Hooks(**{point: [raises(ValueError("no")), seen.append]})
    play("fail-run", hooks=hooks)
    assert seen == []


@in_cases(FAILURES)
def test_a_failing_hook_may_block_the_model_call(failure: str) -> None:
    result = hooked("before_llm_call", FAILURES[failure], policy="block-call")
    assert result.outcome is Outcome.BLOCKED


@in_cases(FAILURES)
def test_a_failing_hook_may_block_the_tool_call(failure: str) -> None:
    result = hooked("before_tool_call", FAILURES[failure], policy="block-call")
    assert [e for e in result.trace.entries if isinstance(e, entries.ToolStarted)] == []


@pytest.mark.parametrize("point", ["after_llm_call", "after_tool_call"])
def test_where_there_is_no_call_to_block_a_failure_is_isolated(point: str) -> None:
    result = hooked(point, raises(ValueError("no")), policy="block-call")
    assert result.outcome is Outcome.COMPLETED


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
    assert play("fail-run", callbacks=callbacks).outcome is Outcome.COMPLETED


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


BLOCKABLE = ("before_llm_call", "before_tool_call")

at_each_blockable_point = in_cases(BLOCKABLE)


def alone(name: str, act: Callable[[Any], None] | None = None, ms: float = 0) -> UserFunction:
    """Return a hook that acts, and then waits."""

    def at_once(given: Any) -> None:
        if act is not None:
            act(given)

    async def waits(given: Any) -> None:
        at_once(given)
        await nap(ms)

    return UserFunction(waits if ms else at_once, name)


def hook(name: str, act: Callable[[Any], None] | None = None, ms: float = 0) -> UserFunction:
    """Return such a hook with the mark."""
    return UserFunction(independent(alone(name, act, ms).function), name)


def block(reason: str) -> Callable[[Any], None]:
    return lambda given: given.block(reason)


def fail(_: Any) -> None:
    raise ValueError("no")


def play_hooks(
    point: str, *hooks: Any, order: Any = "parallel", on_failure: Any = "isolate", **settings: Any
) -> Result:
    """One call of a tool and an answer, with the hooks at one point."""
    replies = iter([Reply(call={"look": {"n": 1}}), Reply(say="Done.")])
    scenario = Scenario(
        prompt="Go.",
        hook_execution=HookExecution(order=order),
        hook_isolation=HookIsolation(on_failure=on_failure, timeout_ms=5_000),
        **settings,
    )
    at_point = Hooks(**{point: list(hooks)})
    return Simulation(scenario, model=lambda _: next(replies), tools=[look], hooks=at_point).run()


def look(n: int) -> str:
    return f"seen {n}"


def logged(result: Result) -> list[entries.Hook]:
    return [entry for entry in result.trace.entries if isinstance(entry, entries.Hook)]


def told(result: Result) -> list[str]:
    """Return the results that the model gets."""
    return [message.text for message in result.messages if isinstance(message, ToolMessage)]


def first(result: Result, count: int) -> list[tuple[str, str]]:
    return [(entry.hook, entry.result) for entry in logged(result)[:count]]


# ------------------------------------------------------------------------- time and order


@at_each_point
def test_three_hooks_of_a_second_take_a_second(point: str) -> None:
    three = [hook(name, ms=1_000) for name in "abc"]
    result = play_hooks(point, *three)
    calls = len(logged(result)) // 3
    assert result.elapsed_ns == calls * 1_000 * MS
    assert {entry.took_ns for entry in logged(result)} == {1_000 * MS}


@at_each_point
def test_without_the_policy_the_mark_has_no_effect(point: str) -> None:
    three = [hook(name, ms=1_000) for name in "abc"]
    marked = play_hooks(point, *three, order="sequential")
    plain = play_hooks(point, *(alone(h.name, ms=1_000) for h in three), order="sequential")
    assert marked.trace.entries == plain.trace.entries


def test_each_hook_is_recorded_when_it_ends() -> None:
    waits = {"slow": 300, "fast": 100, "middle": 200}
    hooks = [hook(name, ms=ms) for name, ms in waits.items()]
    ends = [(e.hook, e.at_ns, e.took_ns) for e in logged(play_hooks("before_llm_call", *hooks))[:3]]
    assert ends == [
        (name, waits[name] * MS, waits[name] * MS) for name in ("fast", "middle", "slow")
    ]


def test_a_hook_without_the_mark_runs_alone_in_its_place() -> None:
    first_two = [hook("a", ms=1_000), hook("b", ms=500)]
    hooks = [*first_two, alone("alone", ms=1_000), hook("c", ms=500), hook("d", ms=1_000)]
    ends = [(e.hook, e.at_ns // MS) for e in logged(play_hooks("before_llm_call", *hooks))[:5]]
    assert ends == [("b", 500), ("a", 1_000), ("alone", 2_000), ("c", 2_500), ("d", 3_000)]


# ------------------------------------------------------------------------- inputs and changes

CHANGES: dict[str, tuple[str, Callable[[Any], None]]] = {
    "system_prompt": ("before_llm_call", lambda given: setattr(given, "system_prompt", "Mine.")),
    "tools": ("before_llm_call", lambda given: given.tools.clear()),
    "arguments": ("before_tool_call", lambda given: given.arguments.update(n=2)),
    "result": ("after_tool_call", lambda given: setattr(given, "result", ToolResult("mine"))),
}


@in_cases(CHANGES)
def test_a_change_is_a_failure_of_its_hook_and_is_undone(name: str) -> None:
    point, change = CHANGES[name]
    seen: list[Any] = []
    spies = [
        UserFunction(independent(lambda given: seen.append(copy(getattr(given, name)))), "beside"),
        UserFunction(lambda given: seen.append(copy(getattr(given, name))), "after"),
    ]
    result = play_hooks(point, hook("changes", change, ms=5), *spies)
    refused = next(entry for entry in logged(result) if entry.hook == "changes")
    says = f"TypeError: an independent hook may not change `{name}`: remove the mark"
    assert (refused.result, refused.detail, refused.changed) == ("failed", says, ())
    assert result.messages == play_hooks(point).messages
    assert seen[0] == seen[1]


@in_cases(CHANGES)
def test_without_the_policy_an_independent_hook_may_change(name: str) -> None:
    point, change = CHANGES[name]
    entry = logged(play_hooks(point, hook("changes", change), order="sequential"))[0]
    assert (entry.result, entry.changed) == ("ok", (name,))


@in_cases(["before_tool_call", "after_tool_call"])
def test_no_hook_sees_what_another_one_does_to_its_input(point: str) -> None:
    seen: list[dict[str, int]] = []
    hooks = [
        hook("changes", lambda given: given.arguments.update(n=2), ms=10),
        hook("reads", lambda given: seen.append(dict(given.arguments))),
    ]
    play_hooks(point, *hooks)
    assert seen == [{"n": 1}]


# ------------------------------------------------------------------------- blocks and failures


@at_each_blockable_point
def test_the_first_in_the_list_that_blocks_decides_and_the_stretch_ends_first(point: str) -> None:
    hooks = [
        hook("reads", ms=300),
        hook("slow", block("slow"), ms=200),
        hook("fast", block("fast"), ms=100),
    ]
    result = play_hooks(point, *hooks, alone("later"))
    logs = [("fast", "blocked"), ("slow", "blocked"), ("reads", "ok")]
    assert first(result, 4) == logs
    shown = result.message if point == "before_llm_call" else told(result)[0]
    assert "slow" in shown
    assert "fast" not in shown


@in_cases(["before_tool_call", "after_tool_call"])
def test_a_failure_may_answer_the_call(point: str) -> None:
    async def late(_: Any) -> None:
        await nap(20)
        raise ValueError("late")

    hooks = [UserFunction(independent(late), "late"), hook("fails", fail)]
    result = play_hooks(point, *hooks, alone("later"), on_failure="error-result")
    assert told(result) == ["Error: late"]
    assert first(result, 9) == [("fails", "failed"), ("late", "failed")]


def test_each_hook_has_a_timeout_of_its_own() -> None:
    hooks = [hook("hangs", ms=60_000), hook("reads", ms=4_000), hook("hangs too", ms=60_000)]
    result = play_hooks("after_llm_call", *hooks)
    ends = [(e.hook, e.result, e.took_ns // MS) for e in logged(result)[:3]]
    assert ends == [
        ("reads", "ok", 4_000), ("hangs", "timed-out", 5_000), ("hangs too", "timed-out", 5_000)
    ]  # fmt: skip


# ------------------------------------------------------------------------- the end of a run


def tracked(name: str, left: list[str], ms: float = 60_000) -> UserFunction:
    """Return an independent hook that notes when it has left its wait."""

    async def waits(_: Any) -> None:
        try:
            await nap(ms)
        finally:
            left.append(name)

    return UserFunction(independent(waits), name)


@at_each_point
def test_a_failure_that_ends_the_run_cancels_the_others(point: str) -> None:
    left: list[str] = []

    async def fails(_: Any) -> None:
        await nap(100)
        raise ValueError("no")

    hooks = [tracked("a", left), UserFunction(independent(fails), "fails"), tracked("b", left)]
    result = play_hooks(point, *hooks, on_failure="fail-run")
    assert (result.outcome, result.message) == (
        Outcome.FAILED, "Error: hook fails: ValueError: no"
    )  # fmt: skip
    assert first(result, 9) == [("fails", "failed")]
    assert (sorted(left), result.elapsed_ns) == (["a", "b"], 100 * MS)


@at_each_point
def test_an_abort_among_hooks_cancels_them_all(point: str) -> None:
    left: list[str] = []
    abort = Trigger.model_validate({"at": "1500ms"})
    hooks = [tracked("short", left, 1_000), tracked("a", left, 4_000), tracked("b", left, 4_000)]
    result = play_hooks(point, *hooks, abort=abort)
    assert (result.outcome, result.elapsed_ns) == (Outcome.ABORTED, 1_500 * MS)
    assert (left, first(result, 9)) == (["short", "a", "b"], [("short", "ok")])


def test_a_hook_that_goes_on_when_it_is_cancelled_is_waited_for() -> None:
    left: list[str] = []

    async def goes_on(_: Any) -> None:
        try:
            await nap(60_000)
        except asyncio.CancelledError:
            await nap(200)
            left.append("gone on")

    abort = Trigger.model_validate({"at": "1s"})
    result = play_hooks(
        "before_llm_call", UserFunction(independent(goes_on)), hook("b"), abort=abort
    )
    assert (left, result.outcome, result.elapsed_ns) == (
        ["gone on"], Outcome.ABORTED, 1_200 * MS
    )  # fmt: skip


@at_each_point
def test_a_hook_that_cancels_its_own_task_ends_the_run_as_it_does_alone(point: str) -> None:
    async def cancels(_: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await nap(1)

    for order in ("sequential", "parallel"):
        with pytest.raises(CheckFailed, match="cancelled the task"):
            play_hooks(point, hook("a"), UserFunction(independent(cancels)), order=order)


def test_a_hook_that_forbids_the_call_outranks_one_that_answers_it_by_its_failure() -> None:
    hooks = [hook("fails", fail), hook("blocks", block("mine"))]
    result = play_hooks("before_tool_call", *hooks, on_failure="error-result")
    assert told(result) == ["Error: mine"]


def test_what_a_hook_changes_is_seen_by_independent_hooks_after_it_and_by_none_before() -> None:
    seen: list[int] = []

    def double(given: Any) -> None:
        given.arguments["n"] = 2

    reads = [hook(name, lambda given: seen.append(given.arguments["n"]), ms=5) for name in "ab"]
    result = play_hooks("before_tool_call", *reads, UserFunction(double), *reads)
    assert (seen, told(result)) == ([1, 1, 2, 2], ["seen 2"])

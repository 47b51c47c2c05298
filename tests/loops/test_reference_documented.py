"""The mends of the reference loop: each with its effect, and without it."""

from dataclasses import fields, replace
from typing import Any

import pytest
from builders import counters_of

from simloop import (
    Callbacks,
    Expect,
    Hooks,
    Http,
    Limits,
    Outcome,
    Reply,
    Result,
    Scenario,
    ToolExecution,
    run,
)
from simloop.loops.reference import DOCUMENTED, VERSIONS, ReferenceOptions
from simloop.messages import AssistantMessage, UserMessage
from simloop.scenario.designs import LoopOptions
from simloop.scenario.replies import StreamFault
from simloop.scenario.schema import Context, Queued, ScriptedTool, Trigger
from simloop.trace import entries

SECOND = 10**9
DONE = Reply(say="Done.")
LOOK = Reply(say="I look.", call={"look": {}})
EMPTY = Reply(finish="stop")
TOOLS = {"look": ScriptedTool(returns="seen", takes="1s"), "fail": ScriptedTool(raises="no disk")}
LOST = Reply(say="I look.", call={"look": {}}, error=StreamFault(message="busy", code="api_error"))
FILLED = Context(over=[False], shrunk=[True])


def without(mend: str, *model: Reply, **fields: Any) -> Result:
    """A run of the reference loop without one of its mends; "" is with all, "all" without any."""
    code = {name: fields.pop(name) for name in ("hooks", "callbacks", "tools") if name in fields}
    options = DOCUMENTED if mend == "all" else ReferenceOptions()
    if mend not in {"", "all"}:
        options = replace(options, **{mend: False})
    scenario = Scenario(
        prompt="Go.",
        tools=TOOLS,
        model=[*model, Reply(say="More.", times="always")],
        loops=LoopOptions(reference=options),
        expect=Expect(unused=1, outcome=None),
        **fields,
    )
    return run(scenario, **code)


def both(mend: str) -> pytest.MarkDecorator:
    """Run a test without one mend and without all of them: they give the documented behaviour."""
    return pytest.mark.parametrize("mend", [mend, "all"])


def requests(result: Result) -> int:
    return len(result.requests)


def ran(result: Result) -> list[str]:
    return [e.name for e in result.trace.entries if isinstance(e, entries.ToolStarted)]


def roles(result: Result) -> str:
    return " ".join(str(type(m).__struct_config__.tag) for m in result.messages)


def test_the_documented_loop_has_no_mend_and_the_reference_loop_has_all() -> None:
    mends = [field.name for field in fields(ReferenceOptions)]
    assert not any(getattr(DOCUMENTED, mend) for mend in mends)
    assert all(getattr(ReferenceOptions(), mend) for mend in mends)
    assert VERSIONS == {"documented": DOCUMENTED}


@both("calls_go_on")
def test_without_its_mend_a_stop_with_calls_ends_the_run(mend: str) -> None:
    stops = Reply(say="I look.", call={"look": {}}, finish="stop")
    assert requests(without("", stops)) == 2
    result = without(mend, stops)
    assert (requests(result), ran(result), result.message) == (1, ["look"], "I look.")


@both("tools_after_reply")
def test_without_its_mend_a_tool_has_run_when_its_stream_breaks(mend: str) -> None:
    assert ran(without("", LOST)) == []
    assert ran(without(mend, LOST)) == ["look"]


@both("refuse_cut_calls")
@pytest.mark.parametrize("finish", ["length", "content-filter", "error"])
def test_without_its_mend_the_calls_of_a_cut_reply_run(mend: str, finish: str) -> None:
    cut = Reply(say="I look.", call={"look": {}}, finish=finish)
    assert ran(without("", cut, context=FILLED)) == []
    assert ran(without(mend, cut, context=FILLED)) == ["look"]


@both("missing_calls_fail")
def test_without_its_mend_announced_calls_that_are_missing_go_on_to_max_steps(mend: str) -> None:
    endless = Reply(say="I look.", finish="tool-calls", times="always")
    limits = Limits(max_steps=9, max_error_count=3)
    mended = without("", endless, limits=limits)
    assert (mended.outcome, requests(mended)) == (Outcome.TOO_MANY_ERRORS, 3)
    result = without(mend, endless, limits=limits)
    assert (result.outcome, requests(result)) == (Outcome.MAX_STEPS, 9)


@both("empty_reply_fails")
def test_without_its_mend_an_empty_reply_completes_the_run(mend: str) -> None:
    assert without("", EMPTY).message == "More."
    result = without(mend, EMPTY)
    assert (result.outcome, requests(result)) == (Outcome.COMPLETED, 1)


@both("unfinished_fails")
def test_without_its_mend_a_stream_without_a_finish_completes_the_run(mend: str) -> None:
    broken = Reply(say="I wi", unfinished=True)
    assert without("", broken).message == "More."
    result = without(mend, broken)
    assert (result.outcome, result.message) == (Outcome.COMPLETED, "I wi")
    assert roles(result) == "user assistant"


@both("drop_unused_text")
def test_without_its_mend_a_request_ends_with_the_text_that_was_cut_off(mend: str) -> None:
    cut = Reply(say="Once upon", finish="length")
    sent = [result.requests[1].messages[-1] for result in (
        without("", cut, context=FILLED), without(mend, cut, context=FILLED)
    )]  # fmt: skip
    assert [type(message) for message in sent] == [UserMessage, AssistantMessage]


@both("steps_bound_all")
def test_without_its_mend_only_tool_calls_heed_max_steps(mend: str) -> None:
    cut = Reply(say="Once upon", finish="length")
    limits = Limits(max_steps=1)
    assert without("", cut, context=FILLED, limits=limits).outcome is Outcome.MAX_STEPS
    assert without(mend, cut, context=FILLED, limits=limits).outcome is Outcome.COMPLETED
    assert without(mend, LOOK, limits=limits).outcome is Outcome.MAX_STEPS


@both("bound_bursts")
def test_without_its_mend_one_reply_may_report_any_number_of_steps(mend: str) -> None:
    burst = Reply(say="I look.", call={"look": {}}, steps=21)
    assert without("", burst).limit == "max_steps_per_round"
    assert without(mend, burst).outcome is Outcome.COMPLETED


@both("count_tries")
def test_without_its_mend_a_compaction_that_gains_nothing_is_not_counted(mend: str) -> None:
    full = Context(over=[True], shrunk=[False])
    limits = Limits(max_compaction_attempts=1)
    tries = [
        sum(isinstance(e, entries.Compaction) for e in result.trace.entries)
        for result in (
            without("", LOOK, LOOK, context=full, limits=limits),
            without(mend, LOOK, LOOK, context=full, limits=limits),
        )
    ]
    assert tries == [1, 3]


@both("overflow_compacts")
def test_without_its_mend_an_overflow_is_an_error_like_any_other(mend: str) -> None:
    overflow = Reply(http=Http(status=400, code="context_length_exceeded"))
    assert without("", overflow, context=FILLED).outcome is Outcome.COMPLETED
    assert without(mend, overflow, context=FILLED).outcome is Outcome.FAILED


@both("classify_errors")
@pytest.mark.parametrize(
    ("reply", "mended", "documented"),
    [
        (Reply(http=Http(status=429, code="insufficient_quota")), 1, 2),
        (Reply(http=Http(status=529)), 2, 1),
        (Reply(http=Http(status=503)), 2, 2),
        (Reply(lost="before-headers"), 2, 1),
        (Reply(http=Http(status=401)), 1, 1),
    ],
    ids=["quota", "529", "503", "lost", "401"],
)
def test_without_its_mend_an_error_is_retried_by_its_status(
    mend: str, reply: Reply, mended: int, documented: int
) -> None:
    assert requests(without("", reply)) == mended
    assert requests(without(mend, reply)) == documented


@both("honour_retry_after")
def test_without_its_mend_retry_after_is_ignored(mend: str) -> None:
    limited = Reply(http=Http(status=429, retry_after="5s"))
    assert without("", limited).elapsed_ns == 5 * SECOND
    result = without(mend, limited)
    assert result.elapsed_ns == 2 * SECOND
    (backoff,) = [e for e in result.trace.entries if isinstance(e, entries.Backoff)]
    assert not backoff.retry_after


@both("abort_in_backoff")
def test_without_its_mend_an_abort_waits_for_the_end_of_the_backoff(mend: str) -> None:
    abort = Trigger(at="500ms")
    limited = Reply(http=Http(status=429))
    mended = without("", limited, abort=abort)
    assert (mended.outcome, mended.elapsed_ns, requests(mended)) == (
        Outcome.ABORTED, SECOND // 2, 1,
    )  # fmt: skip
    result = without(mend, limited, abort=abort)
    assert (result.outcome, result.elapsed_ns, requests(result)) == (
        Outcome.ABORTED, 2 * SECOND, 2,
    )  # fmt: skip
    assert result.message == "Request aborted."


@both("keep_stopped_step")
def test_without_its_mend_nothing_of_an_aborted_step_stays_in_the_context(mend: str) -> None:
    abort = Trigger(after="tool-started")
    assert roles(without("", LOOK, abort=abort)) == "user assistant tool"
    result = without(mend, LOOK, abort=abort)
    assert (roles(result), result.text) == ("user", "I look.")


@both("take_queue")
def test_without_its_mend_a_queued_message_is_the_next_prompt(mend: str) -> None:
    queue = [Queued(after="request", say="And?")]
    assert without("", LOOK, DONE, queue=queue).outcomes == (Outcome.COMPLETED,)
    result = without(mend, LOOK, DONE, queue=queue)
    assert result.outcomes == (Outcome.COMPLETED, Outcome.COMPLETED)
    assert roles(result) == "user assistant tool assistant user assistant"


@both("report_failed_tools")
def test_without_its_mend_hooks_and_callbacks_hear_of_no_failed_tool(mend: str) -> None:
    def heard_by(options: str) -> list[str]:
        heard: list[str] = []
        without(
            options,
            Reply(call=[{"fail": {}}, {"gone": {}}]),
            hooks=Hooks(after_tool_call=[lambda given: heard.append(f"hook {given.call.name}")]),
            callbacks=Callbacks(on_tool_result=lambda call, _: heard.append(call.name)),
        )
        return heard

    assert heard_by("") == ["hook fail", "fail", "gone"]
    assert heard_by(mend) == []


@both("report_early_end")
@pytest.mark.parametrize(
    ("finish", "words", "without_text"),
    [
        ("content-filter", "Content filtered.", "Content filtered."),
        ("error", "Task failed.", "Task failed."),
        ("length", "Context limit reached.", "Context limit reached."),
    ],
)
def test_without_its_mend_the_user_is_told_the_text_of_a_run_that_ended_early(
    mend: str, finish: str, words: str, without_text: str
) -> None:
    early = Reply(say="Once upon", finish=finish)
    limits = Limits(max_compaction_attempts=0)
    assert without("", early, limits=limits).message == words
    result = without(mend, early, limits=limits)
    assert (result.message, result.outcome is Outcome.COMPLETED) == ("Once upon", False)
    assert without(mend, Reply(finish=finish), limits=limits).message == without_text


@both("isolate_hooks")
def test_without_its_mend_a_hook_that_fails_ends_the_run(mend: str) -> None:
    def fails(_: object) -> None:
        raise ValueError("no")

    hooks = Hooks(before_llm_call=[fails])
    assert without("", DONE, hooks=hooks).outcome is Outcome.COMPLETED
    result = without(mend, DONE, hooks=hooks)
    assert (result.outcome, result.message) == (Outcome.FAILED, "Error: hook fails: ValueError: no")


def test_a_scenario_s_own_policies_beat_those_of_the_documented_loop() -> None:
    result = without("all", LOST, tool_execution=ToolExecution(start="after-reply"))
    assert ran(result) == []


@pytest.mark.parametrize("mend", ["", "all"])
def test_an_abort_error_of_an_sdk_without_an_abort_ends_the_run_as_aborted(mend: str) -> None:
    """Documents 000/002 section 7: the first test is on the error, and not on the signal."""
    lost = Reply(error=StreamFault(message="The operation was aborted.", code="aborted"))
    result = without(mend, lost)
    assert (result.outcome, result.message) == (Outcome.ABORTED, "Request aborted.")
    assert (requests(result), counters_of(result).error_count) == (1, 0)


def test_a_model_function_that_raises_its_sdks_abort_error_ends_the_run_as_aborted() -> None:
    class AbortError(Exception):
        pass

    def model(_: object) -> Reply:
        raise AbortError

    assert run(Scenario(prompt="Go.", expect=Expect(outcome="aborted")), model=model).outcome is (
        Outcome.ABORTED
    )

"""Each invariant of the oracle is violated by the record of an engine with one fault."""

from typing import Any

import msgspec
import pytest
from faultyruns import (
    DONE,
    LOOK,
    Edit,
    changed,
    doubled,
    dropped,
    inserted,
    later,
    place,
    scenario,
    sending,
    swapped,
    violated,
)

from simloop import Scenario
from simloop.engine import tool_calls
from simloop.kernel import signals
from simloop.kernel.errorclass import ErrorClass
from simloop.messages import Counters, Message, UserMessage
from simloop.trace.entries import (
    Answered,
    Backoff,
    CallBegun,
    Compaction,
    Ended,
    Hook,
    Request,
    StopRequested,
    ToolResult,
    ToolStarted,
    Transition,
)
from simloop.world.tools import read_arguments as read

BEFORE = [{"at": "before_llm_call", "name": "one"}, {"at": "before_llm_call", "name": "two"}]
TOOL = [{"at": "before_tool_call", "name": "one"}, {"at": "before_tool_call", "name": "two"}]
AFTER = [{"at": "after_tool_call", "name": "one"}, {"at": "after_tool_call", "name": "two"}]
READS = {"look": {"returns": "seen", "parameters": {"path": "string?"}}}
FAILS = [{"at": "before_tool_call", "arguments": {"path": "b"}, "hangs": True, "waits": "after"}]
PROMPTS = [{"at": "before_llm_call", "system_prompt": "Mine.", "hangs": True, "waits": "after"}]
TWICE = {"call": [LOOK.call, LOOK.call]}
VETO = [{"at": "before_tool_call", "block": "no"}]
LATE = [{"at": "after_tool_call", "result": "late", "hangs": True, "waits": "after"}]
ADDS = [{"at": "before_llm_call", "add_tools": {"write": {"returns": "written"}}}]
RAISES = [{"at": "after_tool_call", "raises": "broken"}]
PARALLEL = {"order": "parallel"}
SECOND = 1_000_000_000


def with_a_forbidden_tool(record: list[Any]) -> list[Any]:
    """Start the tool of the first call, which a hook has forbidden."""
    at = next(at for at, each in enumerate(record) if type(each) is Hook)
    hook = record[at]
    return [
        *record[: at + 1],
        ToolStarted(0, hook.at_ns, "call-1", "look", "{}"),
        *record[at + 1 :],
    ]


OF_HOOKS = [
    ("model-call-hooks-in-order", swapped(Hook, 0, 1), scenario(DONE, hooks=BEFORE)),
    ("model-call-hooks-in-order", dropped(Hook), scenario(DONE, hooks=[{"at": "after_llm_call"}])),
    ("tool-call-hooks-in-order", swapped(Hook, 0, 1), scenario(LOOK, DONE, hooks=TOOL)),
    ("tool-call-hooks-in-order", dropped(Hook), scenario(LOOK, DONE, hooks=AFTER)),
    ("tool-call-hooks-in-order", with_a_forbidden_tool, scenario(LOOK, DONE, hooks=VETO)),
    ("hooks-run-for-each-call", dropped(Hook, -1),
     scenario(TWICE, DONE, hooks=AFTER, tool_execution=PARALLEL)),
    ("hook-timeouts", changed(Hook, took_ns=10 * SECOND),
     scenario(DONE, hooks=[{"at": "before_llm_call", "takes": "7s"}])),
    ("hook-timeouts", changed(Hook, took_ns=SECOND),
     scenario(DONE, hooks=[{"at": "before_llm_call", "hangs": True}])),
    ("hook-timeouts", changed(Hook, took_ns=7 * SECOND),
     scenario(DONE, hooks=[{"at": "before_llm_call", "takes": "3s"}])),
    ("hook-changes-apply-to-one-request", changed(Request, system_prompt="Mine."),
     scenario(DONE, hooks=PROMPTS)),
    ("hook-changes-to-arguments-apply", changed(ToolStarted, arguments='{"path":"b"}'),
     scenario(LOOK, DONE, hooks=FAILS, tools=READS)),
    ("hook-changes-to-arguments-apply", changed(ToolStarted, arguments='{"path":"b"}'),
     scenario(TWICE, DONE, hooks=FAILS, tools=READS, tool_execution=PARALLEL)),
    ("hook-changes-to-results-apply", changed(Answered, text="other"), scenario(LOOK, DONE)),
    ("hook-changes-to-results-apply", changed(Answered, text="late"),
     scenario(LOOK, DONE, hooks=LATE, tool_execution=PARALLEL)),
    ("hook-refusals-answer-calls", changed(Answered, text="Error: forbidden"),
     scenario(LOOK, DONE, hooks=VETO)),
    ("hook-refusals-answer-calls", changed(Answered, text="seen", is_error=False),
     scenario(LOOK, DONE, hooks=RAISES, hook_isolation={"on_failure": "error-result"})),
    ("scripted-results", changed(ToolResult, is_error=False),
     scenario(LOOK, DONE, hooks=ADDS, tools={"look": {"raises": "no"}})),
    ("scripted-results", changed(ToolResult, text="two"),
     scenario(LOOK, DONE, tools={"look": {"answers": [{"returns": "one"}, {"returns": "two"}]}})),
    ("scripted-tool-durations", changed(ToolResult, at_ns=9 * SECOND),
     scenario(LOOK, DONE, tools={"look": {"answers": [{"returns": "one", "takes": "3s"}]}})),
]  # fmt: skip


def hook(at: str, name: str, **does: Any) -> dict[str, Any]:
    return {"at": at, "name": name, "independent": True, **does}


def parallel(*replies: Any, hooks: list[dict[str, Any]], **settings: Any) -> Scenario:
    return scenario(*replies, hooks=hooks, hook_execution=PARALLEL, **settings)


def three(at: str) -> list[dict[str, Any]]:
    """Two hooks that run at once, where the second ends first, and one after them."""
    alone = {"at": at, "name": "alone", "takes": "1s"}
    return [hook(at, "slow", takes="2s"), hook(at, "fast", takes="1s"), alone]


VETOES = [
    hook("before_tool_call", "slow", takes="1s", block="too long"),
    hook("before_tool_call", "fast", block="not allowed"),
]
FAILURES = [
    hook("before_tool_call", "fails", raises="the first"),
    hook("before_tool_call", "forbids", block="the second"),
]
CHANGES = [
    hook("before_llm_call", "prompts", system_prompt="Mine."),
    hook("before_tool_call", "argues", arguments={"path": "b"}),
    hook("after_tool_call", "results", result="changed"),
]


OF_PARALLEL_HOOKS = [
    ("model-call-hooks-in-order", swapped(Hook, 1, 2),
     parallel(DONE, hooks=three("before_llm_call"))),
    ("model-call-hooks-in-order", dropped(Hook), parallel(DONE, hooks=three("after_llm_call")[:2])),
    ("independent-hooks-begin-at-once", changed(Hook, 1, took_ns=SECOND),
     parallel(DONE, hooks=[hook("before_llm_call", each, takes="2s") for each in ("one", "two")])),
    ("tool-call-hooks-in-order", swapped(Hook, 1, 2),
     parallel(LOOK, DONE, hooks=three("after_tool_call"))),
    ("hooks-run-for-each-call", dropped(Hook, -1),
     parallel(TWICE, DONE, hooks=three("after_tool_call"), tool_execution=PARALLEL)),
    ("hooks-run-for-each-call", doubled(Hook, -1),
     parallel(LOOK, DONE, hooks=[*VETOES, {"at": "before_tool_call", "name": "alone"}])),
    ("hook-refusals-answer-calls", changed(Answered, text="Error: not allowed"),
     parallel(LOOK, DONE, hooks=VETOES)),
    ("hook-refusals-answer-calls", changed(Answered, text="Error: the first"),
     parallel(LOOK, DONE, hooks=FAILURES, hook_isolation={"on_failure": "error-result"})),
    ("first-veto-blocks-model-call", changed(Ended, message="not allowed"),
     parallel(hooks=[{**each, "at": "before_llm_call"} for each in VETOES])),
    ("first-veto-blocks-model-call", changed(Ended, message="the second"),
     parallel(hooks=[{**each, "at": "before_llm_call"} for each in FAILURES],
     hook_isolation={"on_failure": "block-call"})),
    ("hook-refusals-answer-calls", changed(Answered, text="Error: not allowed"),
     parallel(LOOK, DONE, hooks=[{**VETOES[0], "block": ""}, VETOES[1]])),
    ("first-veto-blocks-model-call", changed(Ended, message="not allowed"), parallel(hooks=[
        {**each, "at": "before_llm_call"} for each in ({**VETOES[0], "block": ""}, VETOES[1])])),
    ("independent-hooks-change-nothing", changed(Hook, changed=("system_prompt",)),
     parallel(LOOK, DONE, hooks=CHANGES)),
    ("independent-hooks-change-nothing", changed(Hook, 2, changed=("result",)),
     parallel(LOOK, DONE, hooks=CHANGES)),
    ("hook-changes-apply-to-one-request", changed(Request, system_prompt="Mine."),
     parallel(LOOK, DONE, hooks=CHANGES)),
    ("hook-changes-to-arguments-apply", changed(ToolStarted, arguments='{"path":"b"}'),
     parallel(LOOK, DONE, hooks=CHANGES, tools=READS)),
    ("hook-changes-to-results-apply", changed(Answered, text="changed"),
     parallel(LOOK, DONE, hooks=CHANGES, tools=READS)),
    ("hook-timeouts", changed(Hook, result="timed-out"),
     parallel(DONE, hooks=three("before_llm_call"))),
]  # fmt: skip


PAY = {"pay": {"parameters": {"sum": "integer"}, "returns": "paid"}}
PAID = {"call": {"pay": {"sum": 1}}}
ENDS = {"done": {"returns": "ok", "terminate": True}, "look": {"returns": "seen"}}
SLOW = {"look": {"takes": "5s", "sequential": True}}


def without_the_second_tool(record: list[Any]) -> list[Any]:
    for edit in (dropped(ToolStarted, 1), dropped(ToolResult, 1)):
        record = edit(record)
    return changed(Answered, 1, ran=False, is_error=True, text="Error: no")(record)


def with_a_tool_after_the_stop(record: list[Any]) -> list[Any]:
    at = next(at for at, each in enumerate(record) if type(each) is StopRequested)
    now_ns = record[at].at_ns
    begun = [CallBegun(0, now_ns, "call-2"), ToolStarted(0, now_ns, "call-2", "look", "{}")]
    return [*record[: at + 1], *begun, *record[at + 1 :]]


def with_a_tool_behind_one_that_ends(record: list[Any]) -> list[Any]:
    """Start a tool where another ends after the stop, which is no flag."""
    at = next(at for at, each in enumerate(record) if type(each) is ToolResult)
    begun = ToolStarted(0, record[at].at_ns, "call-2", "look", "{}")
    return [*record[: at + 1], begun, *record[at + 1 :]]


OF_CALLS = [
    ("arguments-match-schema", changed(ToolStarted, arguments='{"sum":"much"}'),
     scenario(PAID, DONE, tools=PAY)),
    ("arguments-match-schema", changed(ToolStarted, arguments="{}"),
     scenario(PAID, DONE, tools=PAY)),
    ("every-call-runs", without_the_second_tool,
     scenario({"call": [{"pay": {"sum": 1}}, {"pay": {"sum": 1}}]}, DONE, tools=PAY)),
    ("terminate-signal-matches-results", changed(signals.ToolsReturned, terminate=True),
     scenario({"call": [{"done": {}}, {"look": {}}]}, DONE, tools=ENDS, loop="pi@0.87.1")),
    ("terminate-signal-matches-results", changed(signals.ToolsReturned, terminate=False),
     scenario({"call": [{"done": {}}, {"done": {}}]}, DONE, tools=ENDS, loop="pi@0.87.1")),
    ("no-call-starts-after-abort", with_a_tool_after_the_stop,
     scenario({"call": [{"look": {}}] * 2}, abort={"at": "1s"}, tools=SLOW, loop="pi@0.87.1")),
    ("no-call-starts-after-abort", with_a_tool_behind_one_that_ends,
     scenario({"call": [{"look": {}}] * 2}, abort={"at": "1s"}, tools=SLOW, loop="opencode")),
    ("call-ids-not-empty", changed(ToolStarted, call_id=""), scenario(PAID, DONE, tools=PAY)),
]  # fmt: skip


TALK = {"say": "x" * 200, "call": {"look": {}}}
SUMMARY = {"say": "Short."}
TOO_LONG = {"http": {"status": 400, "message": "prompt is too long"}}
DROPS = {"strategy": "drop-oldest"}
POLICY, STRATEGY = "compaction-matches-policy", "compaction-matches-strategy"


def long_run(*replies: object, **policy: object) -> Scenario:
    """Long replies, of which the older ones are compacted before the last request."""
    given = replies or (TALK, TALK, TALK, DONE)
    summaries = [] if policy.get("strategy") == "drop-oldest" else [SUMMARY] * 4
    options = {"window": 220, "keep_turns": 2, **policy}
    return scenario(*given, compaction=options, summaries=summaries)


def a_turn_less(messages: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out the oldest turn that was kept, behind the summary if there is one."""
    start = next(at for at, each in enumerate(messages) if getattr(each, "calls", ()))
    return (*messages[:start], *messages[start + 2 :])


def a_turn_more(messages: tuple[Any, ...]) -> tuple[Any, ...]:
    start = next(at for at, each in enumerate(messages) if getattr(each, "calls", ()))
    return (*messages[:start], *messages[start : start + 2], *messages[start:])


def as_the_last_thing(record: list[Any]) -> list[Any]:
    """End the run with its compaction, which has taken away a message more."""
    record = changed(Compaction, messages_removed=4)(record)
    end = next(at for at, each in enumerate(record) if type(each) is Compaction)
    return [*record[: end + 2], *(each for each in record[end:] if type(each) is Ended)]


def without_the_request(record: list[Any]) -> list[Any]:
    number = next(each.number for each in record if getattr(each, "purpose", "") == "summary")
    return [
        each
        for each in record
        if number not in (getattr(each, "number", 0), getattr(each, "request", 0))
    ]


OF_COMPACTIONS = [
    (POLICY, sending(-1, a_turn_less), long_run()),
    (POLICY, sending(-1, a_turn_more), long_run()),
    (POLICY, sending(-1, a_turn_more), long_run(TALK, TALK, TALK, TOO_LONG, DONE, window=4000)),
    (POLICY, sending(-1, a_turn_less),
     long_run(TALK, TALK, TALK, TALK, DONE, window=280, keep_turns=1, **DROPS)),
    (POLICY, as_the_last_thing, long_run()),
    (STRATEGY, changed(Compaction, strategy="drop-oldest"), long_run()),
    (STRATEGY, changed(Compaction, strategy="summarise"), long_run(**DROPS)),
    (STRATEGY, without_the_request, long_run()),
]  # fmt: skip


RATE_LIMITED = {"http": {"status": 429}}
QUEUED = [{"say": "Also this.", "after": "text-delta"}]
LONG = {"say": "Done.", "pace": {"per_part": "1s"}}
TWO_LOOKS = {"say": "I look twice.", "call": [{"look": {}}, {"look": {}}]}
SMALL = {"window": 120, "keep_turns": 1, "strategy": "drop-oldest"}
FAILING = {
    "hooks": [{"at": "before_llm_call", "raises": "no"}],
    "hook_isolation": {"on_failure": "fail-run"},
}


def shouted(messages: tuple[Message, ...]) -> list[Message]:
    return [
        UserMessage(each.text.upper()) if type(each) is UserMessage else each for each in messages
    ]


def with_results_reversed(messages: tuple[Message, ...]) -> list[Message]:
    said, first, second = messages
    return [said, second, first]


OF_SIGNALS = [
    ("machine-is-deterministic", changed(Transition, state="ready"), scenario(DONE)),
    ("effects-run-once", doubled(Request), scenario(DONE)),
    ("effects-run-once", dropped(Backoff), scenario(RATE_LIMITED, DONE)),
    ("tool-batches-complete",
     inserted(signals.ToolsReturned, ToolStarted(0, 0, "call-1", "look", "{}")),
     scenario({"call": {"look": {}}, "finish": "length"}, DONE)),
    ("tool-batches-complete", dropped(Answered, 1), scenario(TWO_LOOKS, DONE)),
    ("reply-signal-matches-reply", changed(signals.ModelReplied, steps=1),
     scenario({"say": "Done.", "steps": 3})),
    ("reply-signal-matches-reply", changed(signals.ModelReplied, text=True),
     scenario({"say": " "}, DONE)),
    ("context-signal-matches-context", changed(signals.ContextMeasured, 2, over=False),
     scenario(LOOK, LOOK, DONE, prompt="x" * 400, compaction=SMALL)),
    ("queue-signal-matches-queue", changed(signals.StepClosed, steering=False),
     scenario(LONG, DONE, queue=QUEUED)),
    ("queue-signal-matches-queue", changed(signals.StepClosed, steering=True),
     scenario(DONE, DONE)),
    ("stop-signals-match-stops",
     inserted(signals.ModelReplied,
     Transition(0, 0, signals.CallBlocked(), "finished", Counters(0, 0, 0))), scenario(DONE)),
    ("stop-signals-match-stops",
     changed(Transition, -1, signal=signals.ModelFailed(ErrorClass.SERVER, retryable=True)),
     scenario(DONE, **FAILING)),
    ("end-matches-machine", changed(Ended, limit=""), scenario(LOOK, limits={"max_steps": 1})),
    ("context-is-conserved", sending(1, with_results_reversed), scenario(TWO_LOOKS, DONE)),
    ("context-is-conserved", sending(1, shouted), scenario(LONG, DONE, queue=QUEUED)),
    ("request-size-matches-messages", changed(Request, 1, tokens=5), scenario(LOOK, DONE)),
]  # fmt: skip


SLOW_TOOL = {"look": {"takes": "2s", "returns": "seen"}}
TWO: dict[str, object] = {"call": [{"look": {}}, {"look": {}}]}
LASTING = {"look": {"takes": "10s", "outlives_cancel": "200ms"}}


def ended_with_the_stop(record: list[Any]) -> list[Any]:
    """End the run at the stop, 200 ms before its tool has ended."""
    stop = record[place(record, StopRequested)]
    tool = record.pop(place(record, ToolResult))
    at = place(record, Ended)
    early = [
        msgspec.structs.replace(each, at_ns=min(each.at_ns, stop.at_ns))
        for each in record[: at + 1]
    ]
    return [*early, tool, *record[at + 1 :]]


OF_TIMES = [
    ("no-idle-time", later(ToolStarted, 1), scenario(LOOK, DONE)),
    ("no-idle-time", later(Request, 0.001, 1), scenario(LOOK, DONE)),
    ("scripted-tool-durations", later(ToolResult, 1), scenario(LOOK, DONE, tools=SLOW_TOOL)),
    ("cancelled-tools-waited-for", ended_with_the_stop,
     scenario(LOOK, DONE, then=["Again."], abort={"at": "1s"}, tools=LASTING,
     tool_execution={"start": "when-called"})),
    ("parallel-tools-start-at-once", later(ToolStarted, 1, 1),
     scenario(TWO, DONE, tools=SLOW_TOOL, tool_execution=PARALLEL)),
    ("parallel-tools-start-at-once", later(ToolStarted, 1, 1),
     scenario(TWO, DONE, tools=SLOW_TOOL, tool_execution={**PARALLEL, "start": "when-called"})),
]  # fmt: skip


BLOCKS = [{"at": "before_llm_call", "block": "not today"}]
BREAKS = {
    "hooks": [{"at": "before_llm_call", "nth": 2, "raises": "no disk"}],
    "hook_isolation": {"on_failure": "fail-run"},
}

OF_WORDS = [
    ("message-names-cause", changed(Ended, message="Blocked."), scenario(hooks=BLOCKS)),
    ("message-names-cause", changed(Ended, message="Error: no."),
     scenario({"http": {"status": 401, "message": "no such key"}})),
    ("message-names-cause", changed(Ended, message="Error: 500 Internal Server Error"),
     scenario({"http": {"status": 500}}, DONE, **BREAKS)),
    ("scripted-results", changed(ToolResult, text="Error: OSError"),
     scenario(LOOK, DONE, tools={"look": {"raises": "no such file"}})),
    ("scripted-results", changed(ToolResult, text="null"),
     scenario(LOOK, DONE, tools={"look": {"returns": None}})),
]  # fmt: skip

EVERY = [
    *OF_HOOKS, *OF_PARALLEL_HOOKS, *OF_CALLS, *OF_COMPACTIONS, *OF_SIGNALS, *OF_TIMES, *OF_WORDS,
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played"), EVERY)
def test_a_wrong_engine_is_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)


@pytest.mark.parametrize("loop", ["pi@0.87.1", "reference"])
def test_results_that_ask_for_the_end_are_no_alarm(loop: str) -> None:
    for calls in (["done"], ["done", "done"], ["done", "look"], ["done", "nobody"]):
        played = scenario({"call": [{name: {}} for name in calls]}, DONE, DONE, tools=ENDS)
        assert not violated(played, loop=loop)


def test_a_stall_in_a_summary_is_ended_at_the_limit_of_model_calls() -> None:
    long = {"say": "x" * 200, "call": {"look": {}}}
    compaction = {"window": 120, "keep_turns": 1}
    stalls = [{"stall": "before-headers"}]
    played = scenario(long, long, DONE, compaction=compaction, summaries=stalls)
    assert not violated(played)
    assert "model-call-timeouts" in violated(played, later(Compaction, 60))


def test_an_engine_that_does_not_convert_arguments_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed = {"look": {"parameters": {"path": "string"}, "returns": "seen"}}
    played = scenario({"call": {"look": {"path": 5}}}, DONE, tools=typed)
    assert not violated(played, loop="pi@0.87.1")
    monkeypatch.setattr(tool_calls, "read_arguments", lambda tool, text, **_: read(tool, text))
    assert "every-call-runs" in violated(played, loop="pi@0.87.1")

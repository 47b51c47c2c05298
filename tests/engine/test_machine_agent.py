"""The machine agent: one run from prompt to outcome, within its bounds, the same every time."""

import json
from typing import Any

import pytest
from builders import DONE, HANGS, JITTERY, LOOK, S, counters_of
from builders import play_loosely as play
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from pacing import paced
from worlds import Opened, in_world

from simloop import (
    Compaction,
    Http,
    Limits,
    Outcome,
    Reply,
    Result,
    RunawayRun,
    ScenarioError,
    parse_scenario,
)
from simloop.engine.machine_agent import MachineAgent
from simloop.engine.settings import EngineSettings
from simloop.kernel import effects, signals
from simloop.kernel.limits import MAX_TRANSITIONS
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.kernel.states import Measuring
from simloop.loops.reference import ReferenceLoop
from simloop.messages import AssistantMessage, ToolMessage, UserMessage
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.codec import encode
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import MAX_TRACE_CHARS

# ------------------------------------------------------------------------- a whole run


def test_the_transcript_holds_prompt_replies_and_results_in_order() -> None:
    messages = play(LOOK, DONE).messages
    (call,) = messages[1].calls if isinstance(messages[1], AssistantMessage) else ()
    assert messages == (
        UserMessage("Go."),
        AssistantMessage("I look.", (call,)),
        ToolMessage("call-1", "seen"),
        AssistantMessage("Done."),
    )


def test_a_run_that_ends_early_keeps_the_last_words_there_were() -> None:
    assert play(LOOK, Reply(http=Http(status=401))).text == "I look."


@pytest.mark.parametrize(
    ("replies", "limits", "outcome", "message"),
    [
        ([LOOK, LOOK], {"max_steps": 2}, "max-steps", "Max steps reached, task may be incomplete."),
        ([Reply(say="a", finish="length")], {}, "context-limit", "Context limit reached."),
        ([Reply(say="a", finish="content-filter")], {}, "content-filtered", "Content filtered."),
        ([Reply(say="a", finish="error")], {}, "model-error", "Task failed."),
        ([Reply(http=Http(status=401))], {}, "failed", "Error: 401 Unauthorized"),
        ([Reply(http=Http(status=500))] * 3, {}, "too-many-errors",
         "Failed after 3 errors: 500 Internal Server Error"),
        ([HANGS], {"max_wall_clock_ms": 5}, "timed-out",
         "Time limit reached, task may be incomplete."),
    ],
)  # fmt: skip
def test_every_early_end_says_what_it_is(
    replies: list[Reply], limits: dict[str, int], outcome: str, message: str
) -> None:
    result = play(*replies, limits=Limits(**limits))
    assert (result.outcome, result.message) == (outcome, message)


# ------------------------------------------------------------------------- bounds


class Treadmill(ReferenceLoop):
    """A loop design that measures its context for ever."""

    def __init__(self) -> None:
        super().__init__()
        stays: dict[type[Struct], frozenset[type[Struct]]]
        stays = {signals.ContextMeasured: frozenset({Measuring})}
        self.legal = {**self.legal, Measuring: {**self.legal[Measuring], **stays}}

    def advance(self, run: Run, signal: Signal) -> Transition:
        if isinstance(signal, signals.Began | signals.ContextMeasured):
            return Run(Measuring()), (effects.MeasureContext(),)
        return super().advance(run, signal)


def test_a_loop_that_does_not_bound_itself_is_stopped_after_max_transitions() -> None:
    async def main(opened: Opened) -> list[AnyEntry]:
        agent = MachineAgent(Treadmill(), EngineSettings(max_transitions=50))
        with pytest.raises(RunawayRun, match="max_transitions=50"):
            await agent("Go.", opened.world)
        return opened.entries

    assert [type(entry) for entry in in_world(main)] == [entries.Transition] * 50


def test_the_context_is_compacted_from_the_trigger_on() -> None:
    def compactions(window: int) -> int:
        policy = Compaction(
            window=window,
            trigger_percent=100,
            keep_turns=1,
            strategy="drop-oldest",
        )
        return counters_of(play(LOOK, LOOK, DONE, compaction=policy)).compaction_attempts

    tokens = max(
        entry.tokens
        for entry in play(LOOK, LOOK, DONE).trace.entries
        if isinstance(entry, entries.Request)
    )
    assert (compactions(tokens), compactions(tokens + 1)) == (1, 0)


# ------------------------------------------------------------------------- determinism


REPLIES = st.sampled_from(
    [
        LOOK,
        Reply(call=[{"look": {}}, {"gone": {}}, {"look": "{"}]),
        Reply(say="a b c", call={"look": {}}, pace=paced(first_part="3ms", per_part="1ms")),
        Reply(http=Http(status=503)),
        Reply(finish="stop"),
        Reply(say="Half.", finish="length"),
        Reply(say="Half.", unfinished=True),
        HANGS,
    ]
)


@given(st.lists(REPLIES, max_size=6), st.integers(0, 3))
def test_the_same_scenario_and_seed_give_the_same_bytes(replies: list[Reply], seed: int) -> None:
    def trace() -> bytes:
        return encode(play(*replies, DONE, retry=JITTERY, seed=seed).trace)

    assert trace() == trace()


@given(st.lists(REPLIES, max_size=6))
def test_the_last_entry_says_what_the_result_says(replies: list[Reply]) -> None:
    result = play(*replies, DONE)
    last = result.trace.entries[-1]
    assert isinstance(last, entries.Ended)
    assert (last.outcome, last.text, last.message, last.elapsed_ns, last.counters) == (
        result.outcome,
        result.text,
        result.message,
        result.elapsed_ns,
        result.counters,
    )


@given(st.lists(REPLIES, max_size=8), st.integers(1, 4), st.integers(1, 4), st.integers(0, 3))
def test_the_work_of_a_run_is_bounded_by_its_limits(
    replies: list[Reply], steps: int, errors: int, compactions: int
) -> None:
    limits = Limits(max_steps=steps, max_error_count=errors, max_compaction_attempts=compactions)
    result = play(*replies, *[LOOK] * 10, limits=limits)
    main = [
        e for e in result.trace.entries if isinstance(e, entries.Request) and e.purpose == "main"
    ]
    assert len(main) <= steps + errors + compactions


def test_the_outcome_of_a_finish_reason_does_not_depend_on_the_way_it_was_spelled() -> None:
    assert play(Reply(say="Done.", finish="end_turn")).outcome is Outcome.COMPLETED
    assert play(Reply(say="Done.", finish="STOP")).outcome is Outcome.COMPLETED


LONG = "x" * 400
CALL = {"call": {"look": {}}, "times": "always"}
SEES = {"look": {"returns": "found"}}
FAILING = {"limits": {"max_error_count": 99}}
HOOK = {"at": "before_tool_call", "raises": LONG}
SPEAKERS: dict[str, dict[str, Any]] = {
    "a tool": {"tools": {"look": {"returns": LONG}}, "model": [CALL]},
    "a tool's details": {"tools": {"look": {"details": LONG}}, "model": [CALL]},
    "a tool that raises": {"tools": {"look": {"raises": LONG}}, "model": [CALL]},
    "the model": {"tools": SEES, "model": [{**CALL, "say": LONG}]},
    "its reasoning": {"tools": SEES, "model": [{**CALL, "think": LONG}]},
    "its arguments": {"tools": SEES, "model": [{**CALL, "call": {"look": {"a": LONG}}}]},
    "a provider that fails": {
        "model": [{"http": {"status": 500, "message": LONG}, "times": "always"}], **FAILING
    },
    "a header": {
        "model": [{"http": {"status": 500, "headers": {"a": LONG}}, "times": "always"}], **FAILING
    },
    "a hook": {"tools": SEES, "model": [CALL], "hooks": [HOOK]},
    "a hook that changes the system prompt now and then": {
        "tools": SEES,
        "model": [CALL],
        "hooks": [
            {"at": "before_llm_call", "system_prompt": LONG, "nth": n} for n in range(1, 20, 2)
        ],
    },
    "the user": {
        "tools": SEES,
        "model": [CALL],
        "queue": [{"after": "tool-started", "nth": n, "say": LONG} for n in range(1, 20)],
    },
    "requests for summaries": {
        "prompt": LONG,
        "tools": SEES,
        "model": [CALL],
        "summaries": [{"say": "s", "times": "always"}],
        "compaction": {"window": 500, "trigger_percent": 20, "keep_turns": 1},
        "limits": {"max_compaction_attempts": 99},
    },
}  # fmt: skip


@pytest.mark.parametrize("said", SPEAKERS.values(), ids=SPEAKERS)
def test_a_run_in_which_too_much_is_said_is_a_runaway(said: dict[str, Any]) -> None:
    scenario = parse_scenario(json.dumps({"prompt": "Go.", "max_trace_chars": 3000, **said}))
    simulation = Simulation(scenario)
    with pytest.raises(RunawayRun, match="the trace passed max_trace_chars=3000 characters"):
        simulation.run()
    requests = sum(type(entry).__name__ == "Request" for entry in simulation.trace.entries)
    assert 2 <= requests <= 20


@pytest.mark.parametrize(
    ("key", "most"),
    [("max_transitions", MAX_TRANSITIONS), ("max_trace_chars", 10 * MAX_TRACE_CHARS)],
)
def test_the_bounds_are_bounded_themselves(key: str, most: int) -> None:
    parse_scenario(f"prompt: x\n{key}: {most}\n")
    with pytest.raises(ScenarioError, match=rf"a\.yaml:2:\d+: {key}: .*{most}"):
        parse_scenario(f"prompt: x\n{key}: {10**18}\n", "a.yaml")


def backoffs(result: Result) -> list[int]:
    return [e.delay_ns for e in result.trace.entries if isinstance(e, entries.Backoff)]


def test_retry_after_is_kept_to_the_nanosecond() -> None:
    result = play(Reply(http=Http.model_validate({"status": 429, "retry_after": "1.5s"})), DONE)
    assert (backoffs(result), result.elapsed_ns) == ([3 * S // 2], 3 * S // 2)


def test_a_wait_that_the_provider_asked_for_is_recorded_as_such() -> None:
    result = play(
        Reply(http=Http.model_validate({"status": 429, "retry_after": "1s"})),
        Reply(http=Http(status=503)),
        DONE,
    )
    asked = [e.retry_after for e in result.trace.entries if isinstance(e, entries.Backoff)]
    assert asked == [True, False]


def test_retry_after_as_a_date_is_read_by_the_virtual_clock() -> None:
    headers = {"Retry-After": "Thu, 01 Jan 2026 00:00:07 GMT"}
    assert backoffs(play(Reply(http=Http(status=429, headers=headers)), DONE)) == [7 * S]


def test_a_useless_reply_after_a_rate_limit_does_not_wait_as_the_rate_limit_asked() -> None:
    result = play(
        Reply(http=Http.model_validate({"status": 429, "retry_after": "100s"})),
        Reply(finish="stop"),
        DONE,
    )
    assert backoffs(result) == [100 * S, 4 * S]


def jittered(seed: int) -> list[int]:
    failures = [Reply(http=Http(status=503))] * 2
    return backoffs(play(*failures, DONE, retry=JITTERY, seed=seed))


@given(st.integers(0, 1_000))
def test_jitter_takes_off_no_more_than_its_share(seed: int) -> None:
    first, second = jittered(seed)
    assert S <= first <= 2 * S
    assert 2 * S <= second <= 4 * S

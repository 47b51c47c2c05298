"""The facts at an entry come from the entries up to it alone.

The context after a compaction is the exception: a trace states it with the next request.
"""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
from agents import of_shop
from msgspec import structs

from simloop.cursor.index import Landmark
from simloop.cursor.keys import FactView
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.views import view
from simloop.messages import ToolMessage
from simloop.runs.run import Simulation, run
from simloop.scenario.loader import parse_scenario
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.codec import read_trace

TRACES = Path(__file__).parents[2] / "scenarios" / "__snapshots__"
# The entry view counts all entries.
_OF_THE_PREFIX = [each for each in FactView if each is not FactView.ENTRY]


def recorded(name: str) -> RecordedRun:
    return RecordedRun.of_trace(read_trace(TRACES / f"{name}.trace.jsonl"))


def rows_at(recording: RecordedRun, place: int, name: FactView) -> list[str]:
    return [str(each) for each in view(name, Position(recording, place))]


LONG = (pytest.param(theme, marks=pytest.mark.slow) for theme in ("compaction", "hooks", "loops"))


@pytest.mark.parametrize("theme", ["abort", "calls", "queue", *LONG])
def test_the_facts_at_an_entry_are_those_of_the_trace_that_ends_with_it(theme: str) -> None:
    for path in sorted(TRACES.glob(f"{theme}.*.jsonl")):
        whole = RecordedRun.of_trace(read_trace(path))
        last = len(whole.entries) - 1
        for place in sorted({last * part // 3 for part in range(4)}):
            trace = structs.replace(
                whole.trace, entries=whole.trace.entries[: place + 1], footer=None
            )
            cut = replace(whole, trace=trace)
            of_next = {FactView.CONTEXT} if Position(whole, place).is_compacted else set()
            for name in [each for each in _OF_THE_PREFIX if each not in of_next]:
                assert rows_at(whole, place, name) == rows_at(cut, place, name), (path, place)


def test_calls_that_share_an_id_are_both_there_at_each_entry() -> None:
    scenario = parse_scenario("""
        prompt: Go.
        tools: {look: {parameters: {path: string}, returns: seen}}
        hooks: [{at: before_tool_call, name: guard}]
        model: [{call: [{look: {path: a}}, {look: {path: b}}], ids: [x, x]}, {say: Done.}]
    """)
    recording = RecordedRun.of_trace(run(scenario).trace)
    made = recording.index.places[entries.ToolCall][-1]
    next_step = recording.index.places[entries.Request][-1]
    shown = [Position(recording, place).calls for place in range(made, next_step)]
    assert {tuple(call.arguments for call in calls) for calls in shown} == {
        ('{"path":"a"}', '{"path":"b"}')
    }
    assert [call.call_id for call in shown[0]] == ["x", "x"]
    assert [(call.call_id, call.answered is not None) for call in shown[-1]] == [
        ("x", True),
        ("x#2", True),
    ]


def test_a_backoff_says_which_numbers_of_the_policy_gave_its_wait() -> None:
    recording = recorded("limits.errors")
    second = recording.index.places[entries.Backoff][1]
    sentence, *_ = rows_at(recording, second, FactView.WHY)
    assert sentence == "  Failure 2 of 3: the wait is 4.000s: 2.000s x 2^1, at most 30.000s."


def test_a_compaction_folds_the_messages_that_the_next_request_lacks() -> None:
    recording = recorded("compaction.twice")
    first = recording.index.shortened[0]
    position = Position(recording, len(recording.entries) - 1)
    calls = [message for message in position.removed_by(first) if isinstance(message, ToolMessage)]
    assert [message.call_id for message in calls] == ["call-1"]
    assert "% normal compaction: 1 message fewer, 113 to 71 tokens" in rows_at(
        recording, position.place, FactView.CONTEXT
    )


def test_a_compaction_shows_the_context_before_it_and_after_it() -> None:
    recording = recorded("compaction.forced")
    done = recording.index.shortened[0]
    before, after, fold, *rest = rows_at(recording, done, FactView.CONTEXT)
    assert before == "# before: 5 messages, as sent in request #3"
    assert after == "# after: 4 messages, as sent in request #5"
    assert fold == "% forced compaction: 1 message fewer, 113 to 70 tokens"
    assert "  summary: The log was read." in rest
    sent = recording.index.next(Landmark.STEP, done)
    assert sent is not None
    assert rows_at(recording, sent, FactView.CONTEXT) == [fold, *rest]


def test_a_compaction_without_a_later_request_says_which_context_is_shown() -> None:
    whole = recorded("compaction.forced")
    done = whole.index.shortened[0]
    trace = structs.replace(whole.trace, entries=whole.trace.entries[: done + 1], footer=None)
    cut = replace(whole, trace=trace)
    assert rows_at(cut, done, FactView.CONTEXT)[0] == ". context as last sent (request #3)"
    assert Position(cut, done).removed_by(done) == ()


def test_an_error_shows_the_headers_of_its_response() -> None:
    recording = recorded("clock.ahead")
    failed = recording.index.places[entries.Error][0]
    headers = recording.entries[failed].fault.headers  # type: ignore[union-attr]
    assert headers
    shown = rows_at(recording, failed, FactView.ENTRY)
    assert shown[4:] == [f"  {name.title()}: {value}" for name, value in headers]


def test_a_loop_without_a_backoff_says_that_it_never_retries_a_failed_model_call() -> None:
    reply = {"http": {"status": 429}}
    scenario = {"prompt": "Go.", "loop": "react", "model": [reply]}
    simulation = Simulation(Scenario.model_validate(scenario))
    simulation.run()
    recording = RecordedRun.of_run(simulation, simulation.trace, {})
    end = rows_at(recording, len(recording.entries) - 1, FactView.WHY)
    assert end[-2:] == [
        "  The retry policy calls the failure rate-limit, which may be retried.",
        "  This loop never retries a failed model call.",
    ]
    other = recorded("limits.errors")
    failed = other.index.places[entries.Classified][0]
    assert not any("never" in each for each in rows_at(other, failed, FactView.WHY))


def test_the_timers_say_that_a_backoff_begins_with_the_next_entry() -> None:
    recording = recorded("limits.errors")
    started = recording.index.places[entries.Backoff][0]
    assert rows_at(recording, started - 1, FactView.TIMERS) == [
        ". backoff: it begins with the next entry"
    ]
    assert rows_at(recording, started, FactView.TIMERS)[0].startswith("  backoff: since")


def test_a_bounded_view_shows_the_newest_messages_and_counts_the_others() -> None:
    position = Position(recorded("calls.polling"), 60)
    whole = view(FactView.REQUEST, position)
    some = view(FactView.REQUEST, position, most=2)
    assert some[-1] == whole[-1]
    assert len(some) < len(whole)
    hidden = len(position.context) - 2
    assert f". {hidden} earlier messages" in map(str, some)


def test_a_machine_that_has_not_moved_is_ready_and_no_agent() -> None:
    recording = recorded("start.quickstart")
    state = rows_at(recording, 0, FactView.STATE)
    assert state[:2] == ["> state: ready", "> ready"]
    assert rows_at(recording, 0, FactView.COUNTERS) == [". the machine has not moved yet"]


def test_the_reason_of_the_newest_decision_stands_after_that_of_the_entry() -> None:
    recording = recorded("start.quickstart")
    started = recording.index.places[entries.ToolStarted][0]
    moved, finish = rows_at(recording, started, FactView.WHY)
    assert moved.endswith("the machine goes from `calling-model` to `running-tools`.")
    assert finish == "  The newest reply ended with the finish reason tool-calls."


def test_a_reason_is_given_once() -> None:
    recording = recorded("limits.errors")
    reasons = rows_at(recording, len(recording.entries) - 1, FactView.WHY)
    assert reasons.count("  error_count is 3, and its limit is 3.") == 1
    assert len(set(reasons)) == len(reasons)


def test_the_newest_edge_is_marked_on_the_map() -> None:
    recording = recorded("start.quickstart")
    started = recording.index.places[entries.ToolStarted][0]
    state = rows_at(recording, started, FactView.STATE)
    assert state[state.index("  calling-model") + 1] == (
        "*   on model-replied: running-tools (the newest edge)"
    )


def test_a_limit_that_did_not_end_the_run_is_no_reason_of_its_end() -> None:
    recording = recorded("compaction.twice")
    last = len(recording.entries) - 1
    assert "compaction_attempts: 2 of 2" in str(rows_at(recording, last, FactView.COUNTERS))
    assert "compaction_attempts" not in str(rows_at(recording, last, FactView.WHY))


@pytest.mark.parametrize("name", [FactView.REQUEST, FactView.REPLY])
def test_a_run_without_a_request_says_yet_until_it_is_over(name: FactView) -> None:
    recording = recorded("hooks.failure-blocks-model")
    last = len(recording.entries) - 1
    assert rows_at(recording, 0, name) == [". no request has been sent in this run yet"]
    assert rows_at(recording, last, name) == [". no request has been sent in this run"]


def test_entries_about_the_code_of_an_agent_say_what_they_mean() -> None:
    async def agent(_: str) -> None:
        await asyncio.sleep(2)
        time.sleep(3)  # noqa: ASYNC251 - what it is about

    recording = RecordedRun.of_trace(run(Scenario(prompt="Hi"), loop=agent).trace)
    (sleep,), (violated, blocked) = (
        [text.strip() for text in rows_at(recording, recording.index.places[kind][0], FactView.WHY)]
        for kind in (entries.Sleep, entries.LoopBlocked)
    )
    assert sleep.startswith("The agent's code sleeps at test_position.py:")
    assert sleep.endswith(" until 2.000s.")
    assert violated.startswith("The run violates `event-loop-not-blocked` here: ")
    assert "blocked the event loop for 3.000s: no other task" in blocked


def test_a_call_of_an_agent_waits_for_its_result_until_a_request_shows_it() -> None:
    recording = of_shop()
    call = recording.index.places[entries.ToolCall][0]
    assert rows_at(recording, call, FactView.CALLS) == [
        '# lookup: {"order":"17"} [call-1]',
        ". no request shows its result yet",
    ]
    sent = recording.index.next(Landmark.STEP, call)
    assert sent is not None
    for place in (sent, sent + 1):  # and while the next reply has no calls
        assert rows_at(recording, place, FactView.CALLS) == [
            '# lookup: {"order":"17"} [call-1]',
            "+ the model gets: shipped",
        ]


def test_a_call_that_a_hook_changed_shows_the_arguments_that_the_model_wrote() -> None:
    recording = recorded("hooks.at-once")
    started = recording.index.places[entries.ToolStarted][0]
    assert rows_at(recording, started, FactView.CALLS)[:2] == [
        '# read_file: {"path":"/sandbox/README.md"} [call-1]',
        '-   the model wrote: {"path":"README.md"}',
    ]

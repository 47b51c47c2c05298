"""The events of the real pi, by its names. Their printed orders: loops/test_pi_event_orders.py."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from pi_runs import PI, runs, scenario, told_by, types

from simloop import Compaction, Http, Limits, Reply, Result, Scenario, read_trace, run, write_trace
from simloop.kernel.policies import CompactionStrategy
from simloop.scenario.replies import Pace, StreamFault
from simloop.scenario.triggers import Trigger
from simloop.trace.entries import AnyEntry
from simloop.trace.exports.pi_program_events import (
    MessageEnd,
    MessageUpdate,
    ProgramEvent,
    ProgramEvents,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)


def program(
    record: Iterable[AnyEntry], *, parallel: bool = True, fails_cut_calls: bool = False
) -> list[ProgramEvent]:
    view = ProgramEvents(parallel=parallel, fails_cut_calls=fails_cut_calls)
    return [event for line in record for event in view.feed(line)]


def test_a_message_is_updated_by_each_piece() -> None:
    reply = Reply(think="Hm", say="I look", call={"now": {}}, fragments=1)
    events = program(run(scenario(reply, Reply(say="Noon."))).trace.entries)
    updates = [(e.update, e.delta) for e in events if isinstance(e, MessageUpdate)]
    assert updates[:5] == [
        ("thinking_delta", "Hm"),
        ("text_delta", "I"),
        ("text_delta", " look"),
        ("toolcall_delta", "{}"),
        ("toolcall_end", "{}"),
    ]


@pytest.mark.parametrize(
    ("finish", "why"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "error"), ("error", "error")],
)
def test_a_finish_reason_has_pis_name(finish: str, why: str) -> None:
    events = program(run(scenario(Reply(say="Hm.", finish=finish))).trace.entries)
    (end,) = [e for e in events if isinstance(e, MessageEnd) and e.role == "assistant"]
    assert end.stop_reason == why


def test_a_call_that_fails_before_its_first_part_starts_and_ends_a_message_at_once() -> None:
    events = program(run(scenario(Reply(http=Http(status=401)))).trace.entries)
    assert types(events)[4:] == ["message_start", "message_end", "turn_end", "agent_end"]
    end = events[5]
    assert isinstance(end, MessageEnd)
    assert (end.stop_reason, end.content) == ("error", "")
    assert end.error_message


def test_calls_of_a_message_that_broke_have_no_tool_events() -> None:
    reply = Reply(call={"now": {}}, finish="error")
    events = program(run(scenario(reply)).trace.entries)
    assert not [kind for kind in types(events) if kind.startswith("tool_")]
    assert events[-2] == TurnEnd(at_ns=0)


def test_calls_that_share_an_id_have_tool_events_by_the_ids_that_the_engine_gave_them() -> None:
    twice = Reply(call=[{"look": {}}, {"now": {}}], ids=["a", "a"])
    events = program(run(scenario(twice, Reply(say="Oh."))).trace.entries, parallel=False)
    starts = [event for event in events if isinstance(event, ToolExecutionStart)]
    assert [(e.tool_call_id, e.tool_name) for e in starts] == [("a", "look"), ("a#2", "now")]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(say="Hm", unfinished=True), ""),
        (Reply(say="Hm", error=StreamFault(message="overloaded")), "overloaded"),
        (Reply(say="Hm", stall="mid-output"), "the model did not answer in time"),
    ],
    ids=["cut", "failed", "timed-out"],
)
def test_a_message_that_broke_ends_as_an_error_with_its_words(reply: Reply, why: str) -> None:
    events = program(run(scenario(reply)).trace.entries)
    ends = [event for event in events if isinstance(event, MessageEnd)]
    assert [(end.content, end.stop_reason, end.error_message) for end in ends[1:]] == [
        ("Hm", "error", why)
    ]


def test_a_turn_that_fails_does_not_have_the_results_of_the_one_before() -> None:
    world = scenario(Reply(call={"now": {}}), Reply(http=Http(status=401)))
    ends = [e for e in program(run(world).trace.entries) if isinstance(e, TurnEnd)]
    assert [end.tool_results for end in ends] == [("call-1",), ()]


def test_a_call_that_waits_when_the_time_is_over_is_never_begun() -> None:
    world = scenario(Reply(call=[{"look": {}}] * 2), limits=Limits(max_wall_clock_ms=500))
    events = program(run(world).trace.entries, parallel=False)
    assert [e.tool_call_id for e in events if isinstance(e, ToolExecutionStart)] == ["call-1"]


@pytest.mark.parametrize("keep_turns", [1, 2])
def test_words_of_the_user_are_told_once_also_when_the_context_is_rewritten(
    keep_turns: int,
) -> None:
    world = scenario(
        Reply(call={"now": {}}),
        Reply(http=Http(status=401)),
        Reply(say="Two."),
        then=["Second."],
        compaction=Compaction(
            max_messages=3, keep_turns=keep_turns, strategy=CompactionStrategy.DROP_OLDEST
        ),
    )
    result = run(world)
    assert [len(request.messages) for request in result.requests][-1] < 4
    ends = [e for e in program(result.trace.entries) if isinstance(e, MessageEnd)]
    assert [end.content for end in ends if end.role == "user"] == ["Go.", "Second."]


DROPS = CompactionStrategy.DROP_OLDEST
AT_ONE_AND_A_HALF = Trigger(at="1.5s")
SLOWLY = Pace(first_part="1s", per_part="1s")


def said_by_the_user(world: Scenario, *, sent_last: int) -> list[str]:
    """What is told, after a compaction has left `sent_last` messages for the last request."""
    result = run(world)
    assert len(result.requests[-1].messages) == sent_last
    ends = [e for e in program(result.trace.entries) if isinstance(e, MessageEnd)]
    return [end.content for end in ends if end.role == "user"]


def test_words_of_several_prompts_without_an_answer_are_not_told_again() -> None:
    world = scenario(
        Reply(call={"now": {}}),
        Reply(say="One."),
        Reply(http=Http(status=401), times=2),
        Reply(say="Four."),
        then=["Second.", "Third.", "Fourth."],
        compaction=Compaction(max_messages=6, keep_turns=1, strategy=DROPS),
    )
    assert said_by_the_user(world, sent_last=3) == ["Go.", "Second.", "Third.", "Fourth."]


@pytest.mark.parametrize(
    ("cut", "sent_last"),
    [
        (Reply(stall="before-headers"), 2),
        (Reply(say="Half of it", pace=SLOWLY), 3),
        (Reply(call=[{"now": {}}] * 2, pace=SLOWLY), 3),
    ],
    ids=["nothing", "text", "call"],
)
def test_the_same_words_after_an_aborted_reply_are_told_once_more(
    cut: Reply, sent_last: int
) -> None:
    """A reply that has said something is an answer, and what comes after it is new."""
    world = scenario(
        Reply(call={"now": {}}),
        Reply(say="One."),
        cut,
        Reply(say="Three."),
        then=["Again.", "Again."],
        abort=AT_ONE_AND_A_HALF,
        compaction=Compaction(max_messages=5, keep_turns=1, strategy=DROPS),
    )
    assert said_by_the_user(world, sent_last=sent_last) == ["Go.", "Again.", "Again."]


def test_fields_have_pis_names() -> None:
    result = run(scenario(Reply(call={"now": {}}), Reply(say="Noon.")))
    events = program(result.trace.entries, parallel=False)
    encoded = {event["type"]: event for event in map(msgspec.to_builtins, events)}
    assert encoded["tool_execution_start"] == {
        "type": "tool_execution_start",
        "toolCallId": "call-1",
        "toolName": "now",
        "args": {},
        "at_ns": 0,
    }
    assert encoded["turn_end"] == {"type": "turn_end", "at_ns": 0}
    assert encoded["message_start"] == {"type": "message_start", "role": "assistant", "at_ns": 0}


OPENS = {"agent_end": "agent_start", "turn_end": "turn_start", "message_end": "message_start"}


@settings(derandomize=True)
@given(runs(*PI))
def test_whatever_starts_in_the_real_programs_events_ends_and_is_nested(
    played: tuple[Scenario, Result],
) -> None:
    world, result = played
    events = told_by(world, result, "program")
    standing: list[str] = []
    executing: set[str] = set()
    for event in events:
        match event:
            case ToolExecutionStart(tool_call_id=call_id):
                assert standing == ["agent_start", "turn_start"]
                executing.add(call_id)
            case ToolExecutionEnd(tool_call_id=call_id):
                executing.remove(call_id)
            case MessageUpdate():
                assert standing[-1] == "message_start"
            case _:
                (kind,) = types([event])
                if kind in OPENS:
                    assert standing.pop() == OPENS[kind]
                else:
                    standing.append(kind)
    assert not standing
    assert not executing
    assert types(events).count("agent_end") == len(result.outcomes)
    assert [e.at_ns for e in events] == sorted(e.at_ns for e in events)


def test_what_is_said_for_a_summary_is_no_message() -> None:
    world = scenario(
        Reply(call={"now": {}}),
        Reply(call={"now": {}}),
        Reply(say="Done."),
        compaction=Compaction(max_messages=2, keep_turns=1),
        summaries=[Reply(say="The past.", times="always")],
    )
    result = run(world)
    assert any(request.purpose == "summary" for request in result.requests)
    ends = [e for e in program(result.trace.entries) if isinstance(e, MessageEnd)]
    assert [e.content for e in ends if e.role == "assistant"] == ["", "", "Done."]
    assert [e.content for e in ends if e.role == "user"] == ["Go."]


def test_a_trace_that_was_read_gives_the_events_of_the_run(tmp_path: Path) -> None:
    result = run(scenario(Reply(say="I look.", call={"look": {}}), Reply(say="Oh.")))
    write_trace(result.trace, tmp_path / "a.jsonl")
    assert program(read_trace(tmp_path / "a.jsonl").entries) == program(result.trace.entries)


def test_a_trace_without_an_end_gives_no_end() -> None:
    result = run(scenario(Reply(say="I look.", call={"look": {}}), Reply(say="Oh.")))
    assert types(program(result.trace.entries[:-1]))[-1] == "turn_end"

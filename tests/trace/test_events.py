"""The events of document 001."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from growth import FACTOR, LINEAR, growth
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop import (
    Compaction,
    Hooks,
    Http,
    Reply,
    Result,
    Scenario,
    ScriptedTool,
    ToolExecution,
    read_trace,
    run,
    write_trace,
)
from simloop.kernel.policies import ToolOrder
from simloop.messages import ToolCall, UserMessage
from simloop.runs.conversation import event_view
from simloop.runs.run import Simulation
from simloop.scenario.expect import Expect
from simloop.scenario.replies import Pace, StreamFault
from simloop.scenario.schema import Trigger
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.events import (
    DocumentEvents,
    DoneEvent,
    ErrorEvent,
    Event,
    GivenResult,
    MessageEvent,
    RequestedCall,
    ToolCallEvent,
    ToolResultEvent,
)
from simloop.world.world import World

SECOND = 10**9
PARALLEL = ToolExecution(order=ToolOrder.PARALLEL)
TOOLS = {
    "look": ScriptedTool(parameters={"at": "string?"}, returns="found", takes="1s"),
    "now": ScriptedTool(returns="noon", details={"zone": "UTC"}),
    "fail": ScriptedTool(raises="no disk", takes="2s"),
}


def scenario(*model: Reply, **settings: Any) -> Scenario:
    return Scenario(prompt="Go.", loop="pi", tools=TOOLS, model=list(model), **settings)


def types(events: Iterable[Any]) -> list[str]:
    return [str(type(event).__struct_config__.tag) for event in events]


REPLIES = st.one_of(
    st.builds(
        lambda calls, finish: Reply(say="Hm.", call=[{name: {}} for name in calls], finish=finish),
        st.lists(st.sampled_from(["look", "now", "fail", "unknown"]), min_size=1, max_size=3),
        st.sampled_from([None, "stop", "length", "error", "content_filter", "odd"]),
    ),
    st.just(Reply(http=Http(status=500))),
    st.just(Reply(say="Hm.", call={"now": {}}, error=StreamFault(message="broken"))),
    st.just(Reply(say="Hm.", call={"now": {}}, unfinished=True)),
)
MOMENTS = st.one_of(
    st.none(),
    st.builds(lambda at: Trigger(at=f"{at * 500}ms"), st.integers(0, 12)),
    st.builds(
        lambda after, nth: Trigger(after=after, nth=nth),
        st.sampled_from(["request", "part", "tool-started", "tool-result", "transition"]),
        st.integers(1, 6),
    ),
)
PI = ("pi", "pi@0.87.1")
ORDERS = st.sampled_from([None, PARALLEL])


@st.composite
def runs(draw: st.DrawFn, *loops: str) -> tuple[Scenario, Result]:
    """Any run of one of these loops, stopped anywhere, with replies to spare."""
    loop = draw(st.sampled_from(loops))
    world = scenario(
        *draw(st.lists(REPLIES, max_size=3)),
        Reply(say="Done.", times="always"),
        summaries=[]
        if loop not in {"reference", "pi", "opencode"}
        else [Reply(say="So.", times="always")],
        tool_execution=draw(ORDERS),
        abort=None if loop == "react" else draw(MOMENTS),
        then=draw(st.sampled_from([[], ["And?"]])),
        expect=Expect(unused=1),
    )
    return world, run(world, loop=loop)


def told_by(world: Scenario, result: Result) -> list[Any]:
    view = event_view(Simulation(world, loop=result.trace.header.loop))
    return [event for line in result.trace.entries for event in view.feed(line)]


def document(record: Iterable[AnyEntry], *, parallel: bool = False) -> list[Event]:
    view = DocumentEvents(parallel=parallel)
    return [event for line in record for event in view.feed(line)]


def shown(events: Iterable[Event]) -> list[str]:
    """The events, with the ids of calls."""
    words = []
    for event in events:
        match event:
            case ToolCallEvent(tool_call=call):
                words.append(f"tool_call {call.id}")
            case ToolResultEvent(tool_call_id=call_id):
                words.append(f"tool_result {call_id}")
            case _:
                words += types([event])
    return words


def result_events(result: Result, **how: bool) -> list[Event]:
    return document(result.trace.entries, **how)


def test_a_run_is_told_as_the_code_of_document_001_tells_it() -> None:
    first = Reply(say="I look.", call={"look": {"at": "a"}})
    result = run(scenario(first, Reply(say="It is there.")))
    assert result_events(result) == [
        MessageEvent(content="I look.", at_ns=0),
        ToolCallEvent(tool_call=RequestedCall("call-1", "look", {"at": "a"}), at_ns=0),
        ToolResultEvent(tool_call_id="call-1", result=GivenResult("found"), at_ns=SECOND),
        MessageEvent(content="It is there.", at_ns=SECOND),
        DoneEvent(reason="no_tool_calls", at_ns=SECOND),
    ]


def test_events_are_the_documents_json() -> None:
    result = run(scenario(Reply(say="Hm.", call={"now": {}}), Reply(say="Noon.")))
    encoded = [msgspec.to_builtins(event) for event in result_events(result)]
    call = {"id": "call-1", "name": "now", "params": {}}
    given_back = {"output": "noon", "details": {"zone": "UTC"}}
    assert encoded == [
        {"type": "message", "role": "assistant", "content": "Hm.", "at_ns": 0},
        {"type": "tool_call", "tool_call": call, "at_ns": 0},
        {"type": "tool_result", "tool_call_id": "call-1", "result": given_back, "at_ns": 0},
        {"type": "message", "role": "assistant", "content": "Noon.", "at_ns": 0},
        {"type": "done", "reason": "no_tool_calls", "at_ns": 0},
    ]


def test_output_is_for_the_model_and_details_are_for_the_interface() -> None:
    result = run(scenario(Reply(call={"now": {}}), Reply(say="Noon.")))
    (told,) = [e for e in result_events(result) if isinstance(e, ToolResultEvent)]
    assert told.result == GivenResult("noon", {"zone": "UTC"})
    assert [message.text for message in result.requests[-1].messages][-1] == "noon"


CALLS = {"unknown": {}, "look": {"at": 7}, "fail": {}}


def test_calls_that_cannot_run_are_told_before_they_are_looked_at() -> None:
    result = run(scenario(Reply(call=CALLS), Reply(say="Oh.")))
    assert shown(result_events(result)) == [
        "message", "tool_call call-1", "tool_result call-1", "tool_call call-2",
        "tool_result call-2", "tool_call call-3", "tool_result call-3", "message", "done",
    ]  # fmt: skip


def test_failures_have_the_documents_output_and_details() -> None:
    result = run(scenario(Reply(call=CALLS), Reply(say="Oh.")))
    told = [e.result for e in result_events(result) if isinstance(e, ToolResultEvent)]
    assert [given.output.partition("\n")[0] for given in told] == [
        "Error: tool unknown not found",
        "Error: Invalid parameters",
        "Error: no disk",
    ]
    assert list(told[1].details) == ["validationErrors"]
    assert told[2].details == {"error": "no disk"}


def test_arguments_that_are_no_json_are_told_as_the_model_wrote_them() -> None:
    result = run(scenario(Reply(call={"look": '{"at": '}), Reply(say="Oh.")))
    (told,) = [e for e in result_events(result) if isinstance(e, ToolCallEvent)]
    assert told.tool_call.params == '{"at": '


def test_in_parallel_all_calls_are_told_first_and_results_as_they_come() -> None:
    world = scenario(Reply(call=CALLS | {"now": {}}), Reply(say="Oh."), tool_execution=PARALLEL)
    assert shown(result_events(run(world), parallel=True))[1:-2] == [
        "tool_call call-1", "tool_call call-2", "tool_call call-3", "tool_call call-4",
        "tool_result call-1", "tool_result call-2", "tool_result call-4", "tool_result call-3",
    ]  # fmt: skip


def test_calls_that_share_an_id_are_told_by_the_ids_that_the_engine_gave_them() -> None:
    twice = Reply(call=[{"look": {}}, {"now": {}}], ids=["a", "a"])
    events = result_events(run(scenario(twice, Reply(say="Oh."))))
    assert shown(events)[1:-2] == [
        "tool_call a", "tool_result a", "tool_call a#2", "tool_result a#2",
    ]  # fmt: skip
    told = [event.tool_call.name for event in events if isinstance(event, ToolCallEvent)]
    assert told == ["look", "now"]


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (None, ["message", "tool_call", "tool_result", "tool_call", "tool_result"]),
        (PARALLEL, ["message", "tool_call", "tool_call", "tool_result", "tool_result"]),
    ],
)
def test_tools_that_ran_while_the_reply_went_on_are_told_after_it(
    order: ToolExecution | None, told: list[str]
) -> None:
    world = scenario(
        Reply(say="I look.", call={"look": {}, "now": {}}),
        Reply(say="Done."),
        tool_execution=order,
    )
    events = told_by(world, run(world, loop="opencode"))
    assert types(events) == [*told, "message", "done"]


def test_a_call_is_told_when_the_call_before_it_has_its_result_though_its_hooks_take_time() -> None:
    async def think(_: Any) -> None:
        await asyncio.sleep(3)

    world = scenario(Reply(call=[{"now": {}}, {"now": {}}]), Reply(say="Oh."))
    events = result_events(run(world, hooks=Hooks(before_tool_call=[think])))
    assert [e.at_ns // SECOND for e in events if isinstance(e, ToolCallEvent)] == [0, 3]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(http=Http(status=500)), "Error: "),
        (Reply(say="I look", error=StreamFault(message="overloaded")), "Error: overloaded"),
    ],
)
def test_a_run_that_fails_ends_in_one_error_and_no_done(reply: Reply, message: str) -> None:
    (event,) = result_events(run(scenario(reply)))
    assert isinstance(event, ErrorEvent)
    assert event.error.startswith(message)


def test_an_abort_during_a_tool_leaves_no_call_without_a_result() -> None:
    world = scenario(Reply(call=[{"look": {}}, {"now": {}}]), abort=Trigger(at="500ms"))
    events = result_events(run(world))
    assert shown(events) == [
        "message", "tool_call call-1", "tool_result call-1", "tool_call call-2",
        "tool_result call-2", "error",
    ]  # fmt: skip
    assert events[-1] == ErrorEvent(error="Request aborted.", at_ns=SECOND // 2)


def test_a_reply_that_is_stopped_in_the_middle_is_no_message_and_calls_nothing() -> None:
    world = scenario(Reply(say="I ", call={"look": {}}), abort=Trigger(after="tool-call"))
    assert types(result_events(run(world))) == ["error"]


def test_each_prompt_ends_in_its_own_done() -> None:
    result = run(scenario(Reply(say="One."), Reply(say="Two."), then=["And?"]))
    assert types(result_events(result)) == ["message", "done", "message", "done"]


def test_what_is_said_for_a_summary_is_no_event() -> None:
    world = scenario(
        Reply(call={"now": {}}),
        Reply(call={"now": {}}),
        Reply(say="Done."),
        compaction=Compaction(max_messages=2, keep_turns=1),
        summaries=[Reply(say="The past.", times="always")],
    )
    result = run(world)
    assert any(request.purpose == "summary" for request in result.requests)
    told = [e.content for e in result_events(result) if isinstance(e, MessageEvent)]
    assert told == ["", "", "Done."]


def test_a_loop_that_takes_one_call_tells_the_result_of_every_call() -> None:
    result = run(scenario(Reply(call=CALLS), Reply(say="Oh.")), loop="react")
    told = shown(result_events(result))
    called = [word.removeprefix("tool_call ") for word in told if word.startswith("tool_call ")]
    assert called == ["call-1", "call-2", "call-3"]
    for call_id in called:
        assert told.index(f"tool_call {call_id}") < told.index(f"tool_result {call_id}")


def test_a_stream_that_ends_without_a_finish_is_a_message_too() -> None:
    result = run(scenario(Reply(say="Hm", unfinished=True)))
    assert types(result_events(result)) == ["message", "error"]


def test_a_call_of_a_summary_is_not_taken_for_one_of_the_reply() -> None:
    world = scenario(
        Reply(call={"now": {}}),
        Reply(call={"now": {}}),
        Reply(http=Http(status=400, code="context_length_exceeded")),
        Reply(say="Done."),
        compaction=Compaction(max_messages=9, keep_turns=1),
        summaries=[Reply(say="The past.", call={"look": {}}, ids=["call-1"])],
    )
    result = run(world, loop="reference")
    assert any(isinstance(entry, entries.CallRenamed) for entry in result.trace.entries)
    assert types(result_events(result))[-2:] == ["message", "done"]


# Agents without a machine


async def asks_twice(prompt: str, world: World) -> str:
    """Ask twice at once, and run the calls of both replies."""
    asked = [world.model.reply([UserMessage(prompt)], tools=world.tools.specs) for _ in range(2)]
    replies = await asyncio.gather(*asked)
    for reply in replies:
        for call in reply.message.calls[:3]:
            await world.tools.run(call)
    return " ".join(reply.message.text for reply in replies)


def test_an_agents_messages_calls_results_and_end_are_told() -> None:
    pace = Pace(per_part="1s")
    replies = [
        Reply(say=["I ", "look."], call=CALLS | {"now": {}}, ids=["a", "b", "c", "d"], pace=pace),
        Reply(say=["Me ", "too."], pace=pace),
    ]
    events = result_events(run(scenario(*replies, *replies, then=["And?"]), loop=asks_twice))
    said = [event.content for event in events if isinstance(event, MessageEvent)]
    assert sorted(said[:2]) == ["I look.", "Me too."]
    assert shown(events)[2:9] == [
        "tool_call a", "tool_result a", "tool_call b", "tool_result b", "tool_call c",
        "tool_result c", "done",
    ]  # fmt: skip
    assert shown(events)[11:] == shown(events)[2:9]
    params = [event.tool_call.params for event in events if isinstance(event, ToolCallEvent)]
    assert params == [{}, {"at": 7}, {}] * 2


def test_a_call_that_an_agent_could_not_run_is_told_though_one_of_that_id_was_run() -> None:
    async def runs_both(prompt: str, world: World) -> None:
        await world.model.reply([UserMessage(prompt)], tools=world.tools.specs)
        for arguments in ("{}", '{"at": 7}'):
            await world.tools.run(ToolCall("a", "look", arguments))

    look = Reply(call={"look": {"at": 7}}, ids=["a"])
    events = result_events(run(scenario(look), loop=runs_both))
    assert shown(events)[1:-1] == ["tool_call a", "tool_result a"] * 2


def test_an_agent_that_fails_ends_in_an_error() -> None:
    async def fails(prompt: str, world: World) -> None:
        await world.model.reply([UserMessage(prompt)])

    result = run(scenario(Reply(http=Http(status=500))), loop=fails)
    assert types(result_events(result)) == ["error"]


@settings(derandomize=True)
@given(runs(*PI, "reference", "react"))
def test_every_call_that_is_told_gets_one_result_and_every_run_one_end(
    played: tuple[Scenario, Result],
) -> None:
    events = told_by(*played)
    calls = [e.tool_call.id for e in events if isinstance(e, ToolCallEvent)]
    results = [e.tool_call_id for e in events if isinstance(e, ToolResultEvent)]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)
    places = {e.tool_call.id: n for n, e in enumerate(events) if isinstance(e, ToolCallEvent)}
    for place, event in enumerate(events):
        assert not isinstance(event, ToolResultEvent) or places[event.tool_call_id] < place
    ends = [n for n, e in enumerate(events) if isinstance(e, DoneEvent | ErrorEvent)]
    assert len(ends) == len(played[1].outcomes)
    assert ends[-1] == len(events) - 1
    assert [e.at_ns for e in events] == sorted(e.at_ns for e in events)


@pytest.mark.slow
@pytest.mark.parametrize("order", [None, PARALLEL])
def test_a_reply_of_many_calls_is_told_in_time_that_grows_with_their_number(
    order: ToolExecution | None,
) -> None:
    played = {}
    for calls in (1_000, FACTOR * 1_000):
        many = Reply(call=[{"now": {}}] * calls)
        world = scenario(many, Reply(say="Done."), tool_execution=order)
        played[calls] = world, run(world)
    assert growth(lambda calls: told_by(*played[calls]), 1_000) < LINEAR


def test_a_trace_that_was_read_gives_the_events_of_the_run(tmp_path: Path) -> None:
    result = run(scenario(Reply(say="I look.", call=CALLS), Reply(say="Oh.")))
    write_trace(result.trace, tmp_path / "a.jsonl")
    again = read_trace(tmp_path / "a.jsonl").entries
    assert document(again) == document(result.trace.entries)


def test_a_trace_without_an_end_gives_no_end() -> None:
    result = run(scenario(Reply(say="I look.", call={"look": {}}), Reply(say="Oh.")))
    assert types(document(result.trace.entries[:-1]))[-1] == "message"

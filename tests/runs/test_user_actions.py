import asyncio

import pytest
from builders import play_text
from worlds import Opened, in_world

from simloop import Outcome, Reply, Result, Scenario, ScriptedTool, ScriptUnused, run
from simloop.kernel.signals import AbortRequested
from simloop.messages import Counters, FinishReason
from simloop.runs.prompt import Timetable
from simloop.runs.run import Simulation
from simloop.scenario.schema import Queued, Trigger
from simloop.trace.entries import Finish, TextDelta, Transition

PARTS = {"text-delta", "tool-call", "finish"}


def scenario(abort: Trigger | None = None) -> Scenario:
    return Scenario(
        prompt="Look.",
        tools={"look": ScriptedTool(returns="found", takes="1s")},
        model=[
            Reply(say=["I ", "look."], call=[{"look": {}}, {"look": {}}]),
            Reply(say="Done."),
        ],
        abort=abort,
    )


def stopped(moment: Trigger) -> Simulation:
    simulation = Simulation(scenario(abort=moment))
    with pytest.raises(ScriptUnused):
        simulation.run()
    return simulation


@pytest.mark.parametrize(
    ("moment", "last"),
    [
        (Trigger(after="part"), "text-delta"),
        (Trigger(after="part", nth=2), "text-delta"),
        (Trigger(after="part", nth=5), "finish"),
        (Trigger(after="request"), "request"),
        (Trigger(after="tool-call", nth=2), "tool-call"),
        (Trigger(after="tool-started"), "tool-started"),
        (Trigger(after="tool-result"), "tool-result"),
        (Trigger(after="transition", nth=4), "transition"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.after}-{value.nth}",
)
def test_an_abort_comes_when_the_trace_shows_it(moment: Trigger, last: str) -> None:
    record = stopped(moment).trace.entries
    kinds = [str(type(entry).__struct_config__.tag) for entry in record]
    stop = kinds.index("stop-requested")
    counted = PARTS if moment.after == "part" else {moment.after}
    before = [kind for kind in kinds[:stop] if kind != "answered"]
    assert sum(kind in counted for kind in before) == moment.nth
    assert before[-1] == last
    finished = record[stop + 1]
    assert isinstance(finished, Transition)
    assert (type(finished.signal), finished.state) == (AbortRequested, "finished")


NEVER = """
prompt: Look.
then: [And now]
tools: {look: {takes: 1s}}
model: [{call: {look: {}}}, {say: Done.}, {say: Done.}]
"""
TOO_LATE = [
    ("abort: {after: backoff}", "abort"),
    ("abort: {after: tool-result, nth: 2}", "abort"),
    ("abort: {at: 1001ms}", "abort"),
    ("queue: [{at: 1s, say: x}, {at: 2s, say: y}]", "queue.1"),
    ("queue: [{after: backoff, say: x}, {after: part, nth: 9, say: y}]", "queue.0, queue.1"),
]


@pytest.mark.parametrize(("moments", "places"), TOO_LATE, ids=[one[0] for one in TOO_LATE])
@pytest.mark.parametrize("loop", ["reference", "pi", "opencode"])
def test_a_moment_that_never_comes_is_an_error_that_names_it(
    loop: str, moments: str, places: str
) -> None:
    with pytest.raises(ScriptUnused, match=f"these actions of the user never happened: {places} "):
        play_text(NEVER + moments, loop=loop)


def test_replies_and_moments_that_are_left_over_are_named_together() -> None:
    text = "prompt: x\nmodel: [{http: {status: 401}}, {say: x}]\nabort: {after: backoff}"
    with pytest.raises(
        ScriptUnused, match=r"model\.1; these actions of the user never happened: abort"
    ):
        play_text(text)
    assert play_text(f"{text}\nexpect: {{outcome: failed, unused: 2}}").failures == ()


@pytest.mark.parametrize("moment", [{}, {"at": "1s", "after": "part"}], ids=["neither", "both"])
def test_a_moment_is_a_time_or_something_that_the_trace_shows(moment: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="give either at"):
        Trigger.model_validate(moment)


def told(**when: object) -> Result:
    plan = Queued.model_validate({"say": "And the tests?", **when})
    world = Scenario(
        prompt="Look.",
        tools={"look": ScriptedTool(returns="found", takes="1s")},
        model=[
            Reply(call={"look": {}}),
            Reply(say="Done."),
            *([Reply(say="Fine.")] if when.get("after") == "finish" else []),
        ],
        queue=[plan],
    )
    return run(world)


def texts(result: Result) -> list[list[str]]:
    return [[message.text for message in request.messages] for request in result.requests]


def test_a_message_queued_during_a_tool_goes_with_the_next_request() -> None:
    assert texts(told(after="tool-started"))[1] == ["Look.", "", "found", "And the tests?"]


def test_a_run_that_would_be_done_goes_on_with_what_is_queued() -> None:
    result = told(after="finish", nth=2)
    assert result.text == "Fine."
    assert texts(result)[2][-2:] == ["Done.", "And the tests?"]


def test_an_action_happens_in_the_next_turn_and_not_inside_the_component_that_records() -> None:
    async def main(opened: Opened) -> tuple[bool, list[str], list[str]]:
        moment, done = Queued(say="y", after="part", nth=2), list[str]()
        table = Timetable(Scenario(prompt="x", queue=[moment]), opened.world)
        table._set(moment, lambda: done.append("first"))
        table._set(moment, lambda: done.append("second"))
        table._see(TextDelta(0, 0, 1, "x"))
        early = not table.never_came(0)
        table._see(Finish(1, 0, 1, FinishReason.STOP, "stop"))
        inside = list(done)
        assert table.never_came(0) == []
        await asyncio.sleep(0)
        return early, inside, done

    assert in_world(main) == (False, [], ["first", "second"])


def test_the_end_of_a_stream_that_was_cut_is_a_moment_and_no_part() -> None:
    text = "prompt: x\nabort: {after: %s}\nmodel: [{say: Half, unfinished: true}]"
    cut = play_text(text % "stream-cut")
    assert (cut.outcome, cut.counters) == (Outcome.ABORTED, Counters(0, 0, 0))
    with pytest.raises(ScriptUnused, match="these actions of the user never happened: abort"):
        play_text((text % "'part', nth: 2") + "\nlimits: {max_error_count: 1}")


def test_an_abort_that_came_is_used_also_where_the_script_need_not_fit() -> None:
    result = Simulation(scenario(abort=Trigger(at="500ms"))).run_unchecked()
    assert result.unused_places == ("model.1",)

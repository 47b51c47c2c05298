"""The summary of a trace: its ends, its time, and its rounds."""

import asyncio

import pytest

from simloop import (
    Hooks,
    Http,
    Outcome,
    Reply,
    Scenario,
    ScriptedHook,
    ScriptedTool,
    run,
)
from simloop.messages import UserMessage
from simloop.scenario.schema import Trigger
from simloop.trace import entries
from simloop.trace.looptrace import LoopTrace
from simloop.world.world import World


def rounds(trace: LoopTrace) -> list[tuple[int, str | None, tuple[str, ...]]]:
    return [(r.request_number, r.finish_reason, r.tools) for r in trace.rounds()]


def test_rounds_summarise_each_call_of_the_model() -> None:
    scenario = Scenario(
        prompt="Hi",
        tools={"look": ScriptedTool(returns="x")},
        model=[Reply(http=Http(status=500)), Reply(call={"look": {}}), Reply(say="Done.")],
    )
    assert rounds(run(scenario).trace) == [
        (1, None, ()),
        (2, "tool-calls", ("look",)),
        (3, "stop", ()),
    ]


def test_a_round_knows_its_size_and_the_time_of_its_hooks() -> None:
    async def slow(_: object) -> None:
        await asyncio.sleep(0.25)

    trace = run(
        Scenario(prompt="Hi", model=[Reply(say="Hello.")]),
        hooks=Hooks(before_llm_call=[slow], after_llm_call=[slow]),
    ).trace
    (only,) = trace.rounds()
    assert (only.messages, only.tokens, only.hooks_ns) == (1, 5, 500_000_000)


def test_rounds_are_those_of_a_loop_that_measures_nothing_too() -> None:
    scenario = Scenario(
        prompt="Hi",
        loop="react",
        then=["Again"],
        tools={"look": ScriptedTool(returns="x")},
        model=[Reply(call={"look": {}}), Reply(say="Done."), Reply(say="Done again.")],
    )
    assert rounds(run(scenario).trace) == [
        (1, "tool-calls", ("look",)),
        (2, "stop", ()),
        (3, "stop", ()),
    ]


@pytest.mark.parametrize("loop", ["reference", "pi", "opencode"])
def test_the_rounds_of_a_loop_that_has_hooks_have_the_time_of_their_own_hooks(loop: str) -> None:
    hooks = [
        ScriptedHook(at="before_llm_call", nth=2, takes="250ms"),
        ScriptedHook(at="after_llm_call", nth=1, takes="500ms"),
    ]
    scenario = Scenario(
        prompt="Hi",
        loop=loop,
        hooks=hooks,
        tools={"look": ScriptedTool(returns="x")},
        model=[Reply(call={"look": {}}), Reply(say="Done.")],
    )
    trace = run(scenario).trace
    assert [r.hooks_ns for r in trace.rounds()] == [500_000_000, 250_000_000]


def test_hooks_that_run_at_once_count_once_in_the_time_of_a_round() -> None:
    durations = ["300ms", "500ms", "200ms"]
    hooks = [ScriptedHook(at="before_llm_call", takes=t, independent=True) for t in durations]
    scenario = Scenario(
        prompt="Hi",
        hooks=[*hooks, ScriptedHook(at="before_llm_call", takes="100ms")],
        hook_execution={"order": "parallel"},
        model=[Reply(say="Done.")],
    )
    assert [r.hooks_ns for r in run(scenario).trace.rounds()] == [600_000_000]


FORCED = Scenario(
    prompt="Hi",
    tools={"look": ScriptedTool(returns="x" * 400)},
    model=[
        Reply(call={"look": {}}, times=2),
        Reply(http=Http(status=400, code="context_length_exceeded")),
        Reply(say="Done."),
    ],
    summaries=[Reply(say="Looked.")],
)


def test_a_failed_call_has_no_finish_though_a_summary_that_follows_it_has() -> None:
    trace = run(FORCED).trace
    compacted = [entry for entry in trace.entries if isinstance(entry, entries.Compaction)]
    assert [entry.forced for entry in compacted] == [True]
    assert [(r.finish_reason, r.tools) for r in trace.rounds()] == [
        ("tool-calls", ("look",)),
        ("tool-calls", ("look",)),
        (None, ()),
        ("stop", ()),
    ]


def test_a_call_that_is_made_after_an_abort_is_a_round_without_a_finish() -> None:
    scenario = Scenario(
        prompt="Hi",
        loop="pi@0.87.1",
        tools={"look": ScriptedTool(takes="2s")},
        model=[Reply(call={"look": {}})],
        abort=Trigger(at="1s"),
    )
    assert rounds(run(scenario).trace) == [(1, "tool-calls", ("look",)), (2, None, ())]


async def asks_three_times(prompt: str, world: World) -> str:
    """Ask twice at the same time, run a tool, and ask again."""
    messages = [UserMessage(prompt)]
    first, second = await asyncio.gather(world.model.reply(messages), world.model.reply(messages))
    for call in (*first.message.calls, *second.message.calls):
        await world.tools.run(call)
    return (await world.model.reply(messages)).message.text


def test_an_agent_has_one_round_for_each_of_its_requests_though_it_records_no_decision() -> None:
    scenario = Scenario(
        prompt="Hi",
        tools={"look": ScriptedTool(returns="x", takes="1s")},
        model=[
            Reply(say="A.", pace={"first_part": "2s"}, finish="length"),
            Reply(call={"look": {}}, pace={"first_part": "1s"}),
            Reply(say="Done."),
        ],
    )
    assert rounds(run(scenario, loop=asks_three_times).trace) == [
        (1, "length", ()),
        (2, "tool-calls", ("look",)),
        (3, "stop", ()),
    ]


def test_a_trace_knows_the_outcomes_of_its_prompts_and_its_time_also_when_it_was_cut() -> None:
    scenario = Scenario(
        prompt="Hi",
        then=["Again"],
        model=[Reply(http=Http(status=401)), Reply(say="Done.", pace={"first_part": "2s"})],
    )
    trace = run(scenario).trace
    assert trace.outcomes == (Outcome.FAILED, Outcome.COMPLETED)
    assert [end.text for end in trace.ends] == ["", "Done."]
    cut = LoopTrace(trace.header, trace.entries[:-1])
    assert cut.outcomes == (Outcome.FAILED,)
    assert cut.elapsed_ns == trace.elapsed_ns == 2 * 10**9
    assert LoopTrace(trace.header).elapsed_ns == 0

"""Stopping any run at any instant."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st
from pacing import MS, nap, paced
from stopping import (
    CALLBACKS,
    COMPACTS,
    PAD,
    POINTS,
    Stop,
    begun_after,
    endings,
    look,
    note,
    play,
    run_text_matches_last_reply,
    script,
    unanswered,
    unpaired,
)

from simloop import Callbacks, Hooks, Http, Outcome, Reply, Scenario, ToolExecution
from simloop.kernel.policies import ToolOrder
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import ToolResultPart


async def swallows() -> str:
    try:
        await nap(8)
    except asyncio.CancelledError:
        return "stopped"
    return "slept"


async def cancels_itself() -> str:
    await nap(3)
    raise asyncio.CancelledError


async def fails() -> str:
    await nap(3)
    raise ValueError("no")


TOOLS: tuple[Callable[[], Any], ...] = (note, look, swallows, cancels_itself, fails)
waits = st.integers(0, 4)
paces = st.builds(
    lambda first, each: paced(first_part=f"{first}ms", per_part=f"{each}ms"), waits, waits
)
names = st.sampled_from([*(tool.__name__ for tool in TOOLS), "unknown"])
Calls = list[dict[str, Any]]


def call(name: str) -> dict[str, Any]:
    return {name: {}}


def broken_call(name: str) -> Calls:
    return [{name: '{"broken'}]


calls: st.SearchStrategy[Calls] = st.lists(names.map(call), min_size=1, max_size=3)
replies = st.one_of(
    st.builds(Reply, say=st.just([PAD]), call=calls | names.map(broken_call), pace=paces),
    st.builds(
        Reply, call=calls, finish=st.sampled_from(["stop", "length", "tool-calls"]), pace=paces
    ),
    st.builds(Reply, say=st.just("Half."), call=calls, unfinished=st.just(value=True), pace=paces),
    st.builds(Reply, say=st.just("Half."), call=calls, lost=st.just("mid-output"), pace=paces),
    st.builds(Reply, http=st.just(Http(status=503)), pace=paces),
    st.builds(Reply, finish=st.just("stop"), pace=paces),
)


@st.composite
def stories(draw: st.DrawFn) -> tuple[Scenario, dict[str, Any]]:
    """Any script, with hooks and callbacks that wait for a while."""

    def waiting(milliseconds: int) -> Callable[..., Any]:
        async def wait(*given: object) -> None:
            # Results are told after an abort, too; a callback that waits for them has its grace.
            if not any(isinstance(one, ToolResultPart) for one in given):
                await nap(milliseconds)

        return wait

    scenario = Scenario(
        prompt="Go.",
        compaction=COMPACTS,
        tool_execution=ToolExecution(
            order=draw(st.sampled_from(get_args(ToolOrder))),
            timeout_ms=draw(st.none() | st.integers(1, 9)),
        ),
        retry=ExponentialBackoff(initial_delay_ms=5),
    )
    hooks = {point: [waiting(draw(waits))] for point in POINTS if draw(st.booleans())}
    names = [name for name in CALLBACKS if name != "on_tool_result"]
    callbacks = {name: waiting(draw(waits)) for name in names if draw(st.booleans())}
    rounds = [*draw(st.lists(replies, max_size=5)), Reply(say="The end.", pace=draw(paces))]
    return scenario, {
        "hooks": Hooks(**hooks),
        "callbacks": Callbacks(**callbacks),
        "tools": TOOLS,
        "model": script(*rounds, summaries=[Reply(say="So far.", pace=draw(paces))] * 2),
    }


@given(story=stories(), at_ms=st.integers(0, 120))
def test_any_run_stopped_at_any_time_leaves_nothing_open(
    story: tuple[Scenario, dict[str, Any]], at_ms: int
) -> None:
    scenario, code = story
    stopped = play(scenario, Stop(), at_ns=at_ms * MS, **code)
    result = stopped.result
    assert unpaired(result.messages) == []
    assert unanswered(result.trace) == Counter()
    assert len(endings(result.trace)) == 1
    assert stopped.tasks_left == 0
    assert result.text == run_text_matches_last_reply(result.trace)
    if result.outcome is Outcome.ABORTED:
        assert result.elapsed_ns == stopped.at_ns
        assert begun_after(stopped) == []
    else:
        assert result.elapsed_ns <= at_ms * MS

"""Stopping a rich run at every single instant."""

from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from builders import counters_of
from pacing import MS, nap, paced
from stopping import (
    CALLBACKS,
    COMPACTS,
    EARLY,
    EARLY_PARALLEL,
    PAD,
    PARALLEL,
    POINTS,
    Stop,
    Stopped,
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

from simloop import Callbacks, Hooks, Http, Limits, Outcome, Reply, Scenario, ToolExecution
from simloop.kernel.retry import ExponentialBackoff
from simloop.runs.run import Simulation


def rich_story() -> dict[str, Any]:
    """Everything that takes time, one after the other: hooks, callbacks, streams, tools, waits."""

    async def waits(*_: object) -> None:
        await nap(2)

    hooks = Hooks(**{point: [waits, waits] for point in POINTS})
    waiting = [name for name in CALLBACKS if name != "on_tool_result"]
    pace = paced(first_part="4ms", per_part="4ms")
    return {
        "hooks": hooks,
        "callbacks": Callbacks(**dict.fromkeys(waiting, waits)),
        "tools": [note, look],
        "model": script(
            Reply(http=Http(status=429), pace=pace),
            Reply(say=[PAD], call=[{"look": {}}, {"note": {}}, {"gone": {}}], pace=pace),
            Reply(think="Hm.", say=[PAD], call={"note": {}}, finish="stop", pace=pace),
            Reply(say=["The ", "end."], pace=pace),
            summaries=[Reply(say=["Two ", "notes."], pace=pace)],
        ),
    }


def rich_scenario(order: ToolExecution, limits: Limits | None = None) -> Scenario:
    return Scenario(
        prompt="Go.",
        compaction=COMPACTS,
        tool_execution=order,
        limits=limits or Limits(),
        retry=ExponentialBackoff(initial_delay_ms=20),
    )


@cache
def rich_instants(order: ToolExecution) -> tuple[int, ...]:
    """When something happens, and moments in between; the run's end is the last of them."""
    result = Simulation(rich_scenario(order), **rich_story()).run()
    assert result.outcome is Outcome.COMPLETED
    assert counters_of(result).compaction_attempts == 1
    happens = sorted({entry.at_ns // MS for entry in result.trace.entries})
    between = {(a + b) // 2 for a, b in pairwise(happens)}
    return tuple(sorted({*happens, *between, result.elapsed_ns // MS}))


@cache
def rich_runs(order: ToolExecution, by: str) -> tuple[Stopped, ...]:
    return tuple(_rich_runs(order, by))


def _rich_runs(order: ToolExecution, by: str) -> Iterable[Stopped]:
    for at_ms in rich_instants(order):
        if by == "abort":
            yield play(rich_scenario(order), Stop(), at_ns=at_ms * MS, **rich_story())
        elif at_ms:
            scenario = rich_scenario(order, Limits(max_wall_clock_ms=at_ms))
            yield play(scenario, Stop(presses=0), at_ns=at_ms * MS, **rich_story())


@pytest.mark.parametrize(
    "order",
    [ToolExecution(), PARALLEL, EARLY, EARLY_PARALLEL],
    ids=["sequential", "parallel", "when called", "parallel when called"],
)
@pytest.mark.parametrize("by", ["abort", "wall clock"])
class TestAtEveryInstant:
    """A rich run, stopped at each instant at which something happens and between them."""

    def test_the_run_ends_once_and_says_how(self, order: ToolExecution, by: str) -> None:
        signal = {"abort": "abort-requested", "wall clock": "wall-clock-expired"}[by]
        found = {s.at_ns: endings(s.result.trace) for s in rich_runs(order, by)}
        assert [at_ns for at_ns, signals in found.items() if signals != [signal]] == []

    def test_the_run_ends_there_and_then(self, order: ToolExecution, by: str) -> None:
        found = [(s.at_ns, s.result.elapsed_ns) for s in rich_runs(order, by)]
        assert [pair for pair in found if pair[0] != pair[1]] == []

    def test_no_model_call_and_no_tool_begins_afterwards(
        self, order: ToolExecution, by: str
    ) -> None:
        assert [(s.at_ns, begun_after(s)) for s in rich_runs(order, by) if begun_after(s)] == []

    def test_every_call_in_the_transcript_has_its_result(
        self, order: ToolExecution, by: str
    ) -> None:
        wrong = {s.at_ns: unpaired(s.result.messages) for s in rich_runs(order, by)}
        assert not any(wrong.values()), wrong

    def test_every_announced_call_has_one_result_in_the_trace(
        self, order: ToolExecution, by: str
    ) -> None:
        wrong = {s.at_ns: unanswered(s.result.trace) for s in rich_runs(order, by)}
        assert not any(wrong.values()), wrong

    def test_the_text_so_far_is_kept(self, order: ToolExecution, by: str) -> None:
        results = [s.result for s in rich_runs(order, by)]
        assert [r.text for r in results] == [run_text_matches_last_reply(r.trace) for r in results]

    def test_no_task_is_left_behind(self, order: ToolExecution, by: str) -> None:
        assert [s.at_ns for s in rich_runs(order, by) if s.tasks_left] == []

    def test_the_same_stop_gives_the_same_trace(self, order: ToolExecution, by: str) -> None:
        again = next(iter(_rich_runs(order, by)))
        assert again.entries == rich_runs(order, by)[0].entries

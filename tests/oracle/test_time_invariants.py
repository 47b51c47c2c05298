"""Each invariant on virtual time is violated by a record with other times."""

from typing import Any

import msgspec
import pytest
from faultyruns import DONE, LOOK, Edit, later, place, scenario, violated

from simloop import Scenario
from simloop.trace.entries import Compaction, Ended, Request, StopRequested, ToolResult, ToolStarted

SLOW = {"look": {"takes": "2s", "returns": "seen"}}
TWO: dict[str, object] = {"call": [{"look": {}}, {"look": {}}]}
LASTING = {"look": {"takes": "10s", "outlives_cancel": "200ms"}}
PARALLEL = {"order": "parallel"}


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


CASES = [
    ("no-idle-time", later(ToolStarted, 1), scenario(LOOK, DONE)),
    ("no-idle-time", later(Request, 0.001, 1), scenario(LOOK, DONE)),
    ("scripted-tool-durations", later(ToolResult, 1), scenario(LOOK, DONE, tools=SLOW)),
    ("cancelled-tools-waited-for", ended_with_the_stop,
     scenario(LOOK, DONE, then=["Again."], abort={"at": "1s"}, tools=LASTING,
     tool_execution={"start": "when-called"})),
    ("parallel-tools-start-at-once", later(ToolStarted, 1, 1),
     scenario(TWO, DONE, tools=SLOW, tool_execution=PARALLEL)),
    ("parallel-tools-start-at-once", later(ToolStarted, 1, 1),
     scenario(TWO, DONE, tools=SLOW, tool_execution={**PARALLEL, "start": "when-called"})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played"), CASES)
def test_time_that_passes_for_nothing_is_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)


def test_a_stall_in_a_summary_is_ended_at_the_limit_of_model_calls() -> None:
    long = {"say": "x" * 200, "call": {"look": {}}}
    compaction = {"window": 120, "keep_turns": 1}
    stalls = [{"stall": "before-headers"}]
    played = scenario(long, long, DONE, compaction=compaction, summaries=stalls)
    assert not violated(played)
    assert "model-call-timeouts" in violated(played, later(Compaction, 60))

"""Each invariant on virtual time is violated by an engine that is broken in one line."""

import pytest
from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated

from simloop import Scenario

CALLS = "engine.tool_calls:ToolCalls"
HANDLERS = "engine.handlers:EffectHandlers"
SLOW = {"look": {"takes": "2s", "returns": "seen"}}
TWO: dict[str, object] = {"call": [{"look": {}}, {"look": {}}]}
LASTING = {"look": {"takes": "10s", "outlives_cancel": "200ms"}}
PARALLEL = {"order": "parallel"}

CASES = [
    (
        "no-idle-time",
        part(
            f"{HANDLERS}._run_tools",
            "await calls.run(",
            "await asyncio.sleep(1)\n    await calls.run(",
        ),
        scenario(LOOK, DONE),
    ),
    (
        "no-idle-time",
        part(f"{HANDLERS}._call_model", "cancellation.check()", "await asyncio.sleep(0.001)"),
        scenario(LOOK, DONE),
    ),
    (
        "scripted-tool-durations",
        part(
            "world.tools_port:ToolsPort.wait",
            "result = result_of(await started)",
            "result = result_of(await started); await asyncio.sleep(1)",
        ),
        scenario(LOOK, DONE, tools=SLOW),
    ),
    (
        "cancelled-tools-waited-for",
        part(
            "engine.running_tasks:RunningTasks.stop",
            "await asyncio.gather(*self.tasks, return_exceptions=True)",
            "await asyncio.sleep(0)",
        ),
        scenario(
            LOOK,
            DONE,
            then=["Again."],
            abort={"at": "1s"},
            tools=LASTING,
            tool_execution={"start": "when-called"},
        ),
    ),
    (
        "parallel-tools-start-at-once",
        part(f"{CALLS}.run", "self._is_parallel(tools)", "False"),
        scenario(TWO, DONE, tools=SLOW, tool_execution=PARALLEL),
    ),
    (
        "parallel-tools-start-at-once",
        part(f"{CALLS}.start_newest", "not self._in_parallel", "True"),
        scenario(TWO, DONE, tools=SLOW, tool_execution={**PARALLEL, "start": "when-called"}),
    ),
]


@pytest.mark.parametrize(("name", "broken", "played"), CASES)
def test_time_that_passes_for_nothing_is_found(name: str, broken: Part, played: Scenario) -> None:
    assert not violated(played)
    with faulty(broken):
        assert name in violated(played)


def test_a_stall_in_a_summary_is_ended_at_the_limit_of_model_calls() -> None:
    long = {"say": "x" * 200, "call": {"look": {}}}
    played = scenario(
        long,
        long,
        DONE,
        compaction={"window": 120, "keep_turns": 1},
        summaries=[{"stall": "before-headers"}],
    )
    assert not violated(played)
    broken = part(
        "engine.model_calls:ModelCalls._read_parts",
        "start_ns + self._first_ns",
        "start_ns + self._first_ns * (1 + quiet)",
    )
    with faulty(broken):
        assert violated(played) == {"model-call-timeouts"}

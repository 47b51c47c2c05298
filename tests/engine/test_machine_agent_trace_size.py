"""The text of a trace is bounded, whoever says it; the error names the key of the bound."""

import json
from typing import Any

import pytest

from simloop import RunawayRun, ScenarioError, parse_scenario
from simloop.kernel.limits import MAX_TRANSITIONS
from simloop.runs.run import Simulation
from simloop.trace.recorder import MAX_TRACE_CHARS

LONG = "x" * 400
CALL = {"call": {"look": {}}, "times": "always"}
LOOK = {"look": {"returns": "found"}}
FAILING = {"limits": {"max_error_count": 99}}
HOOK = {"at": "before_tool_call", "raises": LONG}
SPEAKERS: dict[str, dict[str, Any]] = {
    "a tool": {"tools": {"look": {"returns": LONG}}, "model": [CALL]},
    "a tool's details": {"tools": {"look": {"details": LONG}}, "model": [CALL]},
    "a tool that raises": {"tools": {"look": {"raises": LONG}}, "model": [CALL]},
    "the model": {"tools": LOOK, "model": [{**CALL, "say": LONG}]},
    "its reasoning": {"tools": LOOK, "model": [{**CALL, "think": LONG}]},
    "its arguments": {"tools": LOOK, "model": [{**CALL, "call": {"look": {"a": LONG}}}]},
    "a provider that fails": {
        "model": [{"http": {"status": 500, "message": LONG}, "times": "always"}], **FAILING
    },
    "a header": {
        "model": [{"http": {"status": 500, "headers": {"a": LONG}}, "times": "always"}], **FAILING
    },
    "a hook": {"tools": LOOK, "model": [CALL], "hooks": [HOOK]},
    "a hook that changes the system prompt now and then": {
        "tools": LOOK,
        "model": [CALL],
        "hooks": [
            {"at": "before_llm_call", "system_prompt": LONG, "nth": n} for n in range(1, 20, 2)
        ],
    },
    "the user": {
        "tools": LOOK,
        "model": [CALL],
        "queue": [{"after": "tool-started", "nth": n, "say": LONG} for n in range(1, 20)],
    },
    "requests for summaries": {
        "prompt": LONG,
        "tools": LOOK,
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


def test_the_texts_of_one_reply_are_bounded_too() -> None:
    calls: list[dict[str, Any]] = [{"look": {}} for _ in range(200)]
    scenario = parse_scenario(
        json.dumps(
            {
                "prompt": "Go.",
                "tools": {"look": {"returns_chars": 50_000}},
                "model": [{"call": calls}],
                "max_trace_chars": 200_000,
            }
        )
    )
    simulation = Simulation(scenario)
    with pytest.raises(RunawayRun):
        simulation.run()
    results = sum(type(entry).__name__ == "ToolResult" for entry in simulation.trace.entries)
    assert results == 3


@pytest.mark.parametrize(
    ("key", "most"),
    [("max_transitions", MAX_TRANSITIONS), ("max_trace_chars", 10 * MAX_TRACE_CHARS)],
)
def test_the_bounds_are_bounded_themselves(key: str, most: int) -> None:
    parse_scenario(f"prompt: x\n{key}: {most}\n")
    with pytest.raises(ScenarioError, match=rf"a\.yaml:2:\d+: {key}: .*{most}"):
        parse_scenario(f"prompt: x\n{key}: {10**18}\n", "a.yaml")

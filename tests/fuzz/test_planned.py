import json
from typing import Any

import pytest

from simloop import Scenario, parse_scenario
from simloop.check.trial import failure_of
from simloop.fuzz.shrink import shrink, with_planned_faults
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.scenario.catalog import bundled_names, find_bundled
from simloop.scenario.loader import load_scenario
from simloop.scenario.writing import content
from simloop.trace import entries

STORM = load_scenario(find_bundled("chance/storm"))


def with_content(tree: dict[str, Any], **expect: Any) -> Scenario:
    """The scenario of this content with other expectations: by default any end."""
    whole = {**tree, "expect": expect or {"outcomes": ["..."], "unused": 1}, "expect_on": {}}
    return Scenario.model_validate_json(json.dumps(whole))


def planned(scenario: Scenario) -> tuple[list[Any], list[Any]]:
    """The faults of a run by chance, and those of the scenario that is made of it."""
    first = Simulation(scenario)
    first.run()
    made = with_planned_faults(content(scenario), first.trace.entries)
    assert "faults" not in made
    second = Simulation(with_content(made))
    second.run()
    return faults_of(first), faults_of(second)


def faults_of(simulation: Simulation) -> list[Any]:
    """The failed calls with the number of the request, whatever their words."""
    return [
        (entry.request, entry.fault.status, entry.fault.code)
        for entry in simulation.trace.entries
        if isinstance(entry, entries.Error)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_the_planned_faults_are_those_that_came_by_chance(seed: int) -> None:
    storm = with_content({**content(STORM), "seed": seed})
    by_chance, planned_ones = planned(storm)
    assert by_chance == planned_ones
    assert by_chance


def test_replies_are_written_as_they_came() -> None:
    scenario = parse_scenario("""
prompt: Look.
tools: {look: {returns: seen}}
model:
  - say: [I, " look."]
    think: Hm.
    call: {look: {deep: true}}
    usage: {input: 5, output: 7}
  - {call: {look: broken}, finish: odd}
  - {http: {status: 503, message: Later., code: busy}}
  - {say: Half, unfinished: true}
  - {say: Half, lost: mid-output}
  - say: Done.
limits: {max_error_count: 9}
""")
    simulation = Simulation(scenario)
    simulation.run()
    made = with_planned_faults(content(scenario), simulation.trace.entries)["model"]
    assert made == [
        {
            "think": ["Hm."],
            "say": ["I", " look."],
            "call": [{"look": {"deep": True}}],
            "ids": ["call-1"],
            "finish": "tool-calls",
            "usage": {"input": 5, "output": 7},
        },
        {"call": [{"look": "broken"}], "ids": ["call-2"], "finish": "odd"},
        {"http": {"status": 503, "message": "Later.", "code": "busy", "headers": {}}},
        {"say": ["Half"], "unfinished": True},
        {"say": ["Half"], "lost": "mid-output"},
        {"say": ["Done."], "finish": "stop"},
    ]


@pytest.mark.slow
def test_a_failure_by_chance_is_shrunk_to_planned_faults() -> None:
    storm = with_content(content(STORM), counters={"error_count": 0})
    found = shrink(storm, seconds=600)
    assert found is not None
    assert found.scenario.faults is None
    assert found.failure.text == "expect.counters.error_count: expected 0, got 19"
    assert content(found.scenario)["model"] == [
        {"http": {"status": 429}, "times": 19},
        {"say": "Ten"},
    ]
    assert failure_of(Plan(found.scenario, {})) == found.failure


def test_a_tool_that_failed_by_chance_fails_by_plan() -> None:
    tools = load_scenario(find_bundled("chance/tools"))
    assert "chance/tools" in bundled_names()
    simulation = Simulation(tools)
    simulation.run()
    lost = {
        entry.name
        for entry in simulation.trace.entries
        if isinstance(entry, entries.ToolResult) and "lost its connection" in entry.text
    }
    made = with_planned_faults(content(tools), simulation.trace.entries)["tools"]
    assert {name for name, tool in made.items() if "raises" in tool} == lost
    assert lost

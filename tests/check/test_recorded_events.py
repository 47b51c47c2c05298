import sys
from pathlib import Path

import msgspec
import pytest

from simloop.check.replay import recorded_events
from simloop.errors import ScenarioError
from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.trace.looptrace import LoopTrace

TWO_CALLS = """
prompt: Hi
tools: {read: {takes: 1s}}
model: [{call: [{read: {}}, {read: {}}]}, {say: Done.}]
"""


def recorded(order: str, loop: str) -> LoopTrace:
    """The trace of two calls, under the name of another loop."""
    text = f"{TWO_CALLS}tool_execution: {{order: {order}}}\n"
    trace = run(parse_scenario(text)).trace
    header = msgspec.structs.replace(trace.header, loop=loop, python=("loop",))
    return msgspec.structs.replace(trace, header=header)


def event_types(trace: LoopTrace) -> list[str]:
    view = recorded_events(trace, "document")
    made = (event for entry in trace.entries for event in view.feed(entry))
    return [msgspec.to_builtins(event)["type"] for event in made]


def test_tools_of_an_unknown_loop_ran_at_once_if_its_trace_says_so() -> None:
    one_by_one = event_types(recorded("sequential", "mine:loop"))
    at_once = event_types(recorded("parallel", "mine:loop"))
    assert sorted(one_by_one) == sorted(at_once)
    assert one_by_one != at_once


def test_the_loop_that_a_trace_names_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_strangers_module.py").write_text("loop = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert event_types(recorded("sequential", "a_strangers_module:loop"))
    assert "a_strangers_module" not in sys.modules


def test_the_events_of_the_session_of_an_unknown_loop_are_refused() -> None:
    with pytest.raises(ScenarioError, match="mine:loop"):
        recorded_events(recorded("sequential", "mine:loop"), "session")

"""A trace, a scenario file and a name are opened alike."""

from pathlib import Path

import pytest
from screens import TRACES

from simloop.errors import ScenarioError
from simloop.scenario.catalog import find
from simloop_tui.opening import is_trace, opened_scenario, opened_trace

BAD = "title: It ends early\nprompt: Hi\nmodel: []\nexpect: {outcome: completed}\n"


def test_a_name_is_run_and_has_the_entries_of_its_recorded_trace() -> None:
    run, read = (
        opened_scenario(find("quickstart")),
        opened_trace(str(TRACES / "start.quickstart.trace.jsonl")),
    )
    assert run.entries == read.entries
    assert run.machine is not None
    assert read.scenario is not None


def test_the_loop_and_the_seed_are_those_given() -> None:
    recording = opened_scenario(find("finish-reasons/stop"), loop="react", seed=7)
    assert (recording.trace.header.loop, recording.trace.header.seed) == ("react", 7)


def test_a_run_that_breaks_its_scenario_is_opened_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "bad.simloop.yaml"
    path.write_text(BAD, "utf-8")
    assert opened_scenario(path).entries


def test_a_trace_is_known_by_its_name_or_by_its_first_line(tmp_path: Path) -> None:
    other = tmp_path / "trace"
    other.write_bytes((TRACES / "start.quickstart.trace.jsonl").read_bytes())
    assert is_trace("missing.jsonl")
    assert is_trace(str(other))
    assert not is_trace("quickstart")
    assert not is_trace(str(tmp_path))


def test_a_file_that_is_missing_is_an_error() -> None:
    with pytest.raises(ScenarioError):
        opened_trace("nosuch.jsonl")
    with pytest.raises(ScenarioError):
        opened_scenario(Path("nosuch.simloop.yaml"))


def test_a_trace_without_entries_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    first = (TRACES / "start.quickstart.trace.jsonl").read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(first)
    with pytest.raises(ScenarioError, match="no entries"):
        opened_trace(str(path))

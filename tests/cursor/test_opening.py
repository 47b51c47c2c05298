"""A trace, a scenario file and the name of a bundled scenario open as a recorded run."""

from pathlib import Path

import pytest
from msgspec import structs

from simloop.cursor.recorded_run import RecordedRun, is_trace, opened_run
from simloop.errors import ScenarioError
from simloop.runs.fixtures import OF_A_TEST
from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.trace.codec import write_trace

TRACES = Path(__file__).parents[2] / "scenarios" / "__snapshots__"
GREETING = "prompt: Hi\nmodel: [{say: Hello.}]\n"


def test_a_trace_is_known_by_its_name_or_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    write_trace(run(parse_scenario(GREETING)).trace, path)
    assert is_trace(str(path))
    assert is_trace("nowhere.jsonl")
    for other in ("quickstart", "a\0b", str(tmp_path)):
        assert not is_trace(other)
    assert len(opened_run(str(path)).entries) == len(run(parse_scenario(GREETING)).trace.entries)


def test_a_scenario_is_run_with_the_loop_and_the_seed_that_are_given(tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.write_text(GREETING)
    header = opened_run(str(path), loop="pi", seed=7).trace.header
    assert (header.loop, header.seed) == ("pi", 7)
    assert opened_run("quickstart").machine is not None


def test_a_run_that_has_no_outcome_opens_as_far_as_it_went(tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.write_text("prompt: Hi\nmodel: [{http: {status: 429}}]\n")
    recording = opened_run(str(path))
    assert recording.entries
    assert recording.trace.footer is None


def test_a_name_is_run_and_has_the_entries_of_its_recorded_trace() -> None:
    run_again = opened_run("quickstart")
    read = opened_run(str(TRACES / "start.quickstart.trace.jsonl"))
    assert run_again.entries == read.entries
    assert read.scenario is not None


def test_a_trace_without_entries_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    recorded = (TRACES / "start.quickstart.trace.jsonl").read_bytes()
    path.write_bytes(recorded.splitlines(keepends=True)[0])
    with pytest.raises(ScenarioError, match="no entries"):
        opened_run(str(path))


async def my_agent(_: str) -> str:
    return "Done."


def test_a_trace_of_an_agent_of_the_users_own_needs_it_until_it_is_given() -> None:
    trace = run(parse_scenario("prompt: Hi\nmodel: []\n"), loop=my_agent).trace
    stranger = RecordedRun.of_trace(trace)
    assert stranger.unknown
    assert stranger.needs_loop
    assert not RecordedRun.of_trace(trace, trace.header.loop).needs_loop
    header = structs.replace(trace.header, python=(OF_A_TEST,))
    assert not RecordedRun.of_trace(structs.replace(trace, header=header)).needs_loop


def test_a_name_of_nothing_is_an_error_that_names_it(tmp_path: Path) -> None:
    for name in ("nowhere", str(tmp_path / "nowhere.jsonl")):
        with pytest.raises(ScenarioError, match="nowhere"):
            opened_run(name)

"""The lines of each run are those of its own page, and a long run is cut and says so."""

import json

from simloop.cursor.lines import gap_words, gaps
from simloop.cursor.opening import opened_run
from simloop.cursor.rows import words_of
from simloop.page.tables import Timelines
from simloop.runs.run import Simulation
from simloop.scenario.loader import parse_scenario
from simloop.trace.entries import ToolResult

LONG = """\
prompt: Hi
limits: {max_steps: 100}
tools: {wait: {returns: done, takes: 2s}}
model: [{call: {wait: {}}, times: 60}, {say: Done.}]
"""


def test_a_run_has_the_words_and_the_waits_of_its_own_page() -> None:
    recording = opened_run("quickstart")
    timelines = Timelines()
    timelines.add(recording.trace)
    (run,) = timelines.runs
    words = timelines.data()["words"]
    assert run is not None
    assert [words[each] for each in run["text"]] == [words_of(one) for one in recording.entries]
    expected = [(place, gap_words(recording, place)) for place in gaps(recording.entries)]
    assert len(expected) > 0
    assert [(place, words[each]) for place, each in run["gaps"]] == expected
    assert run["left"] == 0


def test_the_middle_of_a_long_run_is_left_out_and_counted() -> None:
    simulation = Simulation(parse_scenario(LONG))
    simulation.run()
    trace = simulation.trace
    assert len(trace.entries) > 450
    timelines = Timelines()
    timelines.add(trace)
    (run,) = timelines.runs
    words = timelines.data()["words"]
    assert run is not None
    shown = [*trace.entries[:300], *trace.entries[-100:]]
    assert [words[each] for each in run["text"]] == [words_of(one) for one in shown]
    assert (run["cut"], run["left"]) == (300, len(trace.entries) - 400)
    ended = [place for place, one in enumerate(shown) if type(one) is ToolResult]
    assert [place for place, _ in run["gaps"]] == ended


def test_no_run_keeps_its_place_and_equal_runs_share_their_texts() -> None:
    trace = opened_run("quickstart").trace
    timelines = Timelines()
    timelines.add(trace)
    once = json.dumps(timelines.data())
    timelines.add(None)
    timelines.add(trace)
    assert timelines.runs[0] == timelines.runs[2]
    assert timelines.runs[1] is None
    assert json.dumps(timelines.data()) == once

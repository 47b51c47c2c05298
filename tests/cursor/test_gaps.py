"""A long wait is a gap that names the events that were open."""

from pathlib import Path

from simloop.cursor.gaps import gap_words, gaps
from simloop.cursor.recorded_run import RecordedRun
from simloop.trace.codec import read_trace

TRACES = Path(__file__).parents[2] / "scenarios" / "__snapshots__"


def test_a_wait_of_a_second_is_a_gap_that_names_its_reason() -> None:
    recording = RecordedRun.of_trace(read_trace(TRACES / "start.quickstart.trace.jsonl"))
    assert [gap_words(recording, each) for each in gaps(recording.entries)] == [
        "5.000s of waiting: backoff"
    ]


def test_a_gap_before_the_end_of_a_tool_names_the_tool() -> None:
    recording = RecordedRun.of_trace(read_trace(TRACES / "abort.in-tool.trace.jsonl"))
    words = [gap_words(recording, each) for each in gaps(recording.entries)]
    assert any("of waiting: tool" in each for each in words), words

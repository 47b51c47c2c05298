"""A long wait, a call that only a request shows, and the pieces of a text have a line."""

from pathlib import Path

from agents import of_shop

from simloop.cursor.index import STALL_NS, Landmark
from simloop.cursor.lines import EntryLine, answer_lines, entry_line, folds, gap_words, gaps
from simloop.cursor.recorded_run import RecordedRun
from simloop.trace import entries
from simloop.trace.codec import read_trace
from simloop.trace.kinds import Lane
from simloop.trace.looptrace import LoopTrace

TRACES = Path(__file__).parents[2] / "scenarios" / "__snapshots__"


def recorded(name: str = "start.quickstart") -> RecordedRun:
    return RecordedRun.of_trace(read_trace(TRACES / f"{name}.trace.jsonl"))


def test_a_wait_of_a_second_is_a_gap_that_names_its_reason() -> None:
    recording = recorded()
    assert [gap_words(recording, each) for each in gaps(recording.entries)] == [
        "5.000s of waiting: backoff"
    ]


def test_a_gap_before_the_end_of_a_tool_names_the_tool() -> None:
    recording = recorded("abort.in-tool")
    words = [gap_words(recording, each) for each in gaps(recording.entries)]
    assert any("of waiting: tool" in each for each in words), words


def test_the_result_of_a_call_that_only_a_request_shows_is_a_line_of_the_tools() -> None:
    recording = of_shop()
    ((place, _),) = recording.index.answers.items()
    assert answer_lines(recording, place) == [
        EntryLine(Lane.TOOLS, ")", 'lookup {"order":"17"}: shipped [call-1]', is_failure=False)
    ]
    assert isinstance(recording.entries[place], entries.Request)
    (call,) = recording.index.landmarks[Landmark.TOOL_CALL]
    assert isinstance(recording.entries[call], entries.ToolCall)


def test_a_call_that_has_entries_of_its_own_has_no_second_line() -> None:
    for name in ("start.quickstart", "calls.polling"):
        assert recorded(name).index.answers == {}


def test_the_pieces_of_a_text_have_one_line_at_the_last_of_them() -> None:
    recording = of_shop()
    (last, pieces), *_ = folds(recording).items()
    assert last == pieces[-1]
    words = "text Let me look that order up. [over 0.200s]"
    assert entry_line(recording, pieces).words == words


def test_a_stall_and_another_kind_of_piece_end_a_line_and_another_call_does_not() -> None:
    pieces: list[entries.AnyEntry] = [
        entries.TextDelta(0, 0, 1, "a "),
        entries.TextDelta(1, 10, 2, "x "),
        entries.TextDelta(2, 20, 1, "b"),
        entries.ReasoningDelta(3, 30, 1, "hm "),
        entries.ReasoningDelta(4, 40, 1, "so"),
        entries.TextDelta(5, 50, 1, "c "),
        entries.TextDelta(6, 60, 1, "d"),
        entries.TextDelta(7, 60 + STALL_NS, 1, "e"),
        entries.TextDelta(8, 70 + STALL_NS, 2, "y"),
    ]
    recording = RecordedRun(trace=LoopTrace(header=recorded().trace.header, entries=pieces))
    found = folds(recording)
    assert found == {2: [0, 2], 4: [3, 4], 6: [5, 6]}
    assert entry_line(recording, found[4]).words == "reasoning hm so [over 0.00000001s]"

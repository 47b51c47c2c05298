"""The facts at an entry come from the entries up to it alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.views import FactView, view
from simloop.trace import entries
from simloop.trace.codec import read_trace

TRACES = Path(__file__).parents[2] / "scenarios" / "__snapshots__"
# The entry view counts all entries.
_OF_THE_PREFIX = [each for each in FactView if each is not FactView.ENTRY]


def recorded(name: str) -> RecordedRun:
    return RecordedRun.of_trace(read_trace(TRACES / f"{name}.trace.jsonl"))


def rows_at(recording: RecordedRun, place: int, name: FactView) -> list[str]:
    return [str(each) for each in view(name, Position(recording, place))]


@pytest.mark.parametrize("theme", ["abort", "calls", "compaction", "hooks", "loops", "queue"])
def test_the_facts_at_an_entry_are_those_of_the_trace_that_ends_with_it(theme: str) -> None:
    for path in sorted(TRACES.glob(f"{theme}.*.jsonl")):
        whole = RecordedRun.of_trace(read_trace(path))
        last = len(whole.entries) - 1
        for place in sorted({last * part // 5 for part in range(6)}):
            trace = replace(whole.trace, entries=whole.trace.entries[: place + 1], footer=None)
            cut = replace(whole, trace=trace)
            for name in _OF_THE_PREFIX:
                assert rows_at(whole, place, name) == rows_at(cut, place, name), (path, place)


def test_a_backoff_says_which_numbers_of_the_policy_gave_its_wait() -> None:
    recording = recorded("limits.errors")
    second = recording.index.places[entries.Backoff][1]
    sentence, _ = rows_at(recording, second, FactView.WHY)
    assert sentence == "  Failure 2 of 3: 2.000s x 2^1 = 4.000s, no usable Retry-After."

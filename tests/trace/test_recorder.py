"""The recorder numbers and dates entries, bounds a trace, and tells its listeners."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
from work import lines_run

from simloop.errors import RunawayRun, ScenarioError
from simloop.kernel.errorclass import ErrorClass
from simloop.messages import Queue
from simloop.trace import entries, recorder
from simloop.trace.entries import AnyEntry
from simloop.trace.facts import Facts
from simloop.trace.recorder import Recorder


class Clock:
    """A clock that is set by hand."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns


def recording(clock: Clock | None = None, max_chars: int = 100) -> Recorder:
    return Recorder([], clock or Clock(), max_chars)


@pytest.mark.parametrize("start_ns", [0, 7_000])
def test_entries_are_numbered_and_dated_from_the_start_of_the_conversation(start_ns: int) -> None:
    clock = Clock(start_ns)
    record = recording(clock)
    record.record(entries.Prompt, "Go.")
    clock.now_ns += 50
    record.record(entries.Queued, "And?", Queue.STEERING)
    assert record.entries == [
        entries.Prompt(0, 0, "Go."),
        entries.Queued(1, 50, "And?", Queue.STEERING),
    ]
    assert record.clock.now_ns == 50


def test_a_listener_hears_each_later_entry_when_it_is_in_the_trace() -> None:
    record, heard = recording(), list[tuple[str, AnyEntry, int]]()
    record.record(entries.Prompt, "Go.")
    for name in ("first", "second"):
        record.listen(
            lambda entry, name=name: heard.append((name, entry, len(record.entries)))  # type: ignore[misc]
        )
    record.record(entries.Notice, "recorded")
    built = entries.Notice(2, 0, "appended")
    record.append(built)
    assert heard == [
        ("first", record.entries[1], 2),
        ("second", record.entries[1], 2),
        ("first", built, 3),
        ("second", built, 3),
    ]


def test_listeners_change_nothing_that_is_recorded() -> None:
    def recorded(listeners: int) -> list[AnyEntry]:
        record = recording()
        for _ in range(listeners):
            record.listen(lambda _: None)
        for text in ("a", "b"):
            record.record(entries.Notice, text)
        return record.entries

    assert recorded(0) == recorded(1) == recorded(3)


def test_an_entry_costs_the_same_however_long_the_trace_is() -> None:
    def work(count: int) -> int:
        record = recording(max_chars=10**9)
        record.listen(lambda _: None)

        def record_all() -> None:
            for _ in range(count):
                record.record(entries.Notice, "x")

        return lines_run(record_all)

    assert work(200) < 2.2 * work(100)


def test_all_texts_of_an_entry_count_and_the_one_past_the_bound_is_not_recorded() -> None:
    record = recording(max_chars=10)
    record.record(entries.ToolStarted, "id", "look", "{}")
    assert record.chars == 8
    record.record(entries.Backoff, 1, 5, ErrorClass.SERVER)  # a word of ours is no text
    record.count(2)
    with pytest.raises(RunawayRun, match="the trace passed max_trace_chars=10 characters") as found:
        record.record(entries.Notice, "x")
    assert "raise max_trace_chars in the scenario" in str(found.value)
    assert len(record.entries) == 2
    assert record.error is found.value


def test_a_trace_has_a_bound_on_its_entries_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MAX_ENTRIES", 3)
    record = recording()
    for _ in range(4):
        record.record(entries.StreamCut, 1)
    with pytest.raises(RunawayRun, match="the trace passed 3 entries without an outcome"):
        record.record(entries.StreamCut, 1)
    assert len(record.entries) == 4


def test_the_first_error_that_an_agent_gets_is_kept() -> None:
    record = recording()
    first: Any = ScenarioError("first")
    record.keep(first)
    record.keep(ScenarioError("second"))
    assert record.error is first


def recorder_that_notifies() -> Recorder:
    made = recording()
    made.listen(lambda _: None)
    return made


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("make", [recorder_that_notifies, Facts])
def test_it_refers_not_to_itself(make: Callable[[], object]) -> None:
    # A search makes thousands of runs in a row, each with a judge that listens.
    gc.disable()
    try:
        make()
        assert gc.collect() == 0
    finally:
        gc.enable()

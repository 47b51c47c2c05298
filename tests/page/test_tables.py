"""The data of the page has the views of each entry, in a size that grows with the trace."""

import cProfile
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from agents import of_shop
from services import asked, sent

from simloop.cursor.keys import FactView
from simloop.cursor.lines import entry_line, folds
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.rows import words_of
from simloop.cursor.views import view
from simloop.page import page
from simloop.page.page import Splice, tables
from simloop.runs.run import Simulation
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario
from simloop.trace.codec import read_trace
from simloop.trace.kinds import Lane, clock

TRACES = Path(__file__).parents[2] / "scenarios" / "__snapshots__"


def apply(old: Sequence[int], made: Sequence[Splice]) -> list[int]:
    """Return the list that the changes make of `old`."""
    items = list(old)
    for place, deleted, *inserted in made:
        items[place : place + deleted] = inserted
    return items


def recorded(path: Path) -> RecordedRun:
    return RecordedRun.of_trace(read_trace(path))


def recorded_run(scenario: Scenario) -> RecordedRun:
    simulation = Simulation(scenario)
    simulation.run()
    return RecordedRun.of_run(simulation, simulation.trace, {})


def conversation(steps: int, **more: Any) -> RecordedRun:
    """A run of many steps, each with a call, whose requests hold all messages before them."""
    replies = [
        Reply(say=f"I look at file {step}.", call={"read_file": {"path": f"src/{step}.py"}})
        for step in range(steps)
    ]
    given = {
        "prompt": "Go.",
        "model": [*replies, Reply(say="Done.")],
        "tools": {"read_file": {"parameters": {"path": "string"}, "returns": "import os\nexit()"}},
        "limits": {"max_steps": steps + 1, "max_compaction_attempts": steps},
    }
    return recorded_run(Scenario.model_validate({**given, **more}))


def compacted(steps: int) -> RecordedRun:
    """A run of many steps whose context is compacted again and again."""
    return conversation(steps, compaction={"max_messages": 9, "strategy": "drop-oldest"})


LONG = (pytest.param(theme, marks=pytest.mark.slow) for theme in ("calls", "compaction"))


@pytest.mark.parametrize("theme", ["abort", "agents", "hooks", "prompts", "queue", *LONG])
def test_each_view_of_each_entry_comes_back_from_the_changes(theme: str) -> None:
    for path in sorted(TRACES.glob(f"{theme}.*.jsonl"))[:6]:
        recording = recorded(path)
        data = tables(recording)
        for name in FactView:
            changed = {place: made for place, *made in data["views"][name]}
            numbers: list[int] = []
            for place in range(len(recording.entries)):
                numbers = apply(numbers, changed.get(place, ()))
                rows = [data["rows"][number] for number in numbers]
                shown = view(name, Position(recording, place))
                assert [(data["marks"][mark][0], *rest) for mark, *rest in rows] == [
                    each if each.goes_to is not None else each[:3] for each in shown
                ], (path.name, name, place)


def test_the_timeline_has_the_time_the_lane_and_the_words_of_each_entry() -> None:
    recording = recorded(TRACES / "start.quickstart.trace.jsonl")
    data = tables(recording)
    columns, words = data["entries"], data["words"]
    assert [words[each] for each in columns["text"]] == list(map(words_of, recording.entries))
    assert [words[each] for each in columns["time"]] == [
        clock(entry.at_ns) for entry in recording.entries
    ]
    assert data["lanes"][columns["lane"][0]] == "user"
    assert [words[columns["text"][place]] for place in columns["failed"]] == [
        "error 429 Too Many Requests"
    ]
    assert data["gaps"] == [[8, "5.000s of waiting: backoff"]]


def test_the_texts_and_the_results_that_requests_show_are_there_by_their_places() -> None:
    recording = of_shop()
    data = tables(recording)
    words = data["words"]
    ((place, ((lane, sign, text, failed),)),) = data["answers"]
    assert place in recording.index.answers
    assert (data["lanes"][lane], words[sign], failed) == ("tools", ")", 0)
    assert words[text].startswith("lookup")
    assert [(pieces, words[text]) for pieces, text in data["texts"]] == [
        (text, entry_line(recording, text).words) for text in folds(recording).values()
    ]


def size(steps: int) -> float:
    """The bytes of the data for each entry."""
    recording = conversation(steps)
    return len(json.dumps(tables(recording))) / len(recording.entries)


def work(recording: RecordedRun) -> float:
    """The calls of functions that the data needs for each entry."""
    profile = cProfile.Profile()
    profile.runcall(tables, recording)
    return sum(each.callcount for each in profile.getstats()) / len(recording.entries)


@pytest.mark.slow
@pytest.mark.parametrize("made", [conversation, compacted])
def test_an_entry_of_a_long_run_takes_no_more_work_than_one_of_a_short_one(
    made: Callable[[int], RecordedRun],
) -> None:
    assert work(made(80)) < 1.1 * work(made(20))


@pytest.mark.slow
def test_an_entry_of_a_long_conversation_takes_no_more_bytes_than_one_of_a_short_one() -> None:
    assert size(160) < 1.2 * size(10)


def test_the_lane_of_services_is_there_if_a_run_has_some() -> None:
    without = tables(conversation(1))
    _, result = asked([{"get": "/orders/{id}", "json": 1}], sent())
    data = tables(RecordedRun.of_trace(result.trace))
    assert data["lanes"] == [*without["lanes"], "services"]
    assert list(data["legend"]) == data["lanes"]
    assert [data["lanes"][lane] for lane in data["entries"]["lane"]] == [
        "user", "services", "services", "user",
    ]  # fmt: skip
    style = (Path(page.__file__).parent / "page.css").read_text("utf-8")
    assert all(f".lane-{lane} .track" in style for lane in Lane)

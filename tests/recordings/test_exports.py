"""The way back: a run that is exported and imported again gives the scenario that was run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simloop.recordings.formats import read_recording
from simloop.recordings.scenarios import scenario_of
from simloop.runs.run import run
from simloop.scenario.schema import Scenario
from simloop.trace.looptrace import LoopTrace
from simloop.trace.otel import otel

SUMS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ERROR = {"error": {"message": "Slow down.", "type": "requests", "param": None, "code": "slow"}}
COURSES: dict[str, dict[str, Any]] = {
    "a reply": {"prompt": "Hi", "model": [{"say": "Hello there.", "usage": {"input": 3}}]},
    "calls, reasoning and a system prompt": {
        "prompt": "Add up.",
        "system_prompt": "You add.",
        "tools": {"add": {"description": "Adds.", "json_schema": SUMS, "answers": [
            {"returns": "3", "takes": "20ms"}, {"raises": "too large"}]}},
        "model": [
            {"think": "I add.", "call": [{"add": {"a": 1}}, {"add": {"a": 2}}],
             "ids": ["x", "y"], "pace": {"first_part": "1.5s"}},
            {"say": "It is 3."},
        ],
    },
    "failed attempts": {
        "prompt": "Hi",
        "model": [
            {"http": {"status": 429, "headers": {"retry-after": "7"}, "body": ERROR}},
            {"http": {"status": 503, "body": "<html>busy</html>"}},
            {"say": "Hello."},
        ],
    },
    "an error and a cut in the stream": {
        "prompt": "Hi",
        "expect": {"outcome": "context-limit"},
        "model": [
            {"say": "Hel", "error": {"message": "Overloaded", "code": "overloaded_error"}},
            {"say": "Hell", "unfinished": True},
            {"say": "Hello.", "finish": "length", "usage": {"input": 3, "output": 1}},
        ],
    },
    "several prompts and rounds": {
        "prompt": "One",
        "then": ["Two"],
        "tools": {"look": {"json_schema": {"type": "object"}, "answers": [{"returns": "a"}] * 2}},
        "model": [
            {"say": "1"},
            {"call": [{"look": {}}], "ids": ["p"]},
            {"say": "Again.", "call": [{"look": {}}], "ids": ["q"]},
            {"say": "2"},
        ],
    },
}  # fmt: skip
WRITERS: dict[str, Callable[[LoopTrace], str]] = {
    "otel": lambda trace: json.dumps(otel(trace)),
}


def exported(scenario: Scenario, write: Callable[[LoopTrace], str], folder: Path) -> Path:
    folder.mkdir()
    path = folder / "run.recording"
    path.write_text(write(run(scenario).trace), "utf-8")
    return path


def imported(path: Path) -> Scenario:
    scenario, _ = scenario_of(read_recording(path))
    return scenario


@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_imported_runs_as_it_was_and_comes_back_equal(
    writer: str, course: str, tmp_path: Path
) -> None:
    write = WRITERS[writer]
    first = imported(exported(Scenario(**COURSES[course]), write, tmp_path / "1"))
    assert run(first).mismatches == ()
    assert imported(exported(first, write, tmp_path / "2")) == first

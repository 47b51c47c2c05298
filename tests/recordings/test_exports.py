"""The way back: a run that is exported and imported again gives the scenario that was run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from services import asked, sent

from simloop import UserMessage, World
from simloop.recordings.cassettes import cassette
from simloop.recordings.exports import trajectory
from simloop.recordings.formats import read_recording
from simloop.recordings.recording import ServiceCall
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
    "vcr": cassette,
    "atif": trajectory,
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


def test_requests_to_services_are_in_a_cassette(tmp_path: Path) -> None:
    routes = [{"get": "/stock", "json": {"left": 3}}, {"put": "/stock", "status": 204}]
    _, result = asked(routes, sent("GET /stock?of=tea"), sent("PUT /stock", {"left": 2}))
    (tmp_path / "run.recording").write_text(cassette(result.trace), "utf-8")
    recording = read_recording(tmp_path / "run.recording")
    calls = [each for each in recording.records if isinstance(each, ServiceCall)]
    assert [each.address for each in calls] == ["https://orders.example"] * 2
    assert [each.route for each in calls] == [
        {"get": "/api/stock?of=tea", "json": {"left": 3}, "times": 1},
        {"put": "/api/stock", "status": 204, "times": 1},
    ]


LOST = Scenario(prompt="Hi", model=[{"lost": "before-headers"}, {"say": "Hello."}])


def test_what_a_format_cannot_hold_is_counted_in_it() -> None:
    trace = run(LOST).trace
    assert cassette(trace).startswith("# Left out: 1 requests without an answer.\n")
    assert json.loads(trajectory(trace))["notes"] == "Left out: 1 calls of the model that failed."


def test_each_agent_of_a_program_has_a_trajectory_of_its_own() -> None:
    async def agent(prompt: str, world: World) -> str:
        await world.model.reply([UserMessage("Look.")])
        return (await world.model.reply([UserMessage(prompt)])).message.text

    parties = {"looker": {"when": {"conversation": "Look."}, "replies": [{"say": "Fine."}]}}
    two = Scenario(prompt="Hi", model=[{"say": "All fine."}], models=parties)
    whole = json.loads(trajectory(run(two, loop=agent).trace))
    inner = whole["subagent_trajectories"]
    assert [len(each["steps"]) for each in (whole, *inner)] == [2, 2]
    assert [each["trajectory_id"] for each in (whole, *inner)] == ["main", "agent-2"]

"""Recordings of sessions in a test: their lines, their scenarios, and what a run of one says."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from simloop.messages import AssistantMessage, Message
from simloop.recordings.files import RecordingFile
from simloop.recordings.formats import FORMATS
from simloop.recordings.recording import Recording
from simloop.recordings.scenarios import scenario_of
from simloop.runs.result import Result
from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import scenario_text

FILES = Path(__file__).parent.parent / "recordings" / "files"
BEGAN = datetime(2026, 3, 4, 11, tzinfo=UTC)


def at(seconds: float) -> str:
    """Return a time of a session in ISO 8601."""
    return (BEGAN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def lines(*values: Any) -> str:
    """Return values as lines of JSON; a text is a line as it stands."""
    return "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in values)


def read(text: str | bytes, format_name: str = "") -> Recording:
    """Return the recording in a text, whose content tells the format."""
    data = text if isinstance(text, bytes) else text.encode()
    start = data[:20_000].decode("utf-8", "replace")
    form = next(one for one in FORMATS if (one.name == format_name or one.fits(start)))
    recording = Recording("session.jsonl", form.words)
    form.read(RecordingFile("session.jsonl", data), recording)
    return recording


def scenario(recording: Recording) -> Scenario:
    """Return the scenario of a recording, read from its file."""
    return parse_scenario(scenario_text(*scenario_of(recording)))


def played(recording: Recording) -> Result:
    """Return the run of the scenario of a recording; it is as expected, and leaves nothing over."""
    result = run(scenario(recording))
    result.check()
    return result


def conversation(result: Result) -> list[str]:
    """Return the messages of a run: those of its last request, and the reply to it."""
    said = [_words(message) for message in result.requests[-1].messages]
    return [*said, f"assistant: {result.text}"] if result.outcome == "completed" else said


def _words(message: Message) -> str:
    role = type(message).__struct_config__.tag
    text = message.text.removeprefix("Error: ") if role == "tool" else message.text
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    return " ".join([f"{role}: {text}", *(f"{call.name} {call.arguments}" for call in calls)])

"""ATIF, the trajectory format of Harbor, versions 1.0 to 1.8.

A trajectory has the replies and the results of tools, and neither requests nor failed calls.
"""

import re
from collections.abc import Mapping
from typing import Any

from simloop.messages import ToolMessage
from simloop.recordings.dialects import assistant_of, text_of, tools_of, usage_in
from simloop.recordings.files import RecordingFile, at, items, mapping, word
from simloop.recordings.recording import Recording
from simloop.recordings.sessions import RecordedSession

_NEWEST = (1, 8)
_MOST = 1_000


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of a trajectory, and of those inside it. Raises ScenarioError."""
    whole = mapping(file.json())
    version = re.search(r"(\d{1,4})\.(\d{1,4})", word(whole, "schema_version"))
    found = (int(version[1]), int(version[2])) if version else _NEWEST
    if found[0] != _NEWEST[0]:
        raise file.fail(f"this is version {found[0]} of ATIF, and simloop reads version 1")
    if found > _NEWEST:
        recording.leave_out(f"what is new in ATIF {found[0]}.{found[1]}, after 1.8")
    recording.tools = tools_of(at(whole, "agent.tool_definitions"))
    waiting = [whole]
    for number, each in enumerate(waiting):
        session = RecordedSession(recording, f"agent-{number + 1}" if number else "")
        for step in items(each, "steps"):
            _read(recording, session, mapping(step))
        session.end()
        waiting += [*map(mapping, items(each, "subagent_trajectories"))][: _MOST - len(waiting)]


def _read(recording: Recording, session: RecordedSession, step: Mapping[str, Any]) -> None:
    source, text = word(step, "source"), text_of(step.get("message"))
    if step.get("is_copied_context"):
        recording.leave_out("a step that is copied from another trajectory")
    elif source == "system":
        recording.system_prompt = recording.system_prompt or text
    elif source == "user":
        session.prompt(text)
    elif source == "agent" and step.get("llm_call_count") != 0:
        calls = [{**mapping(each), "name": at(each, "function_name")}
                 for each in items(step, "tool_calls")]  # fmt: skip
        thought = {"content": text, "reasoning": at(step, "reasoning_content")}
        said = assistant_of({**thought, "tool_calls": calls})
        session.reply(said, usage=usage_in(step.get("metrics")))
        for result in items(step, "observation.results"):
            told = text_of(at(result, "content"))
            call_id = word(result, "source_call_id") or (said.calls[0].id if said.calls else "")
            if said.calls:
                session.result(ToolMessage(call_id, told), None)
            else:  # the model was told so
                session.prompt(told)
    else:
        recording.leave_out("a step that is no call of a model")

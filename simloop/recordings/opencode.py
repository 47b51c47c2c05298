"""Sessions of opencode: `opencode export` (one JSON) and `opencode run --format json` (lines).

Both are made of parts. A step of parts is a reply; its tools say when they began and ended. The
lines have no prompt.
"""

from typing import Any

from simloop.messages import ToolMessage
from simloop.recordings.dialects import assistant_of, usage_in
from simloop.recordings.failures import ABORTED, failure_keys
from simloop.recordings.files import MS, RecordingFile, at, items, mapping, time_ns, word
from simloop.recordings.recording import Recording, Shortened
from simloop.recordings.sessions import RecordedSession

_START = "state.time.start"


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of a session. Raises ScenarioError for an export that is no JSON."""
    steps = _Steps(recording)
    for _, value in file.objects(recording):
        at_ns = _time(value, "timestamp")
        for message in items(value, "messages"):
            _tell(steps, recording, message)
        if value.get("type") == "error":
            steps.fail(value.get("error"), at_ns)
        elif "messages" not in value:
            steps.part(value.get("part"), at_ns)
    steps.close(None)
    steps.session.end()
    if not any(isinstance(each, Shortened) for each in recording.records):
        recording.loop = "opencode@1.18.34"


def _time(value: Any, path: str) -> int | None:
    return time_ns(at(value, path), MS)


def _tell(steps: "_Steps", recording: Recording, message: Any) -> None:
    info, parts = mapping(message, "info"), items(message, "parts")
    began_ns, ended_ns = (_time(info, f"time.{each}") for each in ("created", "completed"))
    said = [word(each, "text") for each in parts if at(each, "synthetic") is not True]
    text = "\n".join(filter(None, said))
    if word(info, "role") != "user" and info.get("summary") is not True:
        for part in parts:
            steps.part(part, began_ns if word(part, "type") == "step-start" else ended_ns)
        if info.get("error"):
            steps.fail(info["error"], ended_ns)
        steps.close(ended_ns)
    elif word(info, "role") != "user":
        steps.session.compacted(text, ended_ns)
    elif text:
        steps.session.prompt(text, began_ns)
        for kind in (word(each, "type") for each in parts):
            if kind != "text":
                recording.leave_out_type("a part", kind)
    else:
        recording.leave_out("a message of the user that the program has written")


class _Steps:
    def __init__(self, recording: Recording) -> None:
        self.session, self._recording = RecordedSession(recording), recording
        self._begin(None)

    def _begin(self, at_ns: int | None) -> None:
        self._parts, self._tools, self._began_ns = list[Any](), list[Any](), at_ns

    def part(self, part: Any, at_ns: int | None) -> None:
        match word(part, "type"):
            case "step-start":
                self.close(at_ns)
                self._begin(at_ns)
            case "text" | "reasoning":
                self._parts.append(part)
            case "tool" if word(part, "tool"):
                self._tools.append(part)
            case "retry":
                self.fail(part.get("error"), _time(part, "time.created"))
            case "step-finish":
                self.close(at_ns, word(part, "reason"), part.get("tokens"))
            case kind:
                self._recording.leave_out_type("a part", kind)

    def close(
        self, at_ns: int | None, finish: str = "", tokens: Any = None, failure: Any = None
    ) -> None:
        """Add the reply of the step, and the results of its tools."""
        tools = sorted(self._tools, key=lambda tool: _time(tool, _START) or 0)  # not by their ends
        calls = [
            {"id": at(each, "callID"), "name": each["tool"], "input": at(each, "state.input")}
            for each in tools
        ]
        said = assistant_of({"content": self._parts, "tool_calls": calls})
        if not (said.text or said.calls or failure):
            if said.reasoning:
                self._recording.leave_out("a reply without a text")
            return
        starts = filter(None, [at_ns, *(_time(each, _START) for each in tools)])
        finish = "" if finish in ("stop", "tool-calls") else finish
        self.session.reply(
            said, min(starts, default=None), finish=finish, usage=usage_in(tokens),
            began_ns=self._began_ns, failure=failure,
        )  # fmt: skip
        for each in tools:
            failed = at(each, "state.status") == "error"
            text = word(each, "state.error" if failed else "state.output")
            if failed or at(each, "state.status") == "completed":
                result = ToolMessage(word(each, "callID"), text, failed)
                began_ns, ended_ns = _time(each, _START), _time(each, "state.time.end")
                took_ns = max(ended_ns - began_ns, 0) if began_ns and ended_ns else None
                self.session.result(result, ended_ns, took_ns)
        self._begin(None)

    def fail(self, error: Any, at_ns: int | None) -> None:
        if word(error, "name") == "MessageAbortedError":
            self.close(at_ns, failure=ABORTED)
            self.session.end()
        else:
            message = word(error, "data.message", "name")
            self.close(at_ns, failure=failure_keys(at(error, "data.statusCode"), message))

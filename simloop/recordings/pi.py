"""Sessions of pi: a tree of entries with messages, their ends, and two times for each reply."""

from itertools import pairwise
from typing import Any

from simloop.messages import AssistantMessage, ToolMessage
from simloop.recordings.dialects import Dialogue, usage_in
from simloop.recordings.failures import ABORTED, failure_keys
from simloop.recordings.files import MS, RecordingFile, mapping, time_ns, word
from simloop.recordings.recording import ModelCall, Recording, Shortened
from simloop.recordings.sessions import RecordedSession, newest_branch


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of a session. Version 1 has no tree."""
    session = RecordedSession(recording)
    entries = [each for each in file.objects(recording) if word(each[1], "type") != "session"]
    nodes = ((line, word(each, "id"), [word(each, "parentId")]) for line, each in entries)
    branch = newest_branch(nodes)
    for line, value in entries:
        kind = word(value, "type")
        if line not in branch:
            recording.leave_out("an entry of another branch")
        elif kind == "message":
            _tell(session, recording, value)
        elif kind == "compaction":
            session.compacted(word(value, "summary"), time_ns(value.get("timestamp")))
        else:
            recording.leave_out_type("an entry", kind)
    session.end()
    if not any(_needs_another_loop(*pair) for pair in pairwise([None, *recording.records])):
        recording.loop = "pi@0.87.1"


def _tell(session: RecordedSession, recording: Recording, entry: dict[str, Any]) -> None:
    message = mapping(entry, "message")
    began_ns = time_ns(message.get("timestamp"), MS)
    at_ns = time_ns(entry.get("timestamp")) or began_ns
    _, read = Dialogue().read([message])
    if not read:
        recording.leave_out(f"a message of the role {word(message, 'role')[:40] or '(none)'}")
    for said in read:
        if isinstance(said, ToolMessage):
            session.result(said, at_ns)
        elif not isinstance(said, AssistantMessage):
            session.prompt(said.text, at_ns)
        else:
            end = word(message, "stopReason")
            failed = failure_keys("", word(message, "errorMessage"))
            failure = {"error": failed, "aborted": ABORTED}.get(end)
            session.reply(
                said, at_ns, finish="" if end in ("stop", "toolUse") else end, failure=failure,
                usage=usage_in(message.get("usage")), began_ns=began_ns,
            )  # fmt: skip
            if end == "aborted":
                session.end()


def _needs_another_loop(before: Any, record: Any) -> bool:
    failed = isinstance(before, ModelCall) and before.message is None
    return isinstance(record, Shortened) or (failed and isinstance(record, ModelCall))

"""Trajectories of mini-swe-agent and SWE-agent: one conversation, whose requests are its starts."""

from simloop.messages import AssistantMessage
from simloop.recordings.dialects import Dialogue, reply_of, usage_in
from simloop.recordings.files import RecordingFile, at, items, time_ns, word
from simloop.recordings.recording import Beginning, Recording
from simloop.recordings.spans import RecordedSpan, add_spans


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of a trajectory. Raises ScenarioError."""
    whole = file.json()
    listed = items(whole) or items(whole, "messages", "history")
    seconds = iter([at(step, "execution_time") for step in items(whole, "trajectory")])
    spans: list[RecordedSpan] = []
    for place, given in enumerate(listed):
        system, read = Dialogue().read([given])
        if not (system or read):
            recording.leave_out(f"a message of the role {word(given, 'role')[:20] or 'unknown'}")
        if place and read and isinstance(read[0], AssistantMessage):
            raw = at(given, "extra.response")
            told = reply_of(raw) if isinstance(raw, dict) else None
            finish, usage = told[1] if told else "", usage_in(at(raw, "usage"))
            asked = Beginning(listed, place)
            spans.append(RecordedSpan(asked=asked, said=[given], finish=finish, usage=usage))
            ns, own = time_ns(next(seconds, None), 10**9), read[0].calls[:1]
            spans += [RecordedSpan(tool=c.name, call_id=c.id, began_ns=0, ended_ns=ns) for c in own]
    add_spans(recording, spans, "import the file as its agent has written it")

"""Sessions of Claude Code: a tree of lines, of which the newest branch is the conversation.

A reply is spread over lines with one `message.id`. Failed attempts have lines of their own, with
their status and the wait before the next one. The lines of a sub-agent are a tree of their own.
"""

import re
from itertools import chain
from typing import Any

from simloop.messages import ToolMessage
from simloop.recordings.dialects import assistant_of, messages_in, usage_in
from simloop.recordings.failures import failure_keys
from simloop.recordings.files import MS, RecordingFile, at, items, mapping, time_ns, word
from simloop.recordings.recording import Recording
from simloop.recordings.sessions import RecordedSession, newest_branch

_KEPT = frozenset({
    "type", "uuid", "parentUuid", "logicalParentUuid", "timestamp", "message", "isMeta", "subtype",
    "isCompactSummary", "isApiErrorMessage", "apiErrorStatus", "error", "retryInMs",
})  # fmt: skip
"""The keys of a line that are read; others may repeat a whole result."""
_INTERRUPTED = "[Request interrupted by user"
_OF_PROGRAM = re.compile(r"\s*(Caveat: The messages below|<(command|local-command|bash)-[a-z]+>)")
_Lines = list[tuple[int, dict[str, Any]]]


def read(file: RecordingFile, recording: Recording) -> None:
    """Add the records of a session, or of the file of a sub-agent of it."""
    parties: dict[str, _Lines] = {}
    known: dict[str, str] = {}  # old versions do not name a sub-agent: its first line does
    for line, value in file.objects(recording):
        uuid = word(value, "uuid")
        if word(value, "type") not in ("user", "assistant", "system"):
            recording.leave_out_type("a line", word(value, "type"))
        elif uuid and uuid in known:
            recording.leave_out("a line that is there twice")
        else:
            above = known.get(word(value, "parentUuid"))
            is_sub = value.get("isSidechain") is True
            party = (word(value, "agentId") or above or f"agent-{line}") if is_sub else ""
            kept = {key: each for key, each in value.items() if key in _KEPT}
            kept["durationMs"] = at(value, "toolUseResult.durationMs")
            parties.setdefault(party, []).append((line, kept))
            known |= {uuid: party} if uuid else {}
    file.data = b""
    for party in [*parties]:
        session = RecordedSession(recording, party)
        told = _told(parties.pop(party), recording)[::-1]
        while told:  # a line goes when it is told: a long session fits into memory once
            _tell(session, told.pop())
        session.end()


def _told(lines: _Lines, recording: Recording) -> list[list[dict[str, Any]]]:
    """Return the lines of the newest branch, and what belongs to them; those of a reply are one."""
    branch = newest_branch(
        (line, word(value, "uuid"), [word(value, "parentUuid"), word(value, "logicalParentUuid")])
        for line, value in lines
    )
    told: list[list[dict[str, Any]]] = []
    replies: dict[str, list[dict[str, Any]]] = {}
    # The ids of lines, and of calls: of the results of parallel calls, only one is in the branch.
    taken = set[str]()
    for line, value in lines:
        blocks = items(value, "message.content")
        name = word(value, "message.id") if value["type"] == "assistant" else ""
        above = [word(value, "parentUuid")] if value["type"] == "system" else []
        above += [word(each, "tool_use_id") for each in blocks]
        if not (line in branch or name in replies or taken & {*above}):
            recording.leave_out("a line of another branch")
            continue
        taken |= {word(value, "uuid"), *(word(each, "id") for each in blocks)} - {""}
        if name in replies:
            replies[name].append(value)
        else:
            told.append([value])
            replies |= {name: told[-1]} if name else {}
    return told


def _tell(session: RecordedSession, values: list[dict[str, Any]]) -> None:
    value, at_ns = values[-1], time_ns(values[-1].get("timestamp"))
    message = mapping(value, "message")
    if value["type"] == "user":
        took_ns = time_ns(value["durationMs"], MS)
        for given in messages_in(message, "user"):
            if isinstance(given, ToolMessage):
                session.result(given, at_ns, took_ns)
            elif given.text.startswith(_INTERRUPTED):
                session.end()
            elif value.get("isCompactSummary") is True:
                session.compacted(given.text, at_ns)
            elif value.get("isMeta") is True or _OF_PROGRAM.match(given.text):
                session.note = given.text
                session.recording.leave_out("a message of the user that the program has written")
            else:
                session.prompt(given.text, at_ns)
    elif value["type"] == "assistant" and value.get("isApiErrorMessage") is True:
        keys = failure_keys(value.get("apiErrorStatus"), assistant_of(message).text)
        session.failure(keys, at_ns)
    elif value["type"] == "assistant":
        found = [items(one, "message.content") or [word(one, "message.content")] for one in values]
        said = assistant_of({"content": [*chain.from_iterable(found)]})
        if message.get("model") == "<synthetic>" or not (said.calls or said.text or said.reasoning):
            words = "a reply that the program has made up, or that says nothing"
            session.recording.leave_out(words)
            return
        usage, finish = usage_in(message.get("usage")), word(message, "stop_reason")
        session.reply(said, at_ns, finish=finish, usage=usage)
    elif value.get("subtype") == "api_error":
        error, wait_ns = mapping(value, "error"), time_ns(value.get("retryInMs"), MS) or 0
        kind = error.get("status") or f"no connection: {word(error, 'cause.code')}"
        words = word(error, "message", "error.error.message")
        keys = failure_keys(kind, words, error.get("error"), error.get("headers"))
        session.failure(keys, at_ns, wait_ns)
    else:
        session.recording.leave_out_type("a line of the program", word(value, "subtype"))

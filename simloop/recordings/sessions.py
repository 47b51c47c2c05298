"""Sessions of coding agents have runs, with their ends and times, and no requests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simloop.messages import AssistantMessage, ToolMessage, Usage
from simloop.recordings.exchanges import begun_keys, pace_of, reply_keys, usual_finish
from simloop.recordings.failures import ABORTED
from simloop.recordings.recording import NO_PROMPT, ModelCall, Prompt, Recording, Shortened, ToolRun


class RecordedSession:
    """The records of one conversation, which a reader adds in the order of the session."""

    def __init__(self, recording: Recording, party: str = "") -> None:
        self.recording, self._party, self._records = recording, party, recording.records
        self._asked_ns: int | None = None  # of the next call of the model
        self._called_ns: dict[str, int | None] = {}
        self._prompt: Prompt | None = None  # that has no reply yet
        self._last: ModelCall | None = None  # of the run that goes on
        self.note = ""  # what the program has written, for a run that begins without a prompt

    def prompt(self, text: str, at_ns: int | None = None) -> None:
        if not text.strip():
            self.recording.leave_out("a message of the user without a text")
        elif self._last is not None and self._last.message is not None:
            self.recording.leave_out("a message of the user amid a run")
        else:
            self.end()
            self._prompt = Prompt(text, self._party, at_ns, begins=True)
            self._asked_ns = at_ns

    def end(self) -> None:
        """End the run that goes on, if one does: the user has stopped it, or the session ends."""
        if self._prompt is not None:
            self.recording.leave_out("a prompt without a reply")
        elif self._last is not None and self._last.message is not None:
            words = "the end of a run amid its calls: a reply fails there as `aborted`"
            self.recording.leave_out(words)
            self.failure(ABORTED, None)
        self._prompt = self._last = None

    def reply(
        self, message: AssistantMessage, at_ns: int | None = None,
        *, finish: str = "", usage: Usage | None = None, began_ns: int | None = None,
        failure: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Add a reply; `failure` has the keys of the failure that it ends with."""
        if self._last is None:
            begins = Prompt(self.note.strip() or NO_PROMPT, self._party, begins=True)
            self._records.append(self._prompt or begins)
            self._prompt = None
        keys = reply_keys(message, finish or usual_finish(message), usage)
        if failure is not None:
            keys = {**(begun_keys(keys) if "error" in failure else {}), **failure}
        began_ns = began_ns or self._asked_ns
        keys |= pace_of(began_ns, at_ns)
        said = message if failure is None else None
        call = ModelCall(keys, said, None, self._party, began_ns, at_ns)
        self._records.append(call)
        self._called_ns |= {each.id: at_ns for each in message.calls}
        self._asked_ns = at_ns
        self._last = call if failure is not None or message.calls else None
        self.note = ""

    def failure(self, keys: Mapping[str, Any], at_ns: int | None, wait_ns: int = 0) -> None:
        """Add an attempt that failed, and the time that the agent waited after it."""
        self.reply(AssistantMessage(""), at_ns, failure=keys)
        assert isinstance(self._last, ModelCall)
        self._last.waited_ns = wait_ns or None
        self._asked_ns = at_ns + wait_ns if at_ns else None

    def result(self, result: ToolMessage, at_ns: int | None, took_ns: int | None = None) -> None:
        called_ns = self._called_ns.get(result.call_id)
        took_ns = took_ns or (at_ns - called_ns if at_ns and called_ns else 0)
        told = result.call_id, result.text, result.is_error
        self._records.append(ToolRun(*told, max(took_ns, 0) or None, self._party))
        self._asked_ns = at_ns or self._asked_ns

    def compacted(self, summary: str, at_ns: int | None) -> None:
        if not summary.strip():
            self.recording.leave_out("a compaction without a summary")
            return
        self._records.append(Shortened(summary, self._party))
        self._asked_ns = at_ns or self._asked_ns


def newest_branch(lines: Iterable[tuple[int, str, Sequence[str]]]) -> set[int]:
    """Return the lines of a tree that lead to its last one.

    Each has its id and the ids of its parents, of which the first that is known counts. A line
    without a known parent goes on from the line before it.
    """
    known: dict[str, int] = {}
    parents: dict[int, int] = {}
    last = 0
    for line, name, above in lines:
        parents[line] = next((known[each] for each in above if each in known), last)
        last = line
        if name:
            known.setdefault(name, line)
    branch = set()
    while last:
        branch.add(last)
        last = parents[last]
    return branch

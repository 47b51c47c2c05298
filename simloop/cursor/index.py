"""The index of a trace: its landmarks, its open events, and the changes of its values."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from enum import StrEnum
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Any, NamedTuple

from simloop.messages import ToolMessage
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import KINDS, OF_CALLS, OF_REPLY, TEXTS


class Landmark(StrEnum):
    """A kind of entry to which the cursor can jump."""

    TRANSITION = "transition"
    STEP = "step"  # a main request
    PROMPT = "prompt"
    END = "end"
    MODEL_CALL = "model call"  # any request, also one for a summary
    TOOL_CALL = "tool call"
    FAULT = "fault"  # a model call, a tool, a hook or a callback failed
    RETRY = "retry"  # a main request after a reply that failed or was cut
    COMPACTION = "compaction"
    STOP = "abort"  # by the user, or by the wall clock


class Watched(StrEnum):
    """A value whose changes the cursor can find."""

    STATE = "state"
    ERROR_COUNT = "error_count"
    TOTAL_STEPS = "total_steps"
    COMPACTION_ATTEMPTS = "compaction_attempts"
    TOKENS = "tokens"  # of the newest main request, as the engine estimates them
    MESSAGES = "messages"  # of the newest main request


_COUNTERS = (Watched.ERROR_COUNT, Watched.TOTAL_STEPS, Watched.COMPACTION_ATTEMPTS)
STALL_NS = 10**9
"""The shortest wait that has a line of its own in a timeline."""


class AnsweredCall(NamedTuple):
    """The result of a call that a request shows; `call` is the place of the call."""

    call: int
    message: ToolMessage


class Index:
    """The index of a record. Every number in it is the place of an entry."""

    def __init__(self, record: Sequence[AnyEntry]) -> None:
        self.places: dict[type, list[int]] = {}  # of each kind of entry
        self.landmarks: dict[Landmark, list[int]] = {each: [] for each in Landmark}
        self.changes: dict[Watched, list[int]] = {each: [] for each in Watched}
        self.parts: dict[int, list[int]] = {}  # of the reply to a request, by its number
        self.shortened: list[int] = []  # the compactions that made the context smaller
        self.texts: list[list[int]] = []  # the pieces of each, without a stall
        self.answers: dict[int, list[AnsweredCall]] = {}  # in requests, of tools without entries
        self.calls: list[int] = []  # the entries about calls and their tools
        self._values: dict[Watched, object] = {}
        self._running: dict[tuple[str, object], list[int]] = {}
        # The places at which the open events change, and the open events after each of them.
        self._open: list[tuple[int, tuple[int, ...]]] = [(-1, ())]
        self._cut = False
        self._sleeps: list[tuple[int, int, str]] = []  # those that go on, by their ends
        self._text: dict[int, list[int]] = {}  # by request, the text that goes on
        self._asked: dict[str, int] = {}  # the calls of whose tools nothing is known yet
        self._read(record)

    def last(self, kind: type[AnyEntry], place: int, since: int = 0) -> int | None:
        return _last(self.places.get(kind, ()), place, since)

    def open_at(self, place: int) -> tuple[int, ...]:
        """Return the starts of the model calls, tools and waits that are open after an entry."""
        return self._open[bisect_right(self._open, place, key=itemgetter(0)) - 1][1]

    def has_begun(self, entry: AnyEntry, place: int) -> bool:
        """Return whether a part of the reply to a request, its end among them, has arrived."""
        parts = self.parts.get(entry.number) if type(entry) is entries.Request else None
        return parts is not None and parts[0] <= place

    def next(self, landmark: Landmark, place: int) -> int | None:
        return following(self.landmarks[landmark], place)

    def previous(self, landmark: Landmark, place: int) -> int | None:
        return _last(self.landmarks[landmark], place - 1, 0)

    def last_change(self, watched: Watched, place: int) -> int | None:
        return _last(self.changes[watched], place - 1, 0)

    def _read(self, record: Sequence[AnyEntry]) -> None:
        for place, entry in enumerate(record):
            kind: Any = type(entry)
            self.places.setdefault(kind, []).append(place)
            if kind in OF_REPLY:
                self.parts.setdefault(entry.request, []).append(place)  # type: ignore[union-attr]
                self._piece(place, entry, record)
            while self._sleeps and self._sleeps[0][0] <= entry.at_ns:
                self._close(heappop(self._sleeps)[1], place)
            if kind in OF_CALLS:
                self.calls.append(place)
                self._asked.pop(entry.call_id, None)  # type: ignore[union-attr]
            if kind in _LANDMARKS:
                self.landmarks[_LANDMARKS[kind]].append(place)
            if KINDS[kind].fails(entry):
                self.landmarks[Landmark.FAULT].append(place)
            if kind in _CLOSES and (started := self._running.get(_key_of(entry, *_CLOSES[kind]))):
                self._close(started.pop(0), place)
            self._note(place, kind, entry)
            if kind in _OPENS:
                self._running.setdefault(_key_of(entry, *_OPENS[kind]), []).append(place)
                self._open.append((place, (*self._open[-1][1], place)))

    def _piece(self, place: int, entry: Any, record: Sequence[AnyEntry]) -> None:
        text = self._text.get(entry.request)
        before = record[text[-1]] if text else entry
        if type(entry) not in TEXTS:
            self._text.pop(entry.request, None)
        elif text and type(before) is type(entry) and entry.at_ns - before.at_ns < STALL_NS:
            text.append(place)
        else:
            self._text[entry.request] = [place]
            self.texts.append(self._text[entry.request])

    def _watch(self, watched: Watched, value: object, place: int) -> None:
        if self._values.get(watched) != value:
            self._values[watched] = value
            self.changes[watched].append(place)

    def _close(self, start: int, place: int) -> None:
        self._open.append((place, tuple(each for each in self._open[-1][1] if each != start)))

    def _note(self, place: int, kind: type, entry: Any) -> None:
        if kind is entries.Prompt:
            self._values, self._cut = {}, False
        elif kind is entries.Ended:  # events of a run that was stopped have no end of their own
            self._running, self._sleeps = {}, []
            self._open.append((place, ()))
        elif kind is entries.Request:
            self._request(place, entry)
        elif kind in _BEFORE_A_RETRY:
            self._cut = True
        elif kind is entries.ToolCall:
            self._asked[entry.call_id] = place
        elif kind is entries.Transition:
            self._watch(Watched.STATE, entry.state, place)
            for counter in _COUNTERS:
                self._watch(counter, getattr(entry.counters, counter), place)
        elif kind is entries.Compaction and entry.strategy:
            self.shortened.append(place)
        elif kind is entries.Sleep:
            heappush(self._sleeps, (entry.at_ns + entry.duration_ns, place, entry.place))
        elif kind is entries.TaskCancelled:
            # It ends the sleep from which the task is cancelled: one that began where it waits.
            for sleep in [each for each in self._sleeps if each[2] == entry.place][:1]:
                self._sleeps.remove(sleep)
                heapify(self._sleeps)
                self._close(sleep[1], place)

    def _request(self, place: int, entry: entries.Request) -> None:
        for message in entry.added:
            if isinstance(message, ToolMessage) and message.call_id in self._asked:
                call = self._asked.pop(message.call_id)
                self.answers.setdefault(place, []).append(AnsweredCall(call, message))
                insort(self.landmarks[Landmark.TOOL_CALL], call)
        if entry.purpose != "main":
            return
        self.landmarks[Landmark.STEP].append(place)
        if self._cut:
            self.landmarks[Landmark.RETRY].append(place)
        self._cut = False
        self._watch(Watched.TOKENS, entry.tokens, place)
        self._watch(Watched.MESSAGES, entry.kept + len(entry.added), place)


_LANDMARKS = {
    entries.Transition: Landmark.TRANSITION, entries.Prompt: Landmark.PROMPT,
    entries.Ended: Landmark.END, entries.Request: Landmark.MODEL_CALL,
    entries.ToolStarted: Landmark.TOOL_CALL, entries.Compaction: Landmark.COMPACTION,
    entries.StopRequested: Landmark.STOP,
}  # fmt: skip
# The events that go on for a while, each with the field that its begin and its end share.
_OPENS = {
    entries.Request: ("model", "number"), entries.ToolStarted: ("tool", "call_id"),
    entries.ServiceRequest: ("service", "number"), entries.ProgramStarted: ("program", "number"),
    entries.Backoff: ("backoff", ""), entries.Sleep: ("sleep", "seq"),
}  # fmt: skip
_CLOSES = {
    **dict.fromkeys((entries.Finish, entries.Error, entries.StreamCut), ("model", "request")),
    entries.ToolResult: ("tool", "call_id"), entries.ServiceReply: ("service", "request"),
    entries.ProgramEnded: ("program", "program"), entries.Transition: ("backoff", ""),
}  # fmt: skip
_BEFORE_A_RETRY = frozenset({entries.Error, entries.StreamCut, entries.Backoff})


def _key_of(entry: AnyEntry, name: str, field: str) -> tuple[str, object]:
    return name, getattr(entry, field) if field else None


def following(places: Sequence[int], place: int) -> int | None:
    """Return the first of sorted `places` after `place`, or None."""
    found = bisect_right(places, place)
    return places[found] if found < len(places) else None


def _last(places: Sequence[int], place: int, since: int) -> int | None:
    found = bisect_right(places, place)
    return places[found - 1] if found and places[found - 1] >= since else None


def between(places: Sequence[int], first: int, last: int) -> Sequence[int]:
    """Return those of sorted `places` from `first` to `last`."""
    return places[bisect_left(places, first) : bisect_right(places, last)]

"""The position of the cursor: the facts that are true after one entry of a recording."""

import shlex
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from simloop.cursor.index import AnsweredCall, Landmark, Watched, between
from simloop.cursor.recorded_run import RecordedRun
from simloop.errors import ScenarioError
from simloop.kernel.durations import parse_duration
from simloop.kernel.signals import Signal
from simloop.messages import Counters, Message, Request, UserMessage
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import shared
from simloop.virtual.clock.timeouts import NS_PER_MS
from simloop.virtual.clock.waits import Wait

_MOST_PARTS = 2_000
_KINDS = {"task": "code", "thread": "code", "timeout": "limit"}
_HINT = "write the number of an entry, counted from 0, or a virtual time such as 5.2s"


class Move(NamedTuple):
    """The newest transition: the state before it, the signal, the state after it, its place."""

    before: str
    signal: Signal
    after: str
    place: int


class Counter(NamedTuple):
    """A counter of the run: its value, the limit or None, and the place of its last change."""

    name: str
    value: int
    limit: int | None
    changed: int | None


class PendingTimer(NamedTuple):
    """A wait that is under way, or a limit that will be reached."""

    name: str
    since_ns: int | None  # the virtual time at which it began; None if unknown
    due_ns: int | None  # the time at which it ends the wait; None if nothing bounds it
    kind: str = "event"  # event; code of a task or thread that waits; limit


class CallState(NamedTuple):
    """A call of the newest reply, as the model made it (`called`) and as it was run."""

    call_id: str
    name: str
    arguments: str
    called: entries.ToolCall | None
    started: entries.ToolStarted | None
    returned: entries.ToolResult | None
    answered: entries.Answered | None


class ArrivedReply(NamedTuple):
    """The reply to the newest main request; `left_out` earlier parts are not in `parts`."""

    request: entries.Request
    parts: Sequence[AnyEntry]
    left_out: int


class Position:
    """The facts after entry number `place` of a recording, counted from 0."""

    def __init__(self, recording: RecordedRun, place: int) -> None:
        self.recording = recording
        self.place = place
        self.entry: AnyEntry = recording.entries[place]
        self.at_ns = self.entry.at_ns

    @cached_property
    def start(self) -> int:
        return self.recording.index.last(entries.Prompt, self.place) or 0

    @cached_property
    def prompt_number(self) -> int:
        return bisect_right(self.recording.index.places.get(entries.Prompt, ()), self.place)

    def newest(self, kind: type[AnyEntry]) -> Any:
        found = self.recording.index.last(kind, self.place, self.start)
        return None if found is None else self.recording.entries[found]

    # ------------------------------------------------------------------ the machine

    @cached_property
    def move(self) -> Move | None:
        """Return the newest transition of this run; an agent makes none."""
        index, record = self.recording.index, self.recording.entries
        if (place := index.last(entries.Transition, self.place, self.start)) is None:
            return None
        now: Any = record[place]
        earlier = index.last(entries.Transition, place - 1, self.start)
        before: Any = None if earlier is None else record[earlier]
        return Move("ready" if before is None else before.state, now.signal, now.state, place)

    @cached_property
    def counters(self) -> Sequence[Counter]:
        if (moved := self.newest(entries.Transition)) is None:
            return ()
        bounds = {} if self.recording.machine is None else {
            bound.counter: bound.at for bound in self.recording.machine.bounds.values()
        }  # fmt: skip
        counters = []
        for name in Counters.__struct_fields__:
            found = self.recording.index.last_change(Watched(name), self.place + 1)
            changed = None if found is None or found < self.start else found
            counters.append(Counter(name, getattr(moved.counters, name), bounds.get(name), changed))
        return counters

    # ------------------------------------------------------------------ the model

    @cached_property
    def request_place(self) -> int | None:
        found = self.recording.index.previous(Landmark.STEP, self.place + 1)
        return None if found is None or found < self.start else found

    @property
    def request(self) -> Request | None:
        return None if self.request_place is None else self.sent(self.request_place)

    @property
    def earlier_request(self) -> Request | None:
        """Return the main request of the same party before the newest one, of any run."""
        found, newest = self.request_place, self.request
        while found is not None and newest is not None:
            found = self.recording.index.previous(Landmark.STEP, found)
            if found is not None and self.sent(found).party == newest.party:
                return self.sent(found)
        return None

    @cached_property
    def shared(self) -> int:
        """Return how many messages the newest main request shares with the one before it."""
        request, earlier = self.request, self.earlier_request
        if request is None or earlier is None or self.request_place is None:
            return 0
        entry: Any = self.recording.entries[self.request_place]
        if entry.base == earlier.number:
            return int(entry.kept)
        return shared(request.messages, earlier.messages)

    def sent(self, place: int) -> Request:
        entry: Any = self.recording.entries[place]
        return self.recording.requests[entry.number]

    @cached_property
    def reply(self) -> ArrivedReply | None:
        if (place := self.request_place) is None:
            return None
        record = self.recording.entries
        request: Any = record[place]
        found = between(self.recording.index.parts.get(request.number, ()), place, self.place)
        shown = found[-_MOST_PARTS:]
        return ArrivedReply(request, [record[each] for each in shown], len(found) - len(shown))

    # ------------------------------------------------------------------ tools and hooks

    @cached_property
    def calls(self) -> Sequence[CallState]:
        """Return the calls of the newest reply; without any, those that its request answers."""
        if (reply := self.reply) is None or self.request_place is None:
            return ()
        calls: list[dict[str, Any]] = []
        named: dict[str, list[dict[str, Any]]] = {}  # by id, which calls of one reply may share
        for place in between(self.recording.index.calls, self.request_place, self.place):
            entry: Any = self.recording.entries[place]
            kind, same_id = type(entry).__name__, named.setdefault(entry.call_id, [])
            if kind == "CallRenamed":  # the newest call
                call = same_id.pop() if same_id else {}
                call["id"] = entry.to_id
                named.setdefault(entry.to_id, []).append(call)
                continue
            if kind == "CallBegun":
                continue
            if kind == "ToolCall" or not same_id:
                same_id.append({"id": entry.call_id})
                calls.append(same_id[-1])
            same_id[-1 if kind == "ToolCall" else 0][kind] = entry
        if not calls:
            answers = self.recording.index.answers.get(self.request_place, ())
            return tuple(self._shown_call(reply.request, each) for each in answers)
        return tuple(map(_call_state, calls))

    def _shown_call(self, request: AnyEntry, answer: AnsweredCall) -> CallState:
        call, message = self.recording.entries[answer.call], answer.message
        assert isinstance(call, entries.ToolCall)
        given = entries.Answered(
            request.seq, request.at_ns, call.call_id, call.name, message.text, message.is_error
        )
        return _call_state({"id": call.call_id, "ToolCall": call, "Answered": given})

    @cached_property
    def hooks(self) -> Sequence[entries.Hook]:
        """Return the hooks that have run since the transition before the newest one."""
        if (places := self.recording.index.places.get(entries.Hook)) is None:
            return ()
        since = self.start if self.move is None else self.move.place
        if self.move and since == self.place:  # the transition that the effect of these led to
            earlier = self.recording.index.last(entries.Transition, since - 1, self.start)
            since = self.start if earlier is None else earlier
        found: Any = [self.recording.entries[each] for each in between(places, since, self.place)]
        return tuple(found)

    # ------------------------------------------------------------------ the context

    @property
    def context(self) -> Sequence[Message]:
        """Return the messages of the newest main request, also of one in an earlier run.

        After a compaction they are those of the next one of this run, if there is one: a trace
        states the new context with it. Before the first request there is the prompt alone.
        """
        place = self.sent_place if self.compacted_place is None else self.compacted_place
        if place is None:
            prompt = self.newest(entries.Prompt)
            return () if prompt is None else (UserMessage(prompt.text),)
        return self.sent(place).messages

    @cached_property
    def sent_place(self) -> int | None:
        """Return the place of the newest main request, also of one in an earlier run, or None."""
        return self.recording.index.previous(Landmark.STEP, self.place + 1)

    @property
    def is_compacted(self) -> bool:
        newest = self.compactions[-1:]
        return bool(newest) and (self.sent_place is None or newest[0] > self.sent_place)

    @cached_property
    def compacted_place(self) -> int | None:
        """Return the place of the request that first shows a new compacted context, or None."""
        if not self.is_compacted:
            return None
        found = self.recording.index.next(Landmark.STEP, self.place)
        if found is None or self.recording.index.last(entries.Prompt, found, self.place + 1):
            return None  # there is none in this run
        return found

    @property
    def compactions(self) -> Sequence[int]:
        return between(self.recording.index.shortened, 0, self.place)

    def removed_by(self, place: int) -> Sequence[Message]:
        index = self.recording.index
        before, after = index.previous(Landmark.STEP, place), index.next(Landmark.STEP, place)
        if before is None or after is None:
            return ()
        if after > self.place and after != self.compacted_place:
            return ()
        kept = set(self.sent(after).messages)
        return [message for message in self.sent(before).messages if message not in kept]

    # ------------------------------------------------------------------ time

    @cached_property
    def timers(self) -> Sequence[PendingTimer]:
        record = self.recording.entries
        if self.newest(entries.Ended) is not None:
            return ()
        events = [record[place] for place in self.recording.index.open_at(self.place)]
        found = [self._timer(each) for each in events]
        begun = [each for each in events if isinstance(each, entries.Sleep)]
        sleeps = {(each.place, each.at_ns + each.duration_ns) for each in begun}
        code = self.recording.waits.after(self.place)
        others = (w for w in code if w.what != "sleep" or (w.place, w.due_ns) not in sleeps)
        found += map(_wait, others)
        if (limits := self.recording.limits) is not None and limits.max_wall_clock_ms is not None:
            since_ns = record[self.start].at_ns
            due_ns = since_ns + limits.max_wall_clock_ms * NS_PER_MS
            found.append(PendingTimer("max_wall_clock", since_ns, due_ns, "limit"))
        return tuple(found)

    @property
    def waits_for(self) -> Sequence[str]:
        """Return the names of the events that go on, or else of the code that waits."""
        events = [each.name for each in self.timers if each.kind == "event"]
        return events or [each.name for each in self.timers if each.kind == "code"]

    def _timer(self, entry: AnyEntry) -> PendingTimer:
        limits, settings = self.recording.limits, self.recording.settings
        due_ns = None
        match entry:
            case entries.Backoff():
                return PendingTimer("backoff", entry.at_ns, entry.at_ns + entry.delay_ns)
            case entries.Sleep():
                name, due_ns = f"sleep at {entry.place}", entry.at_ns + entry.duration_ns
            case entries.Request():
                name = f"model call #{entry.number}"
                if limits is not None:
                    limit_ms = limits.model_call_timeout_ms
                    if not self.recording.index.has_begun(entry, self.place):
                        limit_ms = min(limit_ms, limits.first_part_timeout_ms)
                    due_ns = entry.at_ns + limit_ms * NS_PER_MS
            case entries.ToolStarted():
                name = f"tool {entry.name} [{entry.call_id}]"
                if settings is not None and settings.tool_execution.timeout_ms is not None:
                    due_ns = entry.at_ns + settings.tool_execution.timeout_ms * NS_PER_MS
            case entries.ServiceRequest():
                name = f"service #{entry.number} {entry.method} {entry.service}{entry.path}"
            case entries.ProgramStarted():
                name = f"program #{entry.number} {shlex.join(entry.args)}"
            case _:
                name = type(entry).__name__
        return PendingTimer(name, entry.at_ns, due_ns)


def _wait(found: Wait) -> PendingTimer:
    name = " ".join(filter(None, (found.what, found.name, found.place and f"at {found.place}")))
    return PendingTimer(name, None, found.due_ns, _KINDS.get(found.what, "event"))


def _call_state(found: dict[str, Any]) -> CallState:
    call, started = found.get("ToolCall"), found.get("ToolStarted")
    shown = started or call or found.get("ToolResult") or found["Answered"]
    arguments = getattr(shown, "arguments", "")
    returned, answered = found.get("ToolResult"), found.get("Answered")
    return CallState(found["id"], shown.name, arguments, call, started, returned, answered)


def place_of(trace: LoopTrace, named: str | None) -> int:
    """Return the place of an entry by number or time; None is the last. Raises ScenarioError."""
    if (last := len(trace.entries) - 1) < 0:
        raise ScenarioError("the trace has no entries", hint="record the run again")
    if named is None:
        return last
    if named.isdecimal() and named.isascii():
        if len(named) > len(str(last)) or int(named) > last:
            raise ScenarioError(f"there is no such entry; the last one is {last}", key="--at")
        return int(named)
    try:
        return place_at(trace, parse_duration(named))
    except ValueError as error:
        raise ScenarioError(f"{named!r} is no entry: {error}", key="--at", hint=_HINT) from error


def place_at(trace: LoopTrace, at_ns: int) -> int:
    """Return the place of the last entry at or before a virtual time, or 0."""
    return max(bisect_right(trace.entries, at_ns, key=lambda entry: entry.at_ns) - 1, 0)

"""Calls and results as they were sent: each call of a request has exactly one result.

A provider refuses a request in which a call has no result or two, a result has no call, two calls
share an id, or something stands between a message with calls and their results. Not here: the
invariants (requests.py) and the list for a whole trace (check/pairing.py). The rules to keep:
entries at the boundary decide (requests, calls, results), so that any loop and any trace file can
be judged; and the work grows with the trace, not with its square.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.facts import Facts

SHARED = "shares its id with another call"
NO_RESULT = "has no result"
MORE_RESULTS = "has more than one result"
NOT_BEHIND = "has a result that does not follow its message"
NOT_CALLED = "has a result and is in no message before it"
NEVER_CALLED = "has a result and was not called"


class Break(NamedTuple):
    """A broken pair: the number of a request, the id of a call, and the description."""

    number: int
    call_id: str
    why: str

    def __str__(self) -> str:
        return f"request {self.number}: call {self.call_id!r} {self.why}"


class Sent:
    """The messages of a request, read one after the other.

    `open` are the calls of the newest message with calls that have no result yet. `calls` counts
    the calls of all messages by id, `results` the results of the newest message with calls.
    """

    __slots__ = ("calls", "messages", "open", "results")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.open: dict[str, None] = {}
        self.calls: Counter[str] = Counter()
        self.results: Counter[str] = Counter()

    def keep(self, count: int) -> None:
        """Forget all but the first `count` messages."""
        if count >= len(self.messages):
            return
        while len(self.messages) > count:
            self.calls.subtract(call.id for call in calls_of(self.messages.pop()))
        step = []
        while self.messages:  # the newest message that has calls or is no result, and those after
            step.append(self.messages.pop())
            if not isinstance(step[-1], ToolMessage):
                break
        self.open, self.results = {}, Counter()
        for message in reversed(step):
            self.calls.subtract(call.id for call in calls_of(message))
            for _ in self.add(message):
                pass  # found before

    def add(self, message: Message) -> Iterator[tuple[str, str]]:
        """Read one more message and yield the broken pairs that it shows, by the id of the call."""
        if isinstance(message, ToolMessage):
            yield from self._answer(message.call_id)
        else:
            yield from self.unanswered()
            self.open, self.results = dict.fromkeys(c.id for c in calls_of(message)), Counter()
            for call in calls_of(message):
                self.calls[call.id] += 1
                if self.calls[call.id] > 1:
                    yield call.id, SHARED
        self.messages.append(message)

    def _answer(self, call_id: str) -> Iterator[tuple[str, str]]:
        self.results[call_id] += 1
        if call_id in self.open:
            del self.open[call_id]
        elif self.results[call_id] > 1:
            yield call_id, MORE_RESULTS
        elif self.calls[call_id]:
            yield call_id, NOT_BEHIND
        else:
            yield call_id, NOT_CALLED

    def unanswered(self) -> Iterator[tuple[str, str]]:
        """Return the calls that have no result at the place where the results must stand."""
        return ((call_id, NO_RESULT) for call_id in self.open)


def calls_of(message: Message) -> Sequence[ToolCall]:
    """Return the calls of a message; only a reply has some."""
    return message.calls if isinstance(message, AssistantMessage) else ()


class Pairing:
    """Finds the broken pairs of a conversation, entry by entry.

    `read` takes an entry that `facts` have read, and returns the breaks that it shows. Several
    invariants may read one entry: it is judged once.

    Some breaks are in no request: the calls of the last reply. So the answers of an engine to the
    calls of a reply are judged besides; an agent without one answers in its next request alone.
    The calls of a reply to a request for a summary are never answered.
    """

    SEES = (
        entries.Request, entries.ToolCall, entries.CallRenamed, entries.Answered, entries.Ended,
    )  # fmt: skip
    """The kinds of entries to read."""

    def __init__(self, facts: Facts, *, has_engine: bool) -> None:
        self._facts = facts
        self._has_engine = has_engine
        self._entry: AnyEntry | None = None
        self._found: list[Break] = []
        self._main, self._read = Sent(), 0  # `_main` has the messages of request number `_read`
        self._number, self._counts = 0, True
        self._called: Counter[str] = Counter()
        self._answered: Counter[str] = Counter()
        steps = (self._request, self._call, self._rename, self._answer, self.balance)
        self._table: dict[type, Callable[[Any], Iterable[Break]]]
        self._table = dict(zip(self.SEES, steps, strict=True))

    def read(self, entry: AnyEntry) -> list[Break]:
        """Return the broken pairs that `entry` shows."""
        if entry is not self._entry:
            self._entry = entry
            self._found = list(self._table[type(entry)](entry))
        return self._found

    def _request(self, entry: entries.Request) -> Iterator[Break]:
        yield from self.balance()
        self._number, self._counts = entry.number, entry.purpose == "main"
        yield from self._sent(entry)

    def _sent(self, entry: entries.Request) -> Iterator[Break]:
        """Yield the breaks that a provider would see in the messages of a request as sent."""
        sent, new = Sent(), self._facts.sent[entry.number].messages
        if entry.purpose == "main":
            if entry.base == self._read:
                sent, new = self._main, entry.added
                sent.keep(entry.kept)
            self._main, self._read = sent, entry.number
        for message in new:
            for call_id, why in sent.add(message):
                yield Break(entry.number, call_id, why)
        for call_id, why in sent.unanswered():
            yield Break(entry.number, call_id, why)

    def _call(self, entry: entries.ToolCall) -> Iterable[Break]:
        if self._counts:
            self._called[entry.call_id] += 1
        return ()

    def _rename(self, entry: entries.CallRenamed) -> Iterable[Break]:
        self._called[entry.call_id] -= 1
        self._called[entry.to_id] += 1
        return ()

    def _answer(self, entry: entries.Answered) -> Iterable[Break]:
        self._answered[entry.call_id] += 1
        return ()

    def balance(self, _: entries.Ended | None = None) -> Iterator[Break]:
        """Yield the breaks between the calls of the replies and the answers of the engine."""
        called, answered = self._called, self._answered
        if not called and not answered:
            return
        self._called, self._answered = Counter(), Counter()
        if not self._has_engine:
            return
        for call_id, count in called.items():
            if not count:
                continue  # renamed
            if count > 1:
                yield Break(self._number, call_id, SHARED)
            elif not answered[call_id]:
                yield Break(self._number, call_id, NO_RESULT)
            elif answered[call_id] > 1:
                yield Break(self._number, call_id, MORE_RESULTS)
        for call_id in answered:
            if not called[call_id]:
                yield Break(self._number, call_id, NEVER_CALLED)

"""The pairs of calls and results, and how they break, in one request and in a whole trace.

Providers refuse a request in which a call has no result or two, a result has no call, two calls
share an id, or something stands between a message with calls and their results. Entries at the
boundary decide (requests, calls, results), so that any loop and any trace file can be judged.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from simloop.escape import escape
from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage
from simloop.trace import entries
from simloop.trace.facts import Facts
from simloop.trace.looptrace import LoopTrace

SHARED = "shares its id with another call"
NO_RESULT = "has no result"
MORE_RESULTS = "has more than one result"
NOT_BEHIND = "has a result that does not follow its message"
NOT_CALLED = "has a result and is in no message before it"


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
    the calls of all messages by id, `results` are those that stand behind the newest message.
    """

    __slots__ = ("calls", "messages", "open", "results")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.open: dict[str, None] = {}
        self.calls: defaultdict[str, int] = defaultdict(int)
        self.results: set[str] = set()

    def keep(self, count: int) -> None:
        """Forget all but the first `count` messages."""
        if count >= len(self.messages):
            return
        while len(self.messages) > count:
            self._forget(self.messages.pop())
        step = []
        while (
            self.messages
        ):  # the newest message that has calls or is no result, and the messages after it
            step.append(self.messages.pop())
            if not isinstance(step[-1], ToolMessage):
                break
        self.open, self.results = {}, set()
        for message in reversed(step):
            self._forget(message)
            self.add(message, [])  # reported before

    def _forget(self, message: Message) -> None:
        for call in calls_of(message):
            self.calls[call.id] -= 1

    def add_all(self, messages: Iterable[Message]) -> list[tuple[str, str]]:
        """Read the last messages of a request; return the breaks that they show, by call id."""
        found: list[tuple[str, str]] = []
        for message in messages:
            self.add(message, found)
        return found + [(call_id, NO_RESULT) for call_id in self.open]

    def add(self, message: Message, found: list[tuple[str, str]]) -> None:
        """Read one more message, and add the breaks that it shows to `found`."""
        self.messages.append(message)
        if type(message) is ToolMessage:
            call_id = message.call_id
            if call_id in self.open:
                del self.open[call_id]
                self.results.add(call_id)
            else:
                found.append((call_id, self._why(call_id)))
            return
        if self.open:
            found += [(call_id, NO_RESULT) for call_id in self.open]
            self.open = {}
        if self.results:
            self.results = set()
        for call in calls_of(message):
            self.open[call.id] = None
            self.calls[call.id] += 1
            if self.calls[call.id] > 1:
                found.append((call.id, SHARED))

    def _why(self, call_id: str) -> str:
        """Return the error of a result whose call is not open."""
        again = call_id in self.results
        self.results.add(call_id)
        if again:
            return MORE_RESULTS
        return NOT_BEHIND if self.calls[call_id] else NOT_CALLED


def calls_of(message: Message) -> Sequence[ToolCall]:
    """Return the calls of a message; only a reply has calls."""
    return message.calls if isinstance(message, AssistantMessage) else ()


class Pairing:
    """Finds the broken pairs in the requests of a conversation, as a provider would see them.

    `read` takes a request that `facts` have read, and returns the breaks that it shows. Several
    invariants may read one request: it is judged once.
    """

    __slots__ = ("_facts", "_found", "_main", "_number", "_read")

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._number = 0
        self._found: list[Break] = []
        self._main, self._read = Sent(), 0  # `_main` has the messages of request number `_read`

    def read(self, entry: entries.Request) -> list[Break]:
        """Return the broken pairs that a request shows."""
        number = entry.number
        if number == self._number:
            return self._found
        self._number = number
        if entry.purpose != "main":
            sent, new = Sent(), self._facts.sent[number].messages
        elif entry.base == self._read:
            sent, new = self._main, entry.added
            sent.keep(entry.kept)
        else:
            sent, new = Sent(), self._facts.sent[number].messages
        found = sent.add_all(new)
        if entry.purpose == "main":
            self._main, self._read = sent, number
        self._found = [Break(number, *each) for each in found]
        return self._found


def broken_pairs(trace: LoopTrace) -> list[str]:
    """Return the broken pairs of a trace, each with the number of the request and the call's id.

    A break that stays in the conversation is listed once, with the first request that has it.
    """
    first: dict[tuple[str, str], Break] = {}
    for found in _breaks(trace):
        place = found.call_id, found.why
        first[place] = min(found, first.get(place, found))
    return list(map(str, sorted(first.values())))


def _breaks(trace: LoopTrace) -> Iterator[Break]:
    """Yield the breaks that a provider would see, then those that no request shows."""
    facts = Facts()
    pairing = Pairing(facts)
    for entry in trace.entries:
        facts.read(entry)
        if type(entry) is entries.Request:
            yield from pairing.read(entry)
    if trace.has_machine:
        yield from _in_steps(trace)


def _in_steps(trace: LoopTrace) -> Iterator[Break]:
    """Yield the breaks between the calls of the replies and the answers of the engine.

    The calls of the last reply are in no request. The calls of a reply to a request for a summary
    are never answered. An agent without an engine answers its calls in its next request alone.
    """
    number, counts, called, answered = 0, True, Counter[str](), Counter[str]()
    for entry in trace.entries:
        if isinstance(entry, entries.Request | entries.Ended):
            yield from _unbalanced(number, called, answered)
            called, answered = Counter(), Counter()
        if isinstance(entry, entries.Request):
            number, counts = entry.number, entry.purpose == "main"
        elif isinstance(entry, entries.ToolCall) and counts:
            called[entry.call_id] += 1
        elif isinstance(entry, entries.CallRenamed):
            called[entry.call_id] -= 1
            called[entry.to_id] += 1
        elif isinstance(entry, entries.Answered):
            answered[entry.call_id] += 1
    if trace.footer is not None:  # a run that was cut short may have answered them later
        yield from _unbalanced(number, called, answered)


def _unbalanced(number: int, called: Counter[str], answered: Counter[str]) -> Iterator[Break]:
    for call_id in called:
        if not called[call_id]:
            continue  # renamed
        if called[call_id] > 1:
            yield Break(number, call_id, SHARED)
        elif not answered[call_id]:
            yield Break(number, call_id, NO_RESULT)
        elif answered[call_id] > 1:
            yield Break(number, call_id, MORE_RESULTS)
    for call_id in answered:
        if not called[call_id]:
            yield Break(number, call_id, "has a result and was not called")


def unexpected_pairs(trace: LoopTrace, known: Sequence[str]) -> Iterator[str]:
    """Yield a line for each broken pair of `trace` that is not known, or is known and not so."""
    found = broken_pairs(trace)
    yield from (f"pairing: {line}" for line in found if line not in known)
    gone = (line for line in known if line not in found)
    yield from (
        f"pairing: listed in expect.broken_pairs, but not so: {escape(line)}" for line in gone
    )

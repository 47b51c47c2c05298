"""Calls and results in requests: each call of a request has exactly one result.

A provider refuses a request in which a call has no result or two, a result has no call, two calls
share an id, or something stands between a message with calls and their results. Not here: the
invariants (requests.py) and the list for a whole trace (check/pairing.py). The rules to keep:
entries at the boundary decide (requests, calls, results), so that any loop and any trace file can
be judged; and the work grows with the trace, not with its square.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage
from simloop.trace import entries
from simloop.trace.facts import Facts

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

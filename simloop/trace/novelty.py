"""The search for something new in the record of a conversation.

An entry is new if it says what none has said before: the text of a reply, a call, a result, an
error, a message of a request. Ids do not count, nor do the numbers in a message that the agent
itself writes, such as those of its attempts. A prompt, a message of the user, and a budget that is
used up are always new, because they come to an end by themselves. A doubt counts as new.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from simloop.kernel.names import NAMES
from simloop.messages import Message, ToolMessage, UserMessage
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.virtual.progress import runaway

REPETITIONS = 50
"""The requests in a row that may bring nothing new."""
_MOVES = 40
"""The transitions and tool runs for each of these: a round has four, and some for each call."""
_BETWEEN = 20
_NEVER = 2**63
_NUMBER = re.compile(r"\d+")
_HINT = (
    "if so many are right, set max_transitions, in the scenario or in the marker simloop, to the "
    "number that the run may make"
)


class Novelty:
    """Counts the requests, and the moves of a machine, since a record last had something new.

    `most` requests in a row may bring nothing new, or any number of them if it is None. `bound` is
    the number of all requests that an agent may make.
    """

    def __init__(
        self, record: Sequence[AnyEntry], most: int | None = None, bound: int | None = None
    ) -> None:
        self.next = min(
            _BETWEEN if most is not None else _NEVER, _NEVER if bound is None else bound
        )
        """The number of requests after which `check` is to be called."""
        self._record: Sequence[Any] = record
        self._most = most
        self._bound = bound
        self._budgets: dict[Callable[[], int], int] = {}
        self._seen: set[object] = set()
        self._said: dict[int, list[str]] = {}  # the pieces of each reply that has not ended
        self._at = self._repeats = self._moves = self._news = self._told = self._since = 0
        self._asked_ns = self._calls = 0
        self._is_answered = False

    def spend(self, budget: Callable[[], int]) -> None:
        """Take for new what `budget` has used: it returns 0 at first, and ends by itself."""
        self._budgets.setdefault(budget, 0)

    def close(self) -> None:
        """Forget the budgets: they may refer to the recorder, which refers to this object."""
        self._budgets.clear()

    def check(self, number: int) -> None:
        """Raise RunawayRun if request `number`, which is not sent yet, is one too many."""
        bound, most = self._bound, self._most
        if bound is not None and number > bound:
            raise runaway(f"the run passed max_transitions={bound} requests without an outcome")
        self.next = _NEVER if bound is None else bound
        if most is not None:
            if self._spends():
                self._since = number
            elif number - self._since >= most:
                self._read()
                repeats = self._repeats + self._is_answered
                if repeats >= most:
                    raise runaway(self._finding(f"{repeats} requests"), _HINT)
                self._since = number - repeats
            due = max(number, self._since + most - 1)
            self.next = min(self.next, due, number + _BETWEEN)

    def check_moves(self) -> None:
        """Raise RunawayRun if a machine, or an agent with its tools, goes on without asking."""
        if self._most is None or self._spends():
            return
        self._read()
        if self._moves > _MOVES * self._most:
            raise runaway(self._finding(f"{self._moves} transitions and tool runs"), _HINT)

    def is_new(self) -> bool:
        """Return whether the record has something new since the last call."""
        if self._most is None:  # any entry will do
            before, self._at = self._at, len(self._record)
            return before != self._at
        if not self._spends():
            self._read()
        before, self._told = self._told, self._news
        return before != self._told

    def _spends(self) -> bool:
        """Return whether a budget has been used. Then nobody needs to read what the run said."""
        used = {budget: budget() for budget in self._budgets}
        if used == self._budgets:
            return False
        self._calls = len(self._record) - self._at  # so many at most
        self._budgets, self._at = used, len(self._record)
        self._said.clear()
        self._is_answered = False
        self._found()
        return True

    def _found(self) -> None:
        self._news += 1
        self._repeats = self._moves = 0

    def _read(self) -> None:
        """Look at the entries that came since the last time."""
        said = self._said
        for entry in self._record[self._at :]:
            kind = type(entry)  # an `isinstance` that fails on a Struct takes much longer
            if kind is entries.Transition:
                self._moves += 1
                continue
            if kind in _PIECES:
                said.setdefault(entry.request, []).append(_PIECES[kind](entry))
                self._is_answered = True
                continue
            key = _KEYS[kind](entry) if kind in _KEYS else None
            if kind in _ENDS:
                self._is_answered = True
                key = "".join(said.pop(entry.request, ())), key
            elif kind is entries.Request:
                # Requests that are sent side by side repeat nothing.
                self._repeats += self._is_answered or entry.at_ns > self._asked_ns
                self._asked_ns, self._is_answered = entry.at_ns, False
                for message in entry.added:
                    self._hear(_key_of_message(message))
            elif kind is entries.ToolCall:
                self._calls += 1
            elif kind is entries.ToolStarted:
                self._moves += not self._calls  # nobody asked for it
                self._calls = max(0, self._calls - 1)
            elif kind in _OF_USER:
                self._found()
            self._hear(key)
        self._at = len(self._record)

    def _hear(self, key: object) -> None:
        if key is not None and key not in self._seen:
            self._seen.add(key)
            self._found()

    def _finding(self, count: str) -> str:
        round_ = _last_round(self._record)
        return f"no progress: {count} in a row brought nothing new{round_ and f': {round_}'}"


def _key_of_message(message: Message) -> object:
    """Return what a message of a request says; None if the model has said it."""
    if type(message) is UserMessage:
        return _NUMBER.sub("0", message.text)
    return (message.text, message.is_error) if type(message) is ToolMessage else None


_PIECES: dict[type, Callable[[Any], str]] = {
    entries.TextDelta: lambda entry: entry.text,
    entries.ReasoningDelta: lambda entry: entry.text,
    entries.ToolCallDelta: lambda entry: entry.arguments,
}
_OF_USER = frozenset((entries.Prompt, entries.Queued))
_ENDS = frozenset((entries.Finish, entries.Error, entries.StreamCut))
_KEYS: dict[type, Callable[[Any], object]] = {
    entries.ToolCall: lambda entry: (entry.name, entry.arguments),
    entries.ToolStarted: lambda entry: (entry.name, entry.arguments),
    entries.Answered: lambda entry: (entry.text, entry.is_error),
    entries.ToolResult: lambda entry: (entry.text, entry.is_error),
    entries.Finish: lambda entry: (entry.reason, entry.raw),
    entries.Error: lambda entry: (entry.fault.status, entry.fault.code, entry.fault.message),
    entries.Classified: lambda entry: entry.error_class,
    entries.Hook: lambda entry: (entry.point, entry.hook, entry.result, entry.detail),
    entries.Note: lambda entry: _NUMBER.sub("0", entry.text),
    entries.RequestRefused: lambda entry: _NUMBER.sub("0", entry.text),
}
"""What an entry says, without its ids and the numbers that rise in every round."""


def _last_round(record: Sequence[AnyEntry]) -> str:
    """Return the signals of a machine since it was last at this place; empty for an agent."""
    signals: list[str] = []
    last = None
    for entry in reversed(record):
        if isinstance(entry, entries.Transition):
            if (entry.signal, entry.state) == last:
                break
            last = last or (entry.signal, entry.state)
            signals.append(NAMES[type(entry.signal)])
    return ", ".join(reversed(signals))

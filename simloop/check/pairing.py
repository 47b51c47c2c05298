"""Calls and results as they were sent: each call of a request has exactly one result.

A provider refuses a request in which a call has no result or two, a result has no call, two calls
share an id, or something stands between a message with calls and their results. Not here: the
consequences of a broken pair (verify.py). The rules to keep: entries at the boundary decide
(requests, calls, results), so that any loop and any trace file can be judged; and the work grows
with the trace, not with its square.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from simloop.errors import InvariantViolated
from simloop.escape import escape
from simloop.messages import AssistantMessage, Message, ToolCall, ToolMessage
from simloop.trace import entries
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests

_SHOWN = 5


def broken_pairs(trace: LoopTrace) -> list[str]:
    """Return the broken pairs of a trace, each with the number of the request and the call's id.

    A break that stays in the conversation is listed once, with the first request that has it.
    """
    first: dict[tuple[str, str], int] = {}
    for number, call_id, why in (*_in_requests(trace), *_in_steps(trace)):
        first[call_id, why] = min(number, first.get((call_id, why), number))
    listed = sorted((number, call_id, why) for (call_id, why), number in first.items())
    return [f"request {number}: call {call_id!r} {why}" for number, call_id, why in listed]


def check_pairing(trace: LoopTrace, known: Sequence[str] = ()) -> None:
    """Raise InvariantViolated unless the broken pairs of `trace` are exactly the `known` ones."""
    found = broken_pairs(trace)
    new = [line for line in found if line not in known]
    gone = [line for line in known if line not in found]
    if new or gone:
        lines = [f"pairing: {line}" for line in new]
        lines += [
            f"pairing: listed in expect.broken_pairs, but not so: {escape(line)}" for line in gone
        ]
        more = [f"pairing: and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        raise InvariantViolated("\n".join((*lines[:_SHOWN], *more)))


Break = tuple[int, str, str]
"""The number of a request, the id of a call, and the description of the error."""


@dataclass(slots=True)
class _Sent:
    """The messages of a request, read one after the other.

    `open` are the calls of the newest message with calls that have no result yet. `calls` counts
    the calls of all messages by id, `results` the results of the newest message with calls.
    """

    messages: list[Message] = field(default_factory=list)
    open: dict[str, None] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)

    def keep(self, count: int) -> None:
        """Forget all but the first `count` messages."""
        if count >= len(self.messages):
            return
        while len(self.messages) > count:
            self.calls.subtract(call.id for call in _calls_of(self.messages.pop()))
        step = []
        while self.messages:  # the newest message that has calls or is no result, and those after
            step.append(self.messages.pop())
            if not isinstance(step[-1], ToolMessage):
                break
        self.open, self.results = {}, Counter()
        for message in reversed(step):
            self.calls.subtract(call.id for call in _calls_of(message))
            for _ in self.add(message):
                pass  # found before

    def add(self, message: Message) -> Iterator[tuple[str, str]]:
        """Read one more message and yield the broken pairs that it shows, by the id of the call."""
        if isinstance(message, ToolMessage):
            yield from self._answer(message.call_id)
        else:
            yield from self.unanswered()
            self.open, self.results = dict.fromkeys(c.id for c in _calls_of(message)), Counter()
            for call in _calls_of(message):
                self.calls[call.id] += 1
                if self.calls[call.id] > 1:
                    yield call.id, "shares its id with another call"
        self.messages.append(message)

    def _answer(self, call_id: str) -> Iterator[tuple[str, str]]:
        self.results[call_id] += 1
        if call_id in self.open:
            del self.open[call_id]
        elif self.results[call_id] > 1:
            yield call_id, "has more than one result"
        elif self.calls[call_id]:
            yield call_id, "has a result that does not follow its message"
        else:
            yield call_id, "has a result and is in no message before it"

    def unanswered(self) -> Iterator[tuple[str, str]]:
        """Return the calls that have no result at the place where the results must stand."""
        return ((call_id, "has no result") for call_id in self.open)


def _calls_of(message: Message) -> Sequence[ToolCall]:
    return message.calls if isinstance(message, AssistantMessage) else ()


def _in_requests(trace: LoopTrace) -> Iterator[Break]:
    """Yield the breaks that a provider would see in the messages of each request as sent."""
    main, read = _Sent(), 0  # `main` has the messages of request number `read`
    for entry, request in zip(_requests(trace), requests(trace.entries), strict=True):
        if entry.purpose != "main":
            sent, new = _Sent(), request.messages
        elif entry.base == read:
            sent, new = main, entry.added
            sent.keep(entry.kept)
        else:
            sent, new = _Sent(), request.messages
        found = [one for message in new for one in sent.add(message)]
        if entry.purpose == "main":
            main, read = sent, entry.number
        for call_id, why in (*found, *sent.unanswered()):
            yield entry.number, call_id, why


def _requests(trace: LoopTrace) -> Iterator[entries.Request]:
    return (entry for entry in trace.entries if isinstance(entry, entries.Request))


def _in_steps(trace: LoopTrace) -> Iterator[Break]:
    """Yield the breaks that no request shows, from the engine's answers to the calls of a reply.

    The calls of the last reply are in no request. The calls of a reply to a request for a summary
    are never answered. An agent without an engine answers its calls in its next request alone.
    """
    if not any(isinstance(entry, entries.Transition) for entry in trace.entries):
        return
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
            yield number, call_id, "shares its id with another call"
        elif not answered[call_id]:
            yield number, call_id, "has no result"
        elif answered[call_id] > 1:
            yield number, call_id, "has more than one result"
    for call_id in answered:
        if not called[call_id]:
            yield number, call_id, "has a result and was not called"

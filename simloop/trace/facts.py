"""The facts of a run, collected entry by entry, with the conversations of its agents.

The facts come from the entries alone, so that they can be collected during a run or from a file,
and the work for one entry does not grow with the trace.

A program may have several agents, whose requests come in any order. A request goes on with a
conversation of which it has all messages: of several, with one of its party, then with one whose
reply it has. With a conversation of another party it goes on if it adds to it, as after a handoff.
Any other request is the first of its party, or goes on with the newest one of its party, which it
has shortened or begun again. If it has no message of that one, in one run, and another system
prompt, or if that one still waits for its reply, a conversation of its own begins. So it does with
a request that is the same as another one of that moment, as for a vote.

So does an *aside*: a request without tools about a part of a conversation that offers tools, as for
a summary of its older messages. No request but its own retry goes on with it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from simloop import messages as values
from simloop.messages import AssistantMessage, FinishReason, Message, Request, ToolCall
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.requests import read_request, shared

_REMEMBERED = 16
"""The number of earlier requests that are kept: the next one has one of the last 8 as its base."""

MAY_ACT = (
    FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.CONTENT_FILTER, FinishReason.OTHER,
)  # fmt: skip
"""The finish reasons of replies that have neither failed nor been cut off."""


@dataclass(slots=True, eq=False)
class ReceivedReply:
    """The reply to one request, as far as it has arrived."""

    number: int  # of the request
    purpose: str
    sent_ns: int  # the time of the request
    at_ns: int  # that of the newest part
    pieces: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    finish: FinishReason | None = None
    word: str = ""  # the provider's own for it
    fault: values.Fault | None = None  # as it arrived
    steps: int = 1  # as the finish reports them
    begun: str = ""  # the id of the newest call of which a piece came
    is_closed: bool = False
    is_stopped: bool = False
    conversation: int = 0

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def has_half_call(self) -> bool:
        return self.begun != "" and all(call.id != self.begun for call in self.calls)

    @property
    def may_act(self) -> bool:
        """Return whether tools may run for its calls: it has not failed, and was not cut off."""
        return not self.is_closed or self.finish in MAY_ACT


class Facts:
    """The facts of a run after the entries that `read` has received."""

    def __init__(self) -> None:
        self.entry: AnyEntry | None = None  # the newest
        self.earlier: AnyEntry | None = None  # the one before it
        self.prompt: entries.Prompt | None = None  # of this run, as `stop` and `ended`
        self.stop: entries.StopRequested | None = None
        self.stops: list[entries.StopRequested] = []  # all its requests to stop
        self.ended: entries.Ended | None = None
        self.reply: ReceivedReply | None = None  # None before the first request of a run
        self.main_replies: list[ReceivedReply] = []  # to all main requests
        self.earlier_replies = 0  # the first of them, in earlier runs
        self.paused: Sequence[ToolCall] = ()  # open when the run before was completed
        self.request: Request | None = None  # the newest main request
        self.offers = False  # a request has offered tools
        self.previous: Request | None = None  # `before`, if it is of the same run
        self.before: Request | None = None  # the main request before it in its conversation
        self.kept = 0  # the messages at the start that `request` shares with `before`
        self.added: Sequence[Message] = ()  # its other messages
        self.is_aside = False  # `request` is one
        self.goes_on = False  # it has all messages of `before`, except perhaps a note at the end
        self.replies: dict[int, ReceivedReply] = {}  # by the number of their request
        self.asked: dict[str, int] = {}  # by call id, the request whose reply made the newest call
        self._waiting: dict[str, list[int]] = {}  # calls without a tool run, as in `asked`
        self.running: dict[str, list[entries.ToolStarted]] = {}  # not returned yet, by call id
        self.ran: set[str] = set()  # the ids of all that have started or returned
        self._newest: Request | None = None
        self.sent: dict[int, Request] = {}  # the last requests
        self.is_one = False  # a machine has one conversation
        self.conversation = 0  # the number of its first request
        self.conversation_of: dict[int, int] = {}  # that of each main request
        self.conversations: set[int] = set()  # those of this run
        self.asides: set[int] = set()  # their numbers
        self._ends: list[Request] = []  # the requests from which a conversation may go on
        self._first = 0  # the first main request of this run

    def read(self, entry: AnyEntry) -> None:
        self.earlier, self.entry = self.entry, entry
        if (add := _READERS.get(type(entry))) is not None:
            add(self, entry)

    def _begin(self, entry: entries.Prompt) -> None:
        reply, ended = self.reply, self.ended
        if reply is not None:  # else the run has sent no request, and the calls are still open
            is_completed = ended is not None and ended.outcome is values.Outcome.COMPLETED
            self.paused = tuple(reply.calls) if is_completed and reply.may_act else ()
        self.prompt, self.stop, self.ended = entry, None, None
        self.request = self.previous = self.reply = None
        self.conversations = set()
        self.earlier_replies = len(self.main_replies)
        if self.stops:
            self.stops = []

    def _stop(self, entry: entries.StopRequested) -> None:
        self.stop = self.stop or entry
        self.stops.append(entry)

    def _end(self, entry: entries.Ended) -> None:
        self.ended = entry

    def _send(self, entry: entries.Request) -> None:
        request = read_request(entry, self.sent.get(entry.base))
        self.sent[entry.number] = request
        number, at_ns = entry.number, entry.at_ns
        reply = self.replies[number] = ReceivedReply(number, entry.purpose, at_ns, at_ns)
        for kept in (self.sent, self.replies):
            if len(kept) > _REMEMBERED:
                del kept[next(iter(kept))]
        if entry.purpose == "main":
            self._first = self._first if self.request else entry.number
            self.before = self._newest if self.is_one else self._goes_on_from(entry, request)
            is_of_run = self.before is not None and self.before.number >= self._first
            self.previous = self.before if is_of_run else None
            self._newest, self.request, self.reply = request, request, reply
            self.offers = self.offers or bool(request.tools)
            self.main_replies.append(reply)
            self._compare(entry, request)
            first = self.conversation_of[self.before.number] if self.before else entry.number
            self.conversation = self.conversation_of[entry.number] = reply.conversation = first
            self.conversations.add(first)

    def lacks_tools(self, request: Request) -> bool:
        """Return whether a request offers none, as for a summary, and others do."""
        return self.offers and not request.tools

    def last_replies(self) -> list[ReceivedReply]:
        replies = self.main_replies[self.earlier_replies :]
        return [*{each.conversation: each for each in replies}.values()]

    @property
    def has_twins(self) -> bool:
        """Return whether this run has several conversations with the newest system prompt."""
        system = self.request.system_prompt if self.request else ""
        alike = (number for number, each in self.sent.items() if each.system_prompt == system)
        return len(self.conversations & {self.conversation_of.get(each) for each in alike}) > 1

    def _goes_on_from(self, entry: entries.Request, request: Request) -> Request | None:
        newest = self._newest
        ends = [one for one in self._ends if not self._is_at_once(entry, request, one)]
        if len(ends) == 1 and ends[0] is newest and entry.base == newest.number:  # nearly always
            found = [newest] if _adds_to(request, newest, entry.kept) else []
        else:
            sent = request.messages
            found = [one for one in ends if _adds_to(request, one, shared(one.messages, sent))]
        if found := [one for one in found if not self._begins_anew(request, one)]:
            before: Request | None = max(found, key=lambda end: self._likeness(request, end))
            assert before is not None
            is_new = len(request.messages) > len(before.messages) or self._is_closed(before)
        else:
            party, asides = request.party, self.asides
            own = [one for one in ends if one.party == party and one.number not in asides]
            known = [one for one in own if self.has_some_of(request, one)] or own
            alike = [one for one in known if one.system_prompt == request.system_prompt] or known
            before = max(alike, key=lambda end: end.number, default=None)
            if before and (self._is_apart(request, before) or self._begins_anew(request, before)):
                before = None
            is_new = before is not None and self.has_some_of(request, before)
        again = before is not None and before.number in self.asides and not request.tools
        self.is_aside = again or (before is not None and self._is_beside(request, before))
        if self.is_aside:
            self.asides.add(request.number)
            before, is_new = (before, is_new) if again else (None, False)
        if is_new:  # else another agent may have asked alike, or asks in between
            self._ends = [each for each in self._ends if each is not before]
        self._ends.append(request)
        del self._ends[:-_REMEMBERED]
        return before

    def _is_at_once(self, entry: entries.Request, request: Request, end: Request) -> bool:
        """Return whether a request is the same as one of this moment, of which it is no retry."""
        reply = self.replies.get(end.number)
        if not (reply and reply.sent_ns == entry.at_ns and end.messages == request.messages):
            return False
        return not reply.is_closed or self._is_called_again(request)

    def _is_called_again(self, request: Request) -> bool:
        """Return whether more calls have asked what a request begins with than it was asked."""
        begun = [each for each in self.sent.values() if each.messages == request.messages]
        firsts = sum(self.conversation_of.get(each.number) == each.number for each in begun)
        return firsts < self._callers(request)

    def _callers(self, request: Request) -> int:
        """Return how many calls have an argument with which a request begins: agents are tools.

        An agent has a system prompt or tools of its own: the calls are in another conversation.
        """
        if len(request.messages) != 1:
            return 0
        text, found = request.messages[0].text, 0
        for reply in self.replies.values():
            asked, own = self.sent.get(reply.number), (request.system_prompt, request.tools)
            if asked is not None and (asked.system_prompt, asked.tools) != own:
                given = (values.json_value(call.arguments) for call in reply.calls)
                texts = ([*each.values()] for each in given if isinstance(each, dict))
                found += sum(any(one and str(one) in text for one in each) for each in texts)
        return found

    def has_some_of(self, request: Request, before: Request) -> bool:
        """Return whether a request has a message of another one, or the reply to it."""
        is_known = not {*before.messages}.isdisjoint(request.messages)
        return is_known or self._has_reply(request.messages, before)

    def _has_reply(self, messages: Sequence[Message], before: Request) -> bool:
        reply = self.replies.get(before.number)
        said = set() if reply is None else {reply.text, *(call.id for call in reply.calls)} - {""}
        own = (each for each in messages if type(each) is AssistantMessage)
        return any(not said.isdisjoint((each.text, *(c.id for c in each.calls))) for each in own)

    def _is_beside(self, request: Request, before: Request) -> bool:
        """Return whether a request without tools stands beside a conversation that offers some.

        It has not all of it, or asks something of its own once the model has given its answer.
        """
        if request.tools or not before.tools:
            return False
        kept, reply = shared(before.messages, request.messages), self.replies.get(before.number)
        has_said = reply is not None and reply.may_act and bool(reply.text or reply.calls)
        is_told = not has_said or self._has_reply(request.messages[kept:], before)
        if not (_has_all_of(before, kept) and is_told):
            return True
        asked, of_user = request.messages[-1], self.prompt.text if self.prompt else ""
        is_own = type(asked) is values.UserMessage and of_user not in asked.text
        return is_own and self._is_answered(before)

    def _is_answered(self, request: Request) -> bool:
        if (reply := self.replies.get(request.number)) is None or reply.calls or not reply.text:
            return False
        return reply.is_closed and reply.may_act

    def _begins_anew(self, request: Request, end: Request) -> bool:
        """Return whether an agent that is called as a tool has ended, and is called again.

        Another conversation of the run has gone on meanwhile. It was told the result if the agent
        has no answer, and the agent begins with the same words.
        """
        numbers = self.conversation_of
        others = [
            each for each in self._ends
            if each.number > end.number and each.number not in self.asides
            and numbers.get(each.number) != numbers.get(end.number)
        ]  # fmt: skip
        if end.number < self._first:
            return False
        if not others:  # the calls of one reply, one after the other
            is_same = end.messages[:1] == request.messages
            is_over = len(end.messages) > 1 or self._is_answered(end)
            return is_same and is_over and self._is_called_again(request)
        kept, length = shared(end.messages, request.messages), len(request.messages)
        tells = any(type(each.messages[-1]) is values.ToolMessage for each in others)
        is_told = tells and length < len(end.messages)
        return (kept == length and is_told) or (kept in (0, length) and self._is_answered(end))

    def _likeness(self, request: Request, end: Request) -> tuple[bool, bool, int, bool, int]:
        length, reply = len(end.messages), self.replies.get(end.number)
        next_one = request.messages[length] if length < len(request.messages) else None
        has_reply = (
            reply is not None
            and type(next_one) is AssistantMessage
            and next_one.text == reply.text
            and [call.id for call in next_one.calls] == [call.id for call in reply.calls]
        )
        has_failed = reply is not None and reply.fault is not None
        return end.party == request.party, has_reply, length, has_failed, end.number

    def _is_closed(self, request: Request) -> bool:
        reply = self.replies.get(request.number)
        return reply is None or reply.is_closed

    def _is_apart(self, request: Request, other: Request) -> bool:
        """Return whether a request begins a conversation beside another one of the same run."""
        is_of_run = self.request is not None and other.number >= self._first
        is_other = request.system_prompt != other.system_prompt or not self._is_closed(other)
        is_apart = is_of_run and set(other.messages).isdisjoint(request.messages)
        return is_apart and (is_other or self._callers(request) > 0)

    def _compare(self, entry: entries.Request, request: Request) -> None:
        if (before := self.before) is None:
            self.kept, self.added, self.goes_on = 0, request.messages, False
            return
        if entry.base == before.number:
            self.kept, self.added = entry.kept, entry.added
        else:
            self.kept = shared(before.messages, request.messages)
            self.added = request.messages[self.kept :]
        self.goes_on = _has_all_of(before, self.kept)

    def _say(self, entry: entries.TextDelta) -> None:
        if (reply := self.replies.get(entry.request)) is not None:
            reply.pieces.append(entry.text)
            reply.at_ns = entry.at_ns

    def _begin_call(self, entry: entries.ToolCallDelta) -> None:
        if (reply := self.replies.get(entry.request)) is not None:
            reply.begun = entry.call_id

    def _call(self, entry: entries.ToolCall) -> None:
        self.asked[entry.call_id] = entry.request
        self._waiting.setdefault(entry.call_id, []).append(entry.request)
        if (reply := self.replies.get(entry.request)) is not None:
            reply.calls.append(ToolCall(entry.call_id, entry.name, entry.arguments))
            reply.at_ns = entry.at_ns

    def _rename(self, entry: entries.CallRenamed) -> None:
        number = self.asked[entry.to_id] = self.asked.get(entry.call_id, 0)
        if waiting := self._waiting.get(entry.call_id):
            waiting.pop()
        self._waiting.setdefault(entry.to_id, []).append(number)

    def _close(self, entry: entries.Finish | entries.Error | entries.StreamCut) -> None:
        if (reply := self.replies.get(entry.request)) is not None:
            kind: type = type(entry)  # an `isinstance` that fails on a Struct takes much longer
            end: Any = entry
            reply.finish = end.reason if kind is entries.Finish else None
            reply.word = end.raw if kind is entries.Finish else ""
            reply.steps = end.steps if kind is entries.Finish else 1
            reply.fault = end.fault if kind is entries.Error else None
            reply.is_closed = True
            reply.at_ns = entry.at_ns

    def _start(self, entry: entries.ToolStarted) -> None:
        self.running.setdefault(entry.call_id, []).append(entry)
        self.ran.add(entry.call_id)
        waiting = self._waiting.pop(entry.call_id, None)
        if waiting is not None and len(waiting) > 1:  # a model, or a retry, repeats an id
            self._attribute(entry, waiting)

    def _attribute(self, entry: entries.ToolStarted, waiting: list[int]) -> None:
        """Choose the call of a tool run among several with its id; failed replies come last."""
        call = entry.call_id, entry.name
        good = (
            number
            for number in waiting
            if (reply := self.replies.get(number)) is not None
            and reply.may_act
            and call in [(each.id, each.name) for each in reply.calls]
        )
        number = self.asked[entry.call_id] = next(good, waiting[-1])
        waiting.remove(number)
        self._waiting[entry.call_id] = waiting

    def _return(self, entry: entries.ToolResult) -> None:
        self.ran.add(entry.call_id)
        if started := self.running.get(entry.call_id):
            started.pop(0)
            if not started:
                del self.running[entry.call_id]


# The table is outside the class, so that the facts of a run contain no reference cycle: thousands
# of runs would leave as many cycles to the garbage collector.
_READERS: dict[type, Callable[[Facts, Any], None]] = {
    entries.Prompt: Facts._begin,  # noqa: SLF001
    entries.StopRequested: Facts._stop,  # noqa: SLF001
    entries.Ended: Facts._end,  # noqa: SLF001
    entries.Request: Facts._send,  # noqa: SLF001
    entries.TextDelta: Facts._say,  # noqa: SLF001
    entries.ToolCallDelta: Facts._begin_call,  # noqa: SLF001
    entries.ToolCall: Facts._call,  # noqa: SLF001
    entries.CallRenamed: Facts._rename,  # noqa: SLF001
    entries.Finish: Facts._close,  # noqa: SLF001
    entries.Error: Facts._close,  # noqa: SLF001
    entries.StreamCut: Facts._close,  # noqa: SLF001
    entries.ToolStarted: Facts._start,  # noqa: SLF001
    entries.ToolResult: Facts._return,  # noqa: SLF001
}


def _has_all_of(before: Request, kept: int) -> bool:
    missing = len(before.messages) - kept
    note = before.messages[-1] if missing == 1 else None
    return not missing or (type(note) is AssistantMessage and not note.calls)


def _adds_to(request: Request, end: Request, kept: int) -> bool:
    """Return whether a request has all messages of another; if of another party, and new ones."""
    return (request.party == end.party or kept < len(request.messages)) and _has_all_of(end, kept)

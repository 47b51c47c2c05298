"""The events of the real program behind document 001, derived from a trace.

Names and orders are those of pi-agent-core 0.87.1; up to 0.73.1 they differ only in what is run.
Not here: the document's events (pi_events.py). The rule to keep: as there, no line of the trace is
looked at ahead.

Calls of one reply: each starts in source order; one that fails before its tool runs ends before
any later one starts. One after the other, the result message of each comes before the next start.
In parallel they end as they complete, and the messages come in source order after the last end.

Where our run has more than the real one, the view gives the real one's events: no tool events for
the calls of a message that ended with `error` or `aborted`, nor for a call that was waiting when
the run was stopped (0.73.1 goes on to run these: then the view has them).

The event of a prompt comes when its run begins. Where the trace knows less: the end of a turn comes
before its `after_llm_call` hooks, which pi does not have; and of the updates of a message only the
deltas and the end of each call. Retries and compaction belong to the session.
"""

import itertools
from collections import OrderedDict
from collections.abc import Container
from typing import Any

from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.signals import (
    AbortRequested,
    Began,
    HookFailed,
    ModelReplied,
    StepClosed,
    WallClockExpired,
)
from simloop.messages import NO_RESULT, Fault, FinishReason, Message, UserMessage
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.exports.event import Event
from simloop.trace.exports.pi_events import params_of, renamed


class ProgramEvent(Event, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An event of pi, with pi's own field names in JSON."""


class AgentStart(ProgramEvent, frozen=True, tag="agent_start"):
    """A prompt begins."""


class TurnStart(ProgramEvent, frozen=True, tag="turn_start"):
    """A model call with its tools begins."""


class MessageStart(ProgramEvent, frozen=True, tag="message_start"):
    """A message begins. `role` is user, assistant or toolResult."""

    role: str
    tool_call_id: str = ""


class MessageUpdate(ProgramEvent, frozen=True, tag="message_update"):
    """More of the assistant's message: text_delta, thinking_delta, toolcall_delta, toolcall_end."""

    update: str
    delta: str


class MessageEnd(ProgramEvent, frozen=True, tag="message_end"):
    """A message is whole. An assistant's says why it stopped."""

    role: str
    content: str
    stop_reason: str = ""
    error_message: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    is_error: bool = False


class ToolExecutionStart(ProgramEvent, frozen=True, tag="tool_execution_start"):
    """The loop begins to handle a call."""

    tool_call_id: str
    tool_name: str
    args: Any


class ToolExecutionEnd(ProgramEvent, frozen=True, tag="tool_execution_end"):
    """A call has its result."""

    tool_call_id: str
    tool_name: str
    content: str
    details: Any = None
    is_error: bool = False


class TurnEnd(ProgramEvent, frozen=True, tag="turn_end"):
    """The turn is over; `tool_results` are the ids of the calls that have a result message."""

    tool_results: tuple[str, ...] = ()


class AgentEnd(ProgramEvent, frozen=True, tag="agent_end"):
    """The prompt has ended."""


_STOP_REASONS = {
    FinishReason.STOP: "stop",
    FinishReason.OTHER: "stop",
    FinishReason.TOOL_CALLS: "toolUse",
    FinishReason.LENGTH: "length",
    FinishReason.CONTENT_FILTER: "error",
    FinishReason.ERROR: "error",
    FinishReason.INTERRUPTED: "error",
}


class ProgramEvents:
    """The view. `parallel` says how the loop runs the calls of one reply.

    `fails_cut_calls`: calls of a reply that was cut off are failed one by one, as in 0.87.1.
    `sequential` names the tools whose replies have their calls run one after the other.
    """

    names: tuple[str, ...] = (
        "agent_start", "turn_start", "message_start", "message_update", "message_end",
        "tool_execution_start", "tool_execution_end", "turn_end", "agent_end",
    )  # fmt: skip

    def __init__(
        self, *, parallel: bool, fails_cut_calls: bool, sequential: Container[str] = ()
    ) -> None:
        self._parallel = parallel
        self._sequential = sequential
        self._fails_cut_calls = fails_cut_calls
        self._sent = 0
        self._unanswered: list[str] = []
        self._prompts: list[str] = []  # sent, or about to be, and in no request yet
        self._running = self._turning = self._stopped = False
        self._message = _Message()
        self._batch = _Batch([], parallel=parallel)

    def feed(self, line: AnyEntry) -> list[ProgramEvent]:
        """Return the events of the next line of the trace, in order."""
        match line:
            case entries.Transition(signal=AbortRequested(), state=state) if state != "finished":
                return []  # only a flag: the loop says later what it did about it
            case entries.Transition():
                return [*self._break_off(line), *self._move(line)]
            case entries.Prompt(text=text):
                self._prompts.append(text)
                return []
            case entries.Request(purpose=purpose):
                self._message = _Message(is_open=purpose == "main")
                return self._heard(line) if purpose == "main" else []
            case entries.CallBegun(call_id=call_id) | entries.ToolStarted(call_id=call_id):
                return self._batch.start_up_to(call_id, line.at_ns)
            case entries.Answered():
                return self._batch.answer(line, stopped=self._stopped)
            case entries.Ended() if self._running:
                return self._end(line.at_ns)
            case _ if self._message.is_open:
                return self._message.feed(line)
            case _:
                return []

    def _heard(self, line: entries.Request) -> list[ProgramEvent]:
        """Return the events of new user messages; a compaction resends old ones."""
        last = itertools.takewhile(_is_users, reversed(line.added))
        added = last if line.kept < self._sent else filter(_is_users, reversed(line.added))
        texts = [message.text for message in added][::-1]
        if line.kept < self._sent:
            del texts[: _overlap(self._unanswered, texts)]
        self._sent = line.kept + len(line.added)
        self._unanswered += texts
        for prompt in self._prompts:
            if prompt in texts:
                texts.remove(prompt)
        self._prompts = []
        return _users_messages(line.at_ns, texts)

    def _break_off(self, line: entries.Transition) -> list[ProgramEvent]:
        """Return the events that end a message still open when the machine moves."""
        if not self._message.is_open:
            return []
        return self._message.end(line.at_ns, "aborted", "Request was aborted")

    def _move(self, line: entries.Transition) -> list[ProgramEvent]:
        at_ns = line.at_ns
        match line.signal:
            case Began():
                self._running, self._turning, self._stopped = True, True, False
                opening = [AgentStart(at_ns=at_ns), TurnStart(at_ns=at_ns)]
                return [*opening, *_users_messages(at_ns, self._prompts[-1:])]
            case ModelReplied():
                self._open_batch()
            case AbortRequested() | WallClockExpired() | HookFailed():
                self._stopped = True
            case _:
                pass
        if self._message.said:
            self._unanswered = []
        if line.state == "closing-step":
            self._turning = False
            return [TurnEnd(at_ns=at_ns, tool_results=self._batch.close())]
        if type(line.signal) is not StepClosed or line.state == "finished":
            return []
        self._turning = True
        return [TurnStart(at_ns=at_ns)]

    def _open_batch(self) -> None:
        message = self._message
        broken = message.stop_reason in {"error", "aborted"}
        cut = message.stop_reason == "length" and self._fails_cut_calls
        calls = [] if broken else message.calls
        in_order = cut or any(call.name in self._sequential for call in calls)
        self._batch = _Batch(calls, parallel=self._parallel and not in_order)

    def _end(self, at_ns: int) -> list[ProgramEvent]:
        open_turn = [TurnEnd(at_ns=at_ns, tool_results=self._batch.close())]
        ended: list[ProgramEvent] = [*(open_turn if self._turning else []), AgentEnd(at_ns=at_ns)]
        self._running = self._turning = False
        return ended


def _users_messages(at_ns: int, texts: list[str]) -> list[ProgramEvent]:
    return [
        event
        for text in texts
        for event in (
            MessageStart(at_ns=at_ns, role="user"),
            MessageEnd(at_ns=at_ns, role="user", content=text),
        )
    ]


def _is_users(message: Message) -> bool:
    return isinstance(message, UserMessage)


def _overlap(sent: list[str], texts: list[str]) -> int:
    """Return the number of the first `texts` that are also the last of `sent`."""
    longest = min(len(sent), len(texts))
    return next(n for n in range(longest, -1, -1) if sent[len(sent) - n :] == texts[:n])


class _Message:
    """The assistant's message that is being received, or was last."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.is_open = is_open
        self.stop_reason = ""
        self.calls: list[entries.ToolCall] = []
        self.said = False  # it is part of the conversation
        self._started = False
        self._pieces: list[str] = []
        self._fault: Fault | None = None

    def feed(self, line: AnyEntry) -> list[ProgramEvent]:
        match line:
            case entries.TextDelta(text=text):
                self._pieces.append(text)
                return self._update(line.at_ns, "text_delta", text)
            case entries.ReasoningDelta(text=text):
                return self._update(line.at_ns, "thinking_delta", text)
            case entries.ToolCallDelta(arguments=arguments):
                return self._update(line.at_ns, "toolcall_delta", arguments)
            case entries.ToolCall(arguments=arguments):
                self.calls.append(line)
                return self._update(line.at_ns, "toolcall_end", arguments)
            case entries.Finish(reason=reason, raw=raw):
                self.said = True
                why = _STOP_REASONS[reason]
                return self.end(line.at_ns, why, raw if why == "error" else "")
            case entries.CallRenamed():
                self.calls[-1] = renamed(self.calls[-1], line)
                return []
            case entries.StreamCut():
                self.said = True
                return self.end(line.at_ns, "error", "")
            case entries.Error(fault=fault):
                self._fault = fault
                return []
            case entries.Classified(error_class=error_class, fault=own):
                failure = own or self._fault
                assert failure is not None
                aborted = error_class is ErrorClass.ABORTED
                return self.end(line.at_ns, "aborted" if aborted else "error", failure.message)
            case _:
                return []

    def _start(self, at_ns: int) -> list[ProgramEvent]:
        if self._started:
            return []
        self._started = True
        return [MessageStart(at_ns=at_ns, role="assistant")]

    def _update(self, at_ns: int, update: str, delta: str) -> list[ProgramEvent]:
        return [*self._start(at_ns), MessageUpdate(at_ns=at_ns, update=update, delta=delta)]

    def end(self, at_ns: int, stop_reason: str, error_message: str) -> list[ProgramEvent]:
        self.is_open, self.stop_reason = False, stop_reason
        content = "".join(self._pieces)
        if stop_reason == "aborted":
            self.said = bool(content or self.calls)
        ended = MessageEnd(
            at_ns=at_ns,
            role="assistant",
            content=content,
            stop_reason=stop_reason,
            error_message=error_message,
        )
        return [*self._start(at_ns), ended]


class _Batch:
    """The calls of one reply, in source order, and how far each has come."""

    def __init__(self, calls: list[entries.ToolCall], *, parallel: bool) -> None:
        self._parallel = parallel
        self._waiting = OrderedDict((call.call_id, call) for call in calls)
        self._open = set(self._waiting)
        self._order = list(self._waiting)
        self._ended: dict[str, entries.Answered] = {}

    def start_up_to(self, call_id: str, at_ns: int) -> list[ProgramEvent]:
        """Return the missing start events of this call and of the calls before it."""
        events: list[ProgramEvent] = []
        while call_id in self._waiting:
            _, call = self._waiting.popitem(last=False)
            started = ToolExecutionStart(
                at_ns=at_ns,
                tool_call_id=call.call_id,
                tool_name=call.name,
                args=params_of(call.arguments),
            )
            events.append(started)
        return events

    def answer(self, line: entries.Answered, *, stopped: bool) -> list[ProgramEvent]:
        """Return the events of a result: the end of its call, and the messages due then."""
        call_id = line.call_id
        if call_id not in self._open:
            return []
        events: list[ProgramEvent] = []
        never_begun = stopped or line.text == NO_RESULT
        if never_begun and not line.ran and call_id in self._waiting:
            del self._waiting[call_id]  # it was never begun
        else:
            events = [*self.start_up_to(call_id, line.at_ns), _tool_end(line)]
            self._ended[call_id] = line
        self._open.remove(call_id)
        if not self._parallel:
            return [*events, *(_result_message(line, line.at_ns) if events else ())]
        return events if self._open else [*events, *self._messages(line.at_ns)]

    def _messages(self, at_ns: int) -> list[ProgramEvent]:
        results = [self._ended[each] for each in self._order if each in self._ended]
        return [event for result in results for event in _result_message(result, at_ns)]

    def close(self) -> tuple[str, ...]:
        """End the turn and return the ids of the calls that have a result message."""
        answered = tuple(each for each in self._order if each in self._ended)
        self._order.clear()
        return answered


def _tool_end(line: entries.Answered) -> ProgramEvent:
    return ToolExecutionEnd(
        at_ns=line.at_ns,
        tool_call_id=line.call_id,
        tool_name=line.name,
        content=line.text,
        details=line.details,
        is_error=line.is_error,
    )


def _result_message(line: entries.Answered, at_ns: int) -> list[ProgramEvent]:
    return [
        MessageStart(at_ns=at_ns, role="toolResult", tool_call_id=line.call_id),
        MessageEnd(
            at_ns=at_ns,
            role="toolResult",
            content=line.text,
            tool_call_id=line.call_id,
            tool_name=line.name,
            is_error=line.is_error,
        ),
    ]

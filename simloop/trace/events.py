"""The events that a listener of pi's loop gets, derived from a trace: message, tool_call and so on.

A view gets one line of a trace after the other and looks at none ahead, so that it says the same
live and afterwards. The order is that of pi's code, whose `llm.chat` returns nothing if a reply
fails or is stopped: such a reply is no message, and its calls have no events. A result that
arrives before the reply has ended comes after `message`. In parallel the events of all calls of a
reply come first. `notice` is pi's `console.warn`, and `at_ns` its `timestamp`.

Of an agent without a machine, the fate of a call is known only when a tool starts or returns: a
call that the agent does not run has no event.
"""

import itertools
from collections import OrderedDict
from collections.abc import Container
from typing import Any

from msgspec import Struct, structs

from simloop.kernel.signals import Began, ModelReplied
from simloop.messages import Outcome, json_value
from simloop.trace import entries
from simloop.trace.entries import AnyEntry


class Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """One event. `at_ns` is virtual time from the start of the trace."""

    at_ns: int

    @property
    def type(self) -> str:
        """Return its name for JSON and listeners, such as `tool_call`."""
        return str(type(self).__struct_config__.tag)


class RequestedCall(Struct, frozen=True):
    """A call as listeners get it. `params` is text where the model wrote no JSON."""

    id: str
    name: str
    params: Any


class GivenResult(Struct, frozen=True):
    """A result as listeners get it: `output` for the model, `details` for the interface."""

    output: str
    details: Any = None


class MessageEvent(Event, frozen=True, tag="message"):
    """A reply has ended."""

    content: str
    role: str = "assistant"


class ToolCallEvent(Event, frozen=True, tag="tool_call"):
    """The loop is about to handle a call."""

    tool_call: RequestedCall


class ToolResultEvent(Event, frozen=True, tag="tool_result"):
    """A call was answered, by its tool or in its stead."""

    tool_call_id: str
    result: GivenResult


class NoticeEvent(Event, frozen=True, tag="notice"):
    """The run is long: one more model call is made after the fiftieth, and nothing stops it."""

    text: str


class DoneEvent(Event, frozen=True, tag="done"):
    """The run is complete: the last reply asks for nothing."""

    reason: str = "no_tool_calls"


class ErrorEvent(Event, frozen=True, tag="error"):
    """The run ended in another way; `error` is the message to the user."""

    error: str


class DocumentEvents:
    """The view. `parallel` says how the loop runs the calls of one reply.

    `sequential` names the tools whose replies have their calls run one after the other.
    """

    names: tuple[str, ...] = ("message", "tool_call", "tool_result", "notice", "done", "error")

    def __init__(self, *, parallel: bool, sequential: Container[str] = ()) -> None:
        self._parallel = parallel
        self._sequential = sequential
        self._started: set[str] = set()
        self._is_driven = False  # by a machine, whose engine says what becomes of a call
        self._forget_replies()

    def _forget_replies(self) -> None:
        self._pieces: dict[int, list[str]] = {}  # of each reply that is being read
        self._calls: list[entries.ToolCall] = []
        self._waiting: OrderedDict[str, entries.ToolCall] = OrderedDict()
        self._early: list[entries.Answered] = []
        self._answering = self._in_order = False

    def feed(self, line: AnyEntry) -> list[Event]:
        """Return the events of the next line of the trace, in order."""
        match line:
            case entries.Transition(signal=Began()):
                self._is_driven = True
            case entries.Transition(signal=ModelReplied()):
                return self._begin_answers(line.at_ns)
            case entries.Request(number=number, purpose="main"):
                if self._is_driven:
                    self._forget_replies()
                self._pieces[number] = []
            case entries.TextDelta(request=number, text=text) if number in self._pieces:
                self._pieces[number].append(text)
            case entries.ToolCall(request=number) if number in self._pieces:
                self._calls.append(line)
            case entries.CallRenamed(call_id=call_id):
                if self._calls and self._calls[-1].call_id == call_id:  # no call of a summary
                    self._calls[-1] = structs.replace(
                        self._calls[-1], call_id=line.to_id, name=line.to_name
                    )
            case entries.Finish(request=number) | entries.StreamCut(request=number) if (
                number in self._pieces
            ):
                content = "".join(self._pieces.pop(number))
                return [MessageEvent(at_ns=line.at_ns, content=content)]
            case entries.Notice(text=text):
                return [NoticeEvent(at_ns=line.at_ns, text=text)]
            case entries.Ended():
                if line.outcome is Outcome.COMPLETED:
                    return [DoneEvent(at_ns=line.at_ns)]
                return [ErrorEvent(at_ns=line.at_ns, error=line.message)]
            case _ if self._is_driven:
                return self._answers(line)
            case _:
                return self._runs(line)
        return []

    def _answers(self, line: AnyEntry) -> list[Event]:
        if not isinstance(line, entries.Answered):
            return []
        if self._answering:
            return self._result(line, line.at_ns)
        self._early.append(line)
        return []

    def _runs(self, line: AnyEntry) -> list[Event]:
        match line:
            case entries.ToolStarted():
                self._started.add(line.call_id)
                return [_call_event(line, line.at_ns)]
            case entries.ToolResult(call_id=call_id) if call_id in self._started:
                self._started.remove(call_id)
                return [_result_event(line, line.at_ns)]
            case entries.ToolResult(call_id=call_id):
                asked = (call for call in reversed(self._calls) if call.call_id == call_id)
                events = [_call_event(call, line.at_ns) for call in itertools.islice(asked, 1)]
                return [*events, _result_event(line, line.at_ns)]
            case _:
                return []

    def _begin_answers(self, at_ns: int) -> list[Event]:
        """Return the events of the next call and of calls answered before the reply ended."""
        self._answering = True
        self._waiting = OrderedDict((call.call_id, call) for call in self._calls)
        self._in_order = not self._parallel or any(
            call.name in self._sequential for call in self._calls
        )
        events = self._next_calls(at_ns)
        for line in self._early:
            events += self._result(line, at_ns)
        return events

    def _result(self, line: entries.Answered, at_ns: int) -> list[Event]:
        events: list[Event] = []
        while line.call_id in self._waiting:
            events.append(self._call(at_ns))
        return [*events, _result_event(line, at_ns), *self._next_calls(at_ns)]

    def _next_calls(self, at_ns: int) -> list[Event]:
        waiting = len(self._waiting)
        return [self._call(at_ns) for _ in range(min(waiting, 1) if self._in_order else waiting)]

    def _call(self, at_ns: int) -> Event:
        _, call = self._waiting.popitem(last=False)
        return _call_event(call, at_ns)


def _call_event(call: entries.ToolCall | entries.ToolStarted, at_ns: int) -> Event:
    requested = RequestedCall(call.call_id, call.name, json_value(call.arguments, call.arguments))
    return ToolCallEvent(at_ns=at_ns, tool_call=requested)


def _result_event(line: entries.Answered | entries.ToolResult, at_ns: int) -> Event:
    given = GivenResult(line.text, line.details)
    return ToolResultEvent(at_ns=at_ns, tool_call_id=line.call_id, result=given)

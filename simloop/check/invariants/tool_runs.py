"""Invariants on the runs of tools.

Not here: their results (results.py). The rule to keep: the id of a call
identifies a tool run, or, for an agent that renames calls, the name and the arguments do.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from simloop.check.invariants.agents import reply_before
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.messages import AssistantMessage, Message, ToolMessage
from simloop.trace.entries import (
    Answered,
    CallRenamed,
    Ended,
    Prompt,
    Queued,
    Request,
    StopRequested,
    ToolCall,
    ToolResult,
    ToolStarted,
)
from simloop.trace.facts import MAY_ACT, ReceivedReply

_NO_OBJECT = "its arguments are no JSON object"


@invariant(
    "The tool of a call runs at most once.",
    "BUGS.md C10, C13, D9, D14",
    sees=[Prompt, ToolCall, ToolStarted],
    begins=[ToolCall, ToolStarted],
)
def tool_runs_at_most_once(subject: Subject) -> Watch:
    """A retry or a repeated id must not run a tool again.

    Only an engine makes ids unique, so an agent is judged for each run anew.
    """
    machine = subject.machine is not None
    called: Counter[str] = Counter()
    started: Counter[str] = Counter()
    while True:
        entry = yield
        if type(entry) is Prompt:
            if not machine:
                called.clear()
                started.clear()
            continue
        call_id = entry.call_id
        if type(entry) is ToolCall:
            called[call_id] += 1
        elif started[call_id] and (machine or started[call_id] >= called[call_id]):
            return f"the tool of call {call_id!r} started again"
        else:
            started[call_id] += 1


@invariant(
    "A tool runs only for a call of the model, with the name and the arguments of the call.",
    "BUGS.md D9, D11, D14",
    sees=[ToolCall, CallRenamed, ToolStarted],
)
def only_called_tools_run(subject: Subject) -> Watch:
    """Hooks and converting loops may change the arguments, and an agent may change the ids.

    A framework may convert the arguments, and an agent may call its tools itself: a tool that
    `traced` records is not judged.
    """
    made: dict[str, list[tuple[str, str]]] = {}
    open_calls: Counter[tuple[str, str]] = Counter()
    settings = subject.settings
    exact = settings is None or not (settings.hooks.before_tool_call or settings.tool_rules.convert)
    while True:
        entry = yield
        if type(entry) is ToolCall:
            call = entry.name, entry.arguments
            made.setdefault(entry.call_id, []).append(call)
            open_calls[call] += 1
        elif type(entry) is CallRenamed:
            old = made[entry.call_id].pop()  # the newest call
            call = entry.to_name, old[1]
            made.setdefault(entry.to_id, []).append(call)
            open_calls[old] -= 1
            open_calls[call] += 1
        elif not entry.own:
            call = entry.name, entry.arguments
            if settings is not None:
                asked = made.get(entry.call_id, ())
                if not any(one == call if exact else one[0] == entry.name for one in asked):
                    return f"{described(entry)} runs, and the model called {asked}"
            elif not open_calls[call] and value_of(entry.arguments) is not None:
                return f"{described(entry)} runs, and no call of the model is left for it"
            open_calls[call] -= 1


def described(entry: ToolStarted) -> str:
    """Return the text for a tool run in a violation."""
    return f"the tool {entry.name!r} of call {entry.call_id!r} with {entry.arguments:.80}"


def value_of(text: str) -> object:
    """Return the value of arguments, or None for a text that is no JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


@invariant(
    "A tool receives a JSON object as its arguments.", "BUGS.md A9, A10, D11", sees=[ToolStarted]
)
def tool_arguments_are_objects(_: Subject, entry: Any) -> str:
    """A loop reports other arguments to the model as an error."""
    if entry.arguments != "{}" and not isinstance(value_of(entry.arguments), dict):
        return f"{described(entry)} runs, and {_NO_OBJECT}"
    return ""


class _Run:
    """A tool run that has returned, with the messages of the request whose reply called it.

    `is_forgotten`: the agent has gone back to such a request, or to one before it.
    """

    def __init__(self, started: ToolStarted, result: ToolResult, asked: Sequence[Message]) -> None:
        self.started, self.result, self.asked = started, result, asked
        self.is_forgotten = False

    def is_call_of(self, entry: ToolStarted) -> bool:
        """Return whether a tool starts with the name and the arguments of this run."""
        mine = self.started
        if mine.name != entry.name:
            return False
        return value_of(mine.arguments) == value_of(entry.arguments)

    def is_in(self, messages: Iterable[Message]) -> bool:
        """Return whether the model can know of this run from one of the messages."""
        call_id, name, arguments = self.started.call_id, self.started.name, self.started.arguments
        for message in messages:
            if isinstance(message, ToolMessage) and message.call_id == call_id:
                return True
            if isinstance(message, AssistantMessage):
                if any((one.name, one.arguments) == (name, arguments) for one in message.calls):
                    return True
            elif self.result.text and self.result.text in message.text:
                return True
        return False


@invariant(
    "A tool that has run does not run again because the agent starts its conversation again.",
    "BUGS.md C10, C13, D14",
    sees=[Prompt, ToolStarted, ToolResult, Request],
    needs=[Need.AGENT],
    begins=[ToolStarted],
)
def no_tools_run_again_after_a_restart(subject: Subject) -> Watch:
    """An agent that starts its run again after an error may pay twice.

    A conversation that has its answer is over, and the next one may call the tool again. So may one
    that begins with another message, a shortened one, and one whose tool has failed.
    """
    facts = subject.facts
    running: dict[str, ToolStarted] = {}
    runs: list[_Run] = []
    while True:
        entry = yield
        kind = type(entry)
        if kind is Prompt:
            running.clear()
            runs.clear()
        elif kind is ToolResult:
            started = running.pop(entry.call_id, None)
            request = facts.sent.get(facts.asked.get(entry.call_id, 0))
            if started is not None and request is not None and not entry.is_error:
                runs.append(_Run(started, entry, request.messages))
        elif kind is Request:
            if entry.purpose != "main" or (facts.goes_on and facts.added):
                continue
            if (reply := reply_before(facts)) is not None and _is_answer(reply):
                runs.clear()
            sent = facts.sent[entry.number].messages
            for run in runs:
                run.is_forgotten |= sent == run.asked[: len(sent)]
        else:
            running[entry.call_id] = entry
            request = facts.sent.get(facts.asked.get(entry.call_id, 0))
            for run in runs:
                if request is None or not run.is_forgotten or run.is_in(request.messages):
                    continue
                if run.is_call_of(entry):
                    return (
                        f"{described(entry)} runs again: it has run for call "
                        f"{run.started.call_id!r}, and request {request.number} does not show it"
                    )


def _is_answer(reply: ReceivedReply) -> bool:
    return reply.finish in MAY_ACT and not reply.calls


@invariant(
    "A tool ends before its call is answered in a request.",
    "BUGS.md D4, D8, D10",
    sees=[Prompt, ToolStarted, ToolResult, Answered, Request, Ended],
    begins=[ToolStarted],
)
def tool_ends_before_its_answer(subject: Subject) -> Watch:
    """A cancelled tool ends without a result; a tool that goes on has a late result.

    Only an engine must have ended all its tools at the end of the run. No stop interrupts a thread,
    so a tool in one may go on after a run that was stopped.
    """
    facts = subject.facts
    running: dict[str, ToolStarted] = {}
    answered: dict[str, str] = {}  # calls whose tools may go on, with the place of the answer
    machine = subject.machine is not None
    while True:
        entry = yield
        kind = type(entry)
        if kind is ToolStarted:
            running[entry.call_id] = entry
            answered.pop(entry.call_id, None)
        elif kind is ToolResult:
            if entry.call_id in answered:
                return f"the tool of call {entry.call_id!r} ends after {answered[entry.call_id]}"
            running.pop(entry.call_id, None)
        elif kind is Answered:
            if running.pop(entry.call_id, None) is not None:
                answered[entry.call_id] = "its call was answered"
        elif kind is Prompt:
            answered.clear()
            running.clear()
        elif running and (kind is Ended or entry.purpose == "main"):
            where = "the end of the run" if kind is Ended else f"request {entry.number}"
            if machine:
                return f"the tool of call {next(iter(running))!r} has not ended before {where}"
            sent = facts.request.messages if kind is Request and facts.request else ()
            replied = {message.call_id for message in sent if type(message) is ToolMessage}
            gone = [one for one in running if kind is Ended or one in replied]
            for call_id in gone:
                if not running.pop(call_id).in_thread or kind is Request or facts.stop is None:
                    answered[call_id] = where


@invariant(
    "The end of one tool does not cancel another tool of the same reply.",
    "BUGS.md D3, D4, D15",
    sees=[Prompt, StopRequested, Queued, ToolStarted, ToolResult, Request],
    begins=[StopRequested, Queued, ToolStarted, ToolResult],
)
def no_tool_cancelled_by_another(subject: Subject) -> Watch:
    """The times show it: the request follows when the other tool ends, after a few seconds.

    An agent may have its own timeouts, which are longer, and may break its tools off for a message
    of the user.
    """
    facts = subject.facts
    running: dict[str, ToolStarted] = {}
    ended_ns, stopped, interrupted = -1, False, False
    while True:
        entry = yield
        kind = type(entry)
        if kind is ToolStarted:
            running[entry.call_id] = entry
        elif kind is ToolResult:
            running.pop(entry.call_id, None)
            ended_ns = entry.at_ns
        elif kind is Request:
            if entry.purpose != "main":
                continue
            answered = {one.call_id for one in facts.added if type(one) is ToolMessage}
            for call_id, start in () if stopped or interrupted else running.items():
                if call_id in answered and start.at_ns <= ended_ns == entry.at_ns < (
                    start.at_ns + _SOON_NS
                ):
                    return f"{described(start)} was ended when another tool of its batch ended"
            running = {each: start for each, start in running.items() if each not in answered}
            interrupted = False
        elif kind is Queued:
            interrupted = True
        else:
            running, stopped = {}, kind is StopRequested


_SOON_NS = 10 * 1_000_000_000

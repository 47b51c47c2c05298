"""Invariants on the runs of tools.

Not here: their results (results.py). The rule to keep: the id of a call
identifies a tool run, or, for an agent that renames calls, the name and the arguments do.
"""

from collections import Counter
from typing import Any

import msgspec

from simloop.check.invariants.invariant import Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.messages import ToolMessage
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

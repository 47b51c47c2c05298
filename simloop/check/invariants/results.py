"""Invariants on the results of tools: in the answers of an engine, and in requests.

Not here: the runs of tools (tool_runs.py), and pairs of calls and results (requests.py). The rule
to keep: an engine must pass on each result as it is, and an agent may put words around it.
"""

from collections.abc import Mapping

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.tool_runs import value_of
from simloop.messages import AssistantMessage, ToolMessage
from simloop.trace.entries import (
    Prompt,
    Queued,
    Request,
    StopRequested,
    ToolResult,
    ToolStarted,
)


@invariant(
    "An agent sends a tool result as the tool returned it.",
    "BUGS.md D8, D9, D20",
    sees=[ToolStarted, ToolResult, Queued, StopRequested, Prompt, Request],
    needs=[Need.AGENT],
)
def sent_result_matches_tool_result(subject: Subject) -> Watch:
    """An agent may put words around a text, and cut a long text; later, it may replace the text.

    A result that arrives at the time of a stop, or later, may not have reached the agent. An agent
    may break off its tools for a message of the user, and so miss that one of them has failed. A
    framework has its own words for the result of a tool that `traced` records.
    """
    facts, own = subject.facts, set[str]()
    returned: dict[str, list[ToolResult]] = {}  # several results, if the model repeated an id
    earlier: set[str] = set()  # the ids of earlier runs
    stopped = broken_off = False
    while True:
        entry = yield
        kind = type(entry)
        if kind is ToolResult:
            if not stopped and entry.call_id not in own and not (broken_off and entry.is_error):
                returned.setdefault(entry.call_id, []).append(entry)
        elif kind is ToolStarted:
            if entry.own:
                own.add(entry.call_id)
            if entry.call_id in earlier:  # a new conversation may use ids again
                earlier.discard(entry.call_id)
                returned.pop(entry.call_id, None)
        elif kind is Queued:
            broken_off = True
            returned = _before_ns(entry.at_ns, returned, but_failed=True)
        elif kind is StopRequested:
            stopped = True
            returned = _before_ns(entry.at_ns, returned)
        elif kind is Prompt:
            stopped = False
            earlier = set(returned)
        elif entry.purpose == "main":
            for message in facts.added:
                if type(message) is not ToolMessage:
                    continue
                results = returned.get(message.call_id, [])
                whys = [_changed(message, each) for each in results]
                if whys and all(whys):
                    return f"request {entry.number}: {whys[0]}"
                if len(results) == 1:
                    del returned[message.call_id]
            broken_off = False


def _before_ns(
    at_ns: int, returned: Mapping[str, list[ToolResult]], *, but_failed: bool = False
) -> dict[str, list[ToolResult]]:
    """Return the calls whose result arrived before a time; `but_failed`: or is no error."""
    return {
        call_id: results
        for call_id, results in returned.items()
        if results[-1].at_ns < at_ns or (but_failed and not results[-1].is_error)
    }


_LONG = 1_000
"""The length in characters from which an agent may cut a result."""


def _changed(message: ToolMessage, result: ToolResult) -> str:
    """Return how a result in a request differs from the one that arrived, or an empty text."""
    if message.text == result.text:
        if message.is_error is result.is_error:
            return ""
        return f"whether the result of call {message.call_id!r} is an error has changed"
    if result.text in message.text or len(result.text) > _LONG:
        return ""
    return (
        f"the result of call {message.call_id!r} is {message.text!r:.80}, "
        f"and its tool returned {result.text!r:.80}"
    )


@invariant(
    "An agent answers a call with the result of a tool run for the same arguments.",
    "BUGS.md D9, D14",
    sees=[ToolStarted, ToolResult, Request],
    needs=[Need.AGENT],
    begins=[ToolStarted],
)
def no_result_of_other_arguments(subject: Subject) -> Watch:
    """An agent may remember results, and answer a call without a tool in its own words.

    A framework may convert the arguments of a tool that `traced` records.
    """
    facts = subject.facts
    own: set[str] = set()
    ran: dict[str, tuple[str, object]] = {}
    results: set[tuple[str, str]] = set()
    while True:
        entry = yield
        kind = type(entry)
        if kind is ToolStarted:
            ran[entry.call_id] = entry.name, value_of(entry.arguments)
            if entry.own:
                own.add(entry.call_id)
        elif kind is ToolResult:
            if entry.call_id not in own and entry.text and not entry.is_error:
                results.add((entry.name, entry.text))
        elif entry.purpose == "main":
            calls = {
                call.id: call
                for message in facts.added
                if type(message) is AssistantMessage
                for call in message.calls
            }
            for message in facts.added:
                call = calls.get(message.call_id) if type(message) is ToolMessage else None
                if call is None or call.id in ran or (call.name, message.text) not in results:
                    continue
                if (call.name, value_of(call.arguments or "{}")) not in ran.values():
                    where = f"request {entry.number} answers call {call.id!r}"
                    return f"{where} with a result of {call.name!r} for other arguments"

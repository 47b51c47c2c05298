"""Invariants on each request as it was sent: the rules of providers for messages.

Not here: the messages of the conversation that a request must hold (context.py). The rule to keep:
a request is judged by its messages alone, so they hold for every agent, unless providers differ.
"""

from typing import Any

from simloop.check.invariants import pairs
from simloop.check.invariants.invariant import invariant
from simloop.check.invariants.subject import Subject
from simloop.messages import AssistantMessage, ToolMessage
from simloop.trace.entries import Request, RequestRefused


def _broken(subject: Subject, entry: Request, *whys: str) -> str:
    """Return the text of the first broken pair of these kinds that is not expected."""
    for found in subject.pairing.read(entry):
        if found.why in whys:
            # A scenario expects a break in one request, and a loop may show it in another one.
            known = {line.partition(": ")[2] for line in subject.broken_pairs}
            if str(found).partition(": ")[2] not in known:
                return str(found)
    return ""


@invariant(
    "Every call has exactly one result before the next request is sent.",
    "BUGS.md D1, D2, D3, D4, D8, D16",
    sees=[pairs.Break],
)
def answered_calls(subject: Subject, entry: Request) -> str:
    """This includes calls that failed, timed out or were stopped."""
    return _broken(subject, entry, pairs.NO_RESULT, pairs.MORE_RESULTS)


@invariant(
    "Every request is one that the provider accepts.",
    "BUGS.md D1, D2, D3, D4, D8, D16",
    sees=[RequestRefused],
)
def accepted_requests(_: Subject, entry: Any) -> str:
    """A provider refuses, for instance, a call without a result, and names the message."""
    return f"{entry.endpoint} is answered with status {entry.status}: {entry.text}"


@invariant("No two calls have the same id.", "BUGS.md D14", sees=[pairs.Break])
def unique_call_ids(subject: Subject, entry: Request) -> str:
    """A provider refuses a request with two equal ids."""
    return _broken(subject, entry, pairs.SHARED)


@invariant(
    "A result follows the message with its call; only other results may stand between them.",
    "BUGS.md D2, D5, D6, D22",
    sees=[pairs.Break],
)
def adjacent_results(subject: Subject, entry: Request) -> str:
    """A provider refuses a result whose call is missing or stands elsewhere."""
    return _broken(subject, entry, pairs.NOT_BEHIND, pairs.NOT_CALLED)


@invariant(
    "The results of a reply are sent in the order of its calls.", "BUGS.md D21", sees=[Request]
)
def results_in_call_order(_: Subject, entry: Any) -> str:
    """The order in which the tools ended does not matter."""
    places: dict[str, int] = {}
    last = -1
    for message in entry.added:
        if type(message) is AssistantMessage:
            places = {call.id: place for place, call in enumerate(message.calls)}
            last = -1
        elif type(message) is ToolMessage and message.call_id in places:
            if places[message.call_id] < last:
                return (
                    f"request {entry.number}: the result of call {message.call_id!r} stands "
                    "behind that of a later call"
                )
            last = places[message.call_id]
    return ""


@invariant(
    "The last message of a request is a user message, a tool result or a summary.",
    "BUGS.md A3, B13",
    sees=[Request],
)
def last_message_role(subject: Subject, entry: Any) -> str:
    """After its own reply, a model has no message to answer."""
    sent = subject.facts.sent
    messages = entry.added or sent[entry.number].messages
    if not messages:
        return f"request {entry.number} has no messages"
    if type(messages[-1]) is AssistantMessage:
        return f"the last message of request {entry.number} is a reply of the model"
    return ""

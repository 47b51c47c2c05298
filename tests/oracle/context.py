"""Invariants on the context of an engine: each message of a request is accounted for.

The ledger states the messages that a request must hold, and a difference is reported once, at the
request.
"""

from typing import Any

from oracle.ledger import ledger_of
from simloop.check.invariants.invariant import Need, invariant
from simloop.check.invariants.subject import Subject
from simloop.messages import AssistantMessage
from simloop.trace.entries import Request


@invariant(
    "A reply without text and calls is in no request.",
    "BUGS.md A11, A15",
    sees=[Request],
    needs=[Need.MACHINE],
)
def no_empty_replies_sent(_: Subject, entry: Any) -> str:
    """Some providers refuse such a message; an agent may know that its own accepts it."""
    for message in entry.added:
        if type(message) is AssistantMessage and not (
            message.text or message.calls or message.reasoning
        ):
            return f"request {entry.number} has an empty reply of the model"
    return ""


@invariant(
    "A request contains exactly the messages of the conversation, in order; only a recorded "
    "compaction removes or replaces messages.",
    "BUGS.md B10, D1, D8, D12",
    sees=[Request],
    needs=[Need.MACHINE],
)
def context_is_conserved(subject: Subject, entry: Any) -> str:
    """The conversation has prompts, taken messages, kept replies and the answers to their calls."""
    ledger = ledger_of(subject)
    if ledger.wrong and entry.purpose == "main":
        return f"request {entry.number}: {ledger.wrong}"
    return ""


@invariant(
    "The recorded size of a request is the estimated size of its messages.",
    "BUGS.md B8",
    sees=[Request],
    needs=[Need.MACHINE],
)
def request_size_matches_messages(subject: Subject, entry: Any) -> str:
    """A loop with a stale size compacts too early or too late."""
    ledger = ledger_of(subject)
    if ledger.wrong_tokens and entry.purpose == "main":
        return ledger.wrong_tokens
    return ""

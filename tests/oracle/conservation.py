"""Invariants on the conservation of the context: each message of a request is accounted for.

Not here: the messages that a compaction may remove (compaction.py). The rule to keep: the ledger
states the messages that a request must hold, and a difference is reported once, at the request.
"""

from typing import Any

from oracle.ledger import ledger_of
from simloop.check.invariants.invariant import Need, invariant
from simloop.check.invariants.subject import Subject
from simloop.trace.entries import Request


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

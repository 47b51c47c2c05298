"""Invariants on the conservation of the context: each message of a request is accounted for.

Not here: what a compaction may take away (compaction.py). The rule to keep: the ledger says what a
request must hold, and a difference is reported once, at the request.
"""

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.machine import course_of
from simloop.check.invariants.subject import Subject
from simloop.trace.entries import Request


@invariant(
    "A request holds exactly the messages that were said, in order: nothing is lost, changed, "
    "repeated or added, except by a compaction that records it.",
    "BUGS.md B10, D1, D8, D12",
    sees=[Request],
    needs=[Need.MACHINE],
)
def context_is_conserved(subject: Subject) -> Watch:
    """Prompts, taken messages, replies that the machine keeps and the answers to their calls."""
    ledger = course_of(subject).ledger
    while True:
        entry = yield
        if ledger.wrong and entry.purpose == "main":
            return f"request {entry.number}: {ledger.wrong}"


@invariant(
    "The size of a request is that of its messages, by the estimate of the engine.",
    "BUGS.md B8",
    sees=[Request],
    needs=[Need.MACHINE],
)
def sizes_are_true(subject: Subject) -> Watch:
    """A stale size compacts too early, or too late."""
    ledger = course_of(subject).ledger
    while True:
        entry = yield
        if ledger.wrong_tokens and entry.purpose == "main":
            return ledger.wrong_tokens

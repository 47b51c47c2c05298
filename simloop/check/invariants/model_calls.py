"""Invariants on the number of model calls."""

from typing import Any

from simloop.check.invariants.invariant import Need, invariant
from simloop.check.invariants.subject import Subject
from simloop.trace.entries import Request


@invariant(
    "A run makes no more model calls than its limits allow.",
    "BUGS.md A1, A5, A11, A12",
    sees=[Request],
    needs=[Need.LIMITS],
)
def bounded_model_calls(subject: Subject, entry: Any) -> str:
    """Each main request costs a step, an error or a compaction attempt; all are bounded."""
    limits, facts = subject.limits, subject.facts
    assert limits is not None
    most = limits.max_steps + limits.max_error_count + limits.max_compaction_attempts
    requests = len(facts.main_replies) - facts.earlier_replies
    if requests > most and entry.purpose == "main":
        return f"request {entry.number} is number {requests} of its run; the limits allow {most}"
    return ""

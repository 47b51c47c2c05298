"""Invariants on the number of model calls."""

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.trace.entries import Prompt, Request


@invariant(
    "A run makes no more model calls than its limits allow.",
    "BUGS.md A1, A5, A11, A12",
    sees=[Prompt, Request],
    needs=[Need.LIMITS],
)
def bounded_model_calls(subject: Subject) -> Watch:
    """Each main request costs a step, an error or a compaction attempt; all are bounded."""
    limits = subject.limits
    assert limits is not None
    most = limits.max_steps + limits.max_error_count + limits.max_compaction_attempts
    requests = 0
    while requests <= most:
        entry = yield
        if type(entry) is Prompt:
            requests = 0
        elif entry.purpose == "main":
            requests += 1
    return f"request {entry.number} is number {requests} of its run; the limits allow {most}"

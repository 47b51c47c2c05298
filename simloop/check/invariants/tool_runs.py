"""Invariants on the runs of tools."""

from simloop.check.invariants.invariant import Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.trace.entries import ToolStarted


@invariant("The tool of a call runs at most once.", "BUGS.md C10, C13, D9, D14", sees=[ToolStarted])
def exactly_once_tools(subject: Subject) -> Watch:  # noqa: ARG001 - it needs no declaration
    """Retries and repeated ids must not run a tool again."""
    started: set[str] = set()
    while (entry := (yield)).call_id not in started:
        started.add(entry.call_id)
    return f"the tool of call {entry.call_id!r} started twice"

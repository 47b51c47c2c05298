"""Invariants on calls whose tools must not run.

Not here: how often and when a tool runs (tool_runs.py). The rule to keep: the request and the reply
of a call decide; a design that starts a tool during the reply cannot know how the reply ends.
"""

from collections.abc import Collection

from simloop.check.invariants.invariant import Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.tool_runs import described
from simloop.kernel.policies import ToolStart
from simloop.messages import FinishReason
from simloop.trace.entries import ToolStarted

_CUT_OFF = (FinishReason.LENGTH,)
_FAILED = (None, FinishReason.ERROR, FinishReason.INTERRUPTED)


@invariant(
    "No tool runs for a call of a reply that was cut off.",
    "BUGS.md D11",
    sees=[ToolStarted],
)
def no_tools_for_incomplete_replies(subject: Subject) -> Watch:
    """The arguments may be cut off too."""
    return _no_tools_after(subject, _CUT_OFF)


@invariant(
    "No tool runs for a call of a reply that failed.",
    "BUGS.md D10, D11",
    sees=[ToolStarted],
)
def no_tools_for_failed_replies(subject: Subject) -> Watch:
    """A retry would call the tool again."""
    return _no_tools_after(subject, _FAILED)


def _no_tools_after(subject: Subject, finishes: Collection[FinishReason | None]) -> Watch:
    facts, settings = subject.facts, subject.settings
    if settings is not None and settings.tool_execution.start is ToolStart.WHEN_CALLED:
        return ""
    while True:
        entry = yield
        reply = facts.replies.get(facts.asked.get(entry.call_id, 0))
        if reply is not None and reply.is_closed and reply.finish in finishes:
            why = "failed" if reply.finish is None else f"ended with {reply.finish}"
            return f"{described(entry)} runs, and its reply {why}"


@invariant(
    "A tool runs only if the request before its call offered the tool.",
    "BUGS.md D9, A5",
    sees=[ToolStarted],
)
def only_offered_tools_run(subject: Subject) -> Watch:
    """An agent whose requests offer no tools may describe them elsewhere, and is not judged."""
    facts, machine = subject.facts, subject.machine is not None
    while True:
        entry = yield
        request = facts.sent.get(facts.asked.get(entry.call_id, 0))
        if request is None or not (request.tools or machine):
            continue
        name = entry.name
        for tool in request.tools:
            if tool.name == name:
                break
        else:
            return f"{described(entry)} runs, and request {request.number} did not offer it"

"""Invariants on the code of agents of the user's own: what it does between its calls to the world.

Not here: recording it (world/agent_record.py). The rule to keep: an invariant is about faults that
are such in every agent.
"""

from simloop.check.invariants.context import WHOLE, unlike
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.messages import ToolMessage
from simloop.trace.entries import LoopBlocked, Request, ToolStarted
from simloop.trace.kinds import clock


@invariant(
    "An agent does not block the event loop for a second or more.",
    "asyncio, Running Blocking Code",
    sees=[LoopBlocked],
    needs=[Need.AGENT],
)
def event_loop_not_blocked(_: Subject, entry: LoopBlocked) -> str:
    """While the loop is blocked, no other task runs, and no timeout or abort can end the call.

    Shorter calls are not in the trace: a program that polls, or takes a lock, blocks for moments.
    """
    return f"a call blocks the event loop for {clock(entry.took_ns)} at {entry.place}"


@invariant(
    "If an agent answers a call with a tool of its own, the request contains the reply, with its "
    "text and its calls unchanged.",
    "BUGS.md C10, C13, D9, D13",
    sees=[ToolStarted, Request],
    needs=[Need.AGENT],
)
def answered_replies_kept(subject: Subject) -> Watch:
    """The result in the request is the only sign of a tool that the agent runs itself."""
    facts = subject.facts
    ran: set[str] = set()
    while True:
        entry = yield
        if type(entry) is ToolStarted:
            ran.add(entry.call_id)
            continue
        before = facts.before
        reply = None if before is None else facts.replies.get(before.number)
        if entry.purpose != "main" or reply is None or reply.finish not in WHOLE:
            continue
        answered = {one.call_id for one in facts.added if type(one) is ToolMessage} - ran
        if not facts.goes_on or answered.isdisjoint(call.id for call in reply.calls):
            continue
        if wrong := unlike(reply, facts.added):
            return f"request {entry.number} {wrong}"

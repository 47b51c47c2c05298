"""Invariants on the code of agents of the user's own: what it does between its calls to the world.

Not here: recording it (world/agent_record.py). The rule to keep: an invariant is about faults that
are such in every agent.
"""

from simloop.check.invariants.invariant import Need, invariant
from simloop.check.invariants.subject import Subject
from simloop.trace.entries import LoopBlocked
from simloop.trace.timeline import clock


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

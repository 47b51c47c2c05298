"""Invariants on the end of a run from outside: by its user, or because its time is over.

Not here: the results of the open calls (requests.py). The rule to keep: in a design that treats an
abort as a flag, the run continues to its own end, and only that end is judged.
"""

from typing import Any

from simloop.check.invariants.invariant import Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.messages import Outcome, StopCause
from simloop.trace.entries import Ended, Prompt, Request, StopRequested, ToolStarted
from simloop.virtual.clock.timeouts import GRACE_NS

_STOPPED = {StopCause.ABORT: Outcome.ABORTED, StopCause.WALL_CLOCK: Outcome.TIMED_OUT}
_CAUSES = {outcome: cause for cause, outcome in _STOPPED.items()}


def _ends_the_run(subject: Subject, stop: StopRequested) -> bool:
    """Return whether a request to stop ends a run at once. In some designs an abort is a flag."""
    settings = subject.settings
    is_flag = settings is not None and settings.abort_is_flag
    return stop.cause is not StopCause.ABORT or not is_flag


@invariant(
    "After a stop, the run sends no request and starts no tool.",
    "BUGS.md C9, D7, D10",
    sees=[StopRequested, Prompt, Request, ToolStarted],
    begins=[StopRequested],
)
def nothing_starts_after_stop(subject: Subject) -> Watch:
    """This holds during a reply, between two tools and in a backoff.

    No stop interrupts a thread, so a tool that an agent calls in one is not judged.
    """
    stop: StopRequested | None = None
    while True:
        entry = yield
        kind = type(entry)
        if kind is StopRequested:
            if _ends_the_run(subject, entry):
                stop = entry
        elif kind is Prompt:
            stop = None
        elif stop is not None and not (kind is ToolStarted and entry.in_thread):
            what = f"request {entry.number} is sent" if kind is Request else "a tool starts"
            return f"{what} after the run was stopped ({stop.cause}, entry {stop.seq})"


@invariant(
    "A stopped run ends within the grace period for cleanup code.",
    "BUGS.md C9, D4",
    sees=[Ended],
)
def stopped_run_ends_in_time(subject: Subject, entry: Any) -> str:
    """A tool of the scenario may state a time by which it outlives its cancellation."""
    stop = subject.facts.stop
    if stop is None or not _ends_the_run(subject, stop):
        return ""
    tools = {} if subject.scenario is None else subject.scenario.tools
    grace_ns = GRACE_NS + max((tool.outlives_cancel or 0 for tool in tools.values()), default=0)
    late_ns = entry.at_ns - stop.at_ns
    return f"the run ends {late_ns / 1e6:g} ms after the stop" if late_ns > grace_ns else ""


@invariant(
    "A stopped run has the outcome that belongs to the stop, and no other run has such an outcome.",
    "BUGS.md C9, D9",
    sees=[Ended],
)
def outcome_matches_stop(subject: Subject, entry: Any) -> str:
    """The outcome of an abort is aborted; that of the time limit is timed-out.

    A model call that fails because its request was aborted also has the outcome aborted.
    """
    facts = subject.facts
    stops, reply = facts.stops, facts.reply
    if not stops:
        if entry.outcome in _CAUSES and (reply is None or reply.fault is None):
            return f"the run ends as {entry.outcome}, and no stop was requested"
    elif _ends_the_run(subject, stops[0]) and entry.outcome not in {
        _STOPPED[stop.cause] for stop in stops
    }:
        return f"the run was stopped ({stops[0].cause}), and ends as {entry.outcome}"
    return ""

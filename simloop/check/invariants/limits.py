"""Invariants on time limits: an action takes no longer than its limit, and is not ended earlier.

Not here: the limits of tools (tool_runs.py) and of hooks (hooks.py), and limits on numbers
(counters.py). The rule to keep: each limit counts from the beginning of the action that it bounds,
so that no progress extends it.
"""

from collections.abc import Iterable

from simloop.check.invariants.invariant import Kind, Need, Watch, invariant
from simloop.check.invariants.machine import course_of
from simloop.check.invariants.subject import Subject
from simloop.kernel.policies import OnHookFailure, ToolStart
from simloop.messages import StopCause
from simloop.trace.entries import (
    Classified,
    Compaction,
    Ended,
    Error,
    Finish,
    Hook,
    Prompt,
    Request,
    StopRequested,
    StreamCut,
)

_NS_PER_MS = 1_000_000


@invariant(
    "A model call takes no longer than the timeouts for the first part and for the whole "
    "reply, and does not time out earlier.",
    "BUGS.md C12, B16",
    sees=[Request, Finish, Error, StreamCut, Classified, Compaction],
    needs=[Need.MACHINE],
)
def model_call_timeouts(subject: Subject) -> Watch:
    """The time of a callback, or of a tool that starts when called, does not count."""
    course, facts = course_of(subject), subject.facts
    settings = course.settings
    limits, callbacks = settings.limits, settings.callbacks
    whole_ns = limits.model_call_timeout_ms * _NS_PER_MS
    first_ns = min(limits.first_part_timeout_ms * _NS_PER_MS, whole_ns)
    exact = settings.tool_execution.start is not ToolStart.WHEN_CALLED
    exact = exact and not any((callbacks.on_chunk, callbacks.on_text, callbacks.on_tool_call))
    number = 0
    while True:
        entry = yield
        kind = type(entry)
        if kind is Request:
            number = entry.number
            continue
        reply = facts.replies.get(number)
        if reply is None:
            continue
        took_ns = entry.at_ns - reply.sent_ns
        if kind is Classified or kind is Compaction:
            if kind is Classified:
                timed_out = entry.fault is not None and entry.fault.code == "timeout"
            else:  # a summary that has not ended was given up, and is not judged
                timed_out = reply.purpose != "main" and not reply.is_closed
            judged, number = number, 0
            if not timed_out:
                continue
            limit_ns = first_ns if reply.first_ns is None else whole_ns
            if took_ns < limit_ns or ((exact or kind is Compaction) and took_ns > limit_ns):
                return (
                    f"request {judged} is given up after {took_ns} ns, and may take {limit_ns} ns"
                )
        elif took_ns > whole_ns:
            return f"the reply to request {number} takes {took_ns} ns, and may take {whole_ns} ns"
        elif reply.first_ns is not None and reply.first_ns - reply.sent_ns > first_ns:
            waited = reply.first_ns - reply.sent_ns
            return f"reply {number} begins after {waited} ns, and must begin within {first_ns} ns"


def _seen_of_time(subject: Subject) -> Iterable[Kind]:
    """Return the kinds to see: no hooks, if their failure does not end a run."""
    settings = subject.settings
    fails = settings is not None and settings.hook_isolation.on_failure is OnHookFailure.FAIL_RUN
    return (Prompt, StopRequested, Ended, *((Hook,) if fails else ()))


@invariant(
    "A run is stopped when max_wall_clock has elapsed, and not earlier.",
    "BUGS.md A14, C1",
    sees=[Prompt, StopRequested, Hook, Ended],
    needs=[Need.SCENARIO],
    narrow=_seen_of_time,
)
def max_wall_clock_enforced(subject: Subject) -> Watch:
    """The scenario sets the limit. It counts from the prompt, and includes every wait.

    A run that is stopped, or that a failed hook ends, may wait until its tools have ended.
    """
    scenario = subject.scenario
    assert scenario is not None
    most_ms = scenario.limits.max_wall_clock_ms
    begun_ns, is_stopped = 0, False
    while True:
        entry = yield
        kind = type(entry)
        if kind is Prompt:
            begun_ns, is_stopped = entry.at_ns, False
            continue
        took_ns = entry.at_ns - begun_ns
        if kind is StopRequested:
            is_stopped = True
            if entry.cause is StopCause.WALL_CLOCK and (
                most_ms is None or took_ns < most_ms * _NS_PER_MS
            ):
                return f"the run is stopped after {took_ns} ns, and may take {most_ms} ms"
        elif kind is Hook:
            is_stopped = is_stopped or entry.result not in ("ok", "blocked")
        elif most_ms is not None and took_ns > most_ms * _NS_PER_MS and not is_stopped:
            return f"the run takes {took_ns} ns, and may take {most_ms} ms"

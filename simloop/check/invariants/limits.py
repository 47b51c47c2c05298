"""Invariants on time limits: an action takes no longer than its limit, and is not ended earlier.

Not here: the limits of tools (tool_runs.py) and of hooks (hooks.py), and limits on numbers
(counters.py). The rule to keep: each limit counts from the beginning of the action that it bounds,
so that no progress extends it.
"""

from typing import Any

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.kernel.policies import OnHookFailure, ToolStart
from simloop.messages import StopCause
from simloop.trace.entries import (
    Classified,
    Compaction,
    Ended,
    Error,
    Finish,
    StopRequested,
    StreamCut,
)

_NS_PER_MS = 1_000_000


@invariant(
    "A model call takes no longer than the timeouts for the first part and for the whole "
    "reply, and does not time out earlier.",
    "BUGS.md C12, B16",
    sees=[Finish, Error, StreamCut, Classified, Compaction],
    needs=[Need.MACHINE],
)
def model_call_timeouts(subject: Subject) -> Watch:
    """The time of a callback, or of a tool that starts when called, does not count."""
    course, facts = subject.course, subject.facts
    settings = course.settings
    limits, callbacks = settings.limits, settings.callbacks
    whole_ns = limits.model_call_timeout_ms * _NS_PER_MS
    first_ns = min(limits.first_part_timeout_ms * _NS_PER_MS, whole_ns)
    exact = settings.tool_execution.start is not ToolStart.WHEN_CALLED
    exact = exact and not any((callbacks.on_chunk, callbacks.on_text, callbacks.on_tool_call))
    judged = 0
    while True:
        entry = yield
        kind = type(entry)
        number = next(reversed(facts.replies), 0)
        reply = facts.replies.get(number)
        if reply is None or number == judged:
            continue
        took_ns = entry.at_ns - reply.sent_ns
        if kind is Classified or kind is Compaction:
            if kind is Classified:
                timed_out = entry.fault is not None and entry.fault.code == "timeout"
            else:  # a summary that has not ended was given up, and is not judged
                timed_out = reply.purpose != "main" and not reply.is_closed
            judged = number
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


@invariant(
    "A run is stopped when max_wall_clock has elapsed, and not earlier.",
    "BUGS.md A14, C1",
    sees=[StopRequested, Ended],
    needs=[Need.SCENARIO],
)
def max_wall_clock_enforced(subject: Subject, entry: Any) -> str:
    """The scenario sets the limit. It counts from the prompt, and includes every wait.

    A run that is stopped, or that a failed hook ends, may wait until its tools have ended. An agent
    that blocks its event loop cannot be stopped: `event-loop-not-blocked` judges it for that.
    """
    scenario, facts = subject.scenario, subject.facts
    assert scenario is not None
    most_ms = scenario.limits.max_wall_clock_ms
    took_ns = entry.at_ns - (0 if facts.prompt is None else facts.prompt.at_ns)
    is_late = most_ms is not None and took_ns > most_ms * _NS_PER_MS
    if type(entry) is Ended:
        can_hear = subject.machine is not None
        if is_late and can_hear and not facts.stops and not _hook_has_failed(subject):
            return f"the run takes {took_ns} ns, and may take {most_ms} ms"
    elif entry.cause is StopCause.WALL_CLOCK and (
        most_ms is None or took_ns < most_ms * _NS_PER_MS
    ):
        return f"the run is stopped after {took_ns} ns, and may take {most_ms} ms"
    return ""


def _hook_has_failed(subject: Subject) -> bool:
    """Return whether a hook has failed whose failure ends the run."""
    settings = subject.settings
    ends = settings is not None and settings.hook_isolation.on_failure is OnHookFailure.FAIL_RUN
    return ends and any(hook.result != "blocked" for hook in subject.facts.vetoes)

"""Invariants on the order of the entries of a trace.

These hold for every trace that simloop records, whatever loop was run; a violation is a fault of a
port, of the engine or of the file.
"""

from typing import Any

from simloop.check.invariants.invariant import Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.trace.entries import (
    Ended,
    Error,
    Finish,
    LeftBehind,
    Prompt,
    Request,
    StopRequested,
    StreamCut,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolStarted,
)


@invariant(
    "The numbers of the entries increase, and virtual time never decreases.",
    "loops.md",
    sees=[Prompt, Ended, Request, ToolResult],
)
def entries_in_order(subject: Subject) -> Watch:
    """Only some kinds are read, because an entry out of order also misplaces those after it."""
    seq, at_ns = -1, 0
    while True:
        entry = yield
        if entry.seq <= seq:
            return f"entry {entry.seq} comes after entry {seq}"
        if entry.at_ns < at_ns:
            return f"the time goes back from {at_ns} ns to {entry.at_ns} ns"
        seq, at_ns = entry.seq, entry.at_ns


@invariant(
    "A run begins with a prompt and ends once; between runs no request is sent and no tool runs.",
    "BUGS.md D18, D19, A3",
    sees=[Prompt, Ended, Request, ToolStarted, ToolResult, StopRequested, LeftBehind],
)
def runs_begin_and_end(subject: Subject) -> Watch:
    """The user may act at any time: a message may be queued, and a stop requested.

    A tool that outlives its cancellation may end after a run in which an agent was stopped, and so
    may one in a thread, which no stop interrupts. A thread that is left behind has its world still.
    """
    under_way = has_thread = False
    outliving = set[str]()
    while True:
        entry = yield
        kind = type(entry)
        if kind is StopRequested:
            outliving.update(subject.facts.running if subject.machine is None else ())
        elif kind is ToolStarted and entry.in_thread:
            outliving.add(entry.call_id)
        elif kind is ToolResult and entry.call_id in outliving:
            continue
        elif kind is Prompt:
            if under_way:
                return "a prompt comes before the run of the prompt before it has ended"
            under_way = True
        elif kind is LeftBehind:
            has_thread |= entry.what == "thread"
        elif not under_way and (kind is Ended or not has_thread):
            return f"a {kind.__name__} entry comes between two runs"
        elif kind is Ended:
            under_way = False


@invariant(
    "No part of a reply arrives after the reply has ended.",
    "BUGS.md C8, D19",
    sees=[TextDelta, ToolCall, Finish, Error, StreamCut],
)
def no_parts_after_reply_end(_: Subject) -> Watch:
    """A reply ends once: with a finish, an error, or the end of its stream."""
    ended: set[int] = set()
    while True:
        entry = yield
        if entry.request in ended:
            kind = type(entry).__name__
            return f"a {kind} entry (entry {entry.seq}) arrives after the reply's end"
        if type(entry) in {Finish, Error, StreamCut}:
            ended.add(entry.request)


@invariant(
    "A tool that starts has at most one result, and a result without a start is an error.",
    "BUGS.md D19, D20",
    sees=[Prompt, ToolStarted, ToolResult],
    begins=[ToolStarted, ToolResult],
)
def one_result_per_tool_start(subject: Subject) -> Watch:
    """A call of an unknown tool, or with wrong arguments, has an error result and no start.

    A tool of an agent that does not end when it is cancelled may return in a later run.
    """
    running: dict[str, int] = {}
    left: dict[str, int] = {}  # in earlier runs
    starts: dict[str, ToolStarted] = {}
    while True:
        entry = yield
        if type(entry) is Prompt:
            for call_id, count in running.items():
                if _may_go_on(subject, starts[call_id]):
                    left[call_id] = left.get(call_id, 0) + count
            running.clear()
            continue
        count = running.get(entry.call_id, 0)
        if type(entry) is ToolStarted:
            running[entry.call_id] = count + 1
            starts[entry.call_id] = entry
        elif count:
            running[entry.call_id] = count - 1
        elif not entry.is_error:
            if not left.get(entry.call_id):
                return f"a result of call {entry.call_id!r} arrives, and no tool of it runs"
            left[entry.call_id] -= 1


def _may_go_on(subject: Subject, start: ToolStarted) -> bool:
    """Return whether a tool can outlive its run; an engine waits until each tool has ended."""
    if subject.machine is not None:
        return False
    scripted = None if subject.scenario is None else subject.scenario.tools.get(start.name)
    return start.own or scripted is None or scripted.outlives_cancel > 0


@invariant(
    "The elapsed time of a run is the time from its prompt to its end.", "loops.md", sees=[Ended]
)
def elapsed_time_matches_trace(subject: Subject, entry: Any) -> str:
    """The times are equal to the nanosecond."""
    facts = subject.facts
    start = facts.prompt
    if start is not None and entry.elapsed_ns != entry.at_ns - start.at_ns:
        return (
            f"the run says that it took {entry.elapsed_ns} ns, "
            f"and it took {entry.at_ns - start.at_ns} ns"
        )
    return ""

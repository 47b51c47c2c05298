"""Invariants on virtual time: it passes only while a run waits, and each wait has its length.

An agent of the user waits as it likes, and the callbacks of an engine are not in the trace, so both
are left out.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from oracle.hooks import has_tool_hooks
from simloop.check.invariants.invariant import EntryKind, Need, Watch, invariant
from simloop.check.invariants.subject import ENDS_FROM_OUTSIDE, Course, Subject
from simloop.engine.hooks import Callbacks
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.policies import ToolOrder, ToolStart
from simloop.kernel.states import ClosingStep
from simloop.messages import FinishReason, Outcome
from simloop.scenario.schema import ScriptedTool
from simloop.trace.entries import (
    Backoff,
    CallBegun,
    Compaction,
    Ended,
    Hook,
    Prompt,
    Request,
    StopRequested,
    ToolCall,
    ToolResult,
    ToolStarted,
    Transition,
)
from simloop.virtual.clock.timeouts import GRACE_NS


@invariant(
    "A backoff lasts as long as its entry states, and the retry follows immediately.",
    "BUGS.md C8, C9",
    sees=[Backoff, signals.BackoffElapsed, *ENDS_FROM_OUTSIDE, Hook, Compaction, Request],
    needs=[Need.MACHINE],
    begins=[Backoff],
)
def backoff_lasts_as_recorded(subject: Subject) -> Watch:
    """Only hooks and a compaction may take time between the wait and the retry."""
    until_ns: int | None = None
    elapsed = False
    while True:
        entry = yield
        kind = type(entry)
        if kind is Backoff:
            until_ns, elapsed = entry.at_ns + entry.delay_ns, False
        elif until_ns is None:
            continue
        elif kind is Transition:
            signal = type(entry.signal)
            if signal is signals.BackoffElapsed:
                if entry.at_ns != until_ns:
                    return f"a wait ends {_ms(entry.at_ns - until_ns)} later than recorded"
                elapsed = True
            elif signal in ENDS_FROM_OUTSIDE:
                until_ns = None
        elif kind is Request:
            if not elapsed:
                return f"request {entry.number} is sent before the wait is over"
            if entry.at_ns != until_ns:
                return (
                    f"request {entry.number} is sent {_ms(entry.at_ns - until_ns)} after the wait"
                )
            until_ns = None
        else:  # a hook or a compaction may take time
            until_ns = None


@invariant(
    "Failures are numbered from one, and each backoff has the number of the failure before it.",
    "BUGS.md C3",
    sees=[Backoff],
    needs=[Need.MACHINE],
)
def failures_numbered_in_order(subject: Subject, entry: Any) -> str:
    """If a machine resets its count, the number is one again."""
    course = subject.course
    judged, last = course.judged, course.failures
    effect = course.asked[-1] if course.asked else None
    if type(effect) is effects.Backoff and effect.failures != entry.failures:
        return f"the machine waits after {effect.failures} failures, not {entry.failures}"
    if entry.failures != last + 1 and not entry.failures == last == _COUNTED:
        return f"failure {entry.failures} comes after failure {last}"
    error = _useless(course) if judged is None else judged.error_class
    if error is not None and entry.error_class is not error:
        return f"the wait is for {entry.error_class}, and the failure is {error}"
    return ""


_COUNTED = 32  # opencode without a limit on retries stops counting here


def _useless(course: Course) -> ErrorClass | None:
    """Return the error class of the useless reply that the machine retries."""
    state = course.before.state
    if type(state) is not ClosingStep:
        return None
    reply = state.reply
    if reply.finish is FinishReason.INTERRUPTED:
        return ErrorClass.INTERRUPTED
    return (
        ErrorClass.MISSING_CALLS
        if reply.finish is FinishReason.TOOL_CALLS
        else ErrorClass.EMPTY_REPLY
    )


def _ms(ns: int) -> str:
    return f"{ns / 1e6:g} ms"


_MOMENTS: tuple[EntryKind, ...] = (
    Request,
    Backoff,
    CallBegun,
    ToolStarted,
    Ended,
    signals.ContextMeasured,
    signals.ContextCompacted,
    signals.ModelReplied,
    signals.ModelFailed,
    signals.ToolsReturned,
    signals.StepClosed,
)


def _seen_of_moments(subject: Subject) -> Iterable[EntryKind]:
    """A callback may take time, which is not in the trace."""
    settings = subject.settings
    own = None if settings is None else settings.callbacks
    return () if any(getattr(own, name) for name in Callbacks.__slots__) else _MOMENTS


@invariant(
    "Time passes in a run only while a reply, a tool, a hook or a wait before a retry lasts.",
    "BUGS.md C1, C12",
    sees=_MOMENTS,
    needs=[Need.MACHINE],
    narrow=_seen_of_moments,
)
def no_idle_time(subject: Subject, entry: Any) -> str:
    """These entries follow the entry before them without a pause, except after a stop."""
    before = subject.facts.earlier
    if before is None or entry.at_ns == before.at_ns or subject.facts.stop is not None:
        return ""
    what = entry.signal if type(entry) is Transition else entry
    idle = (entry.at_ns - before.at_ns) / 1e6
    return f"{idle:g} ms pass before {type(what).__name__}, and nothing is waited for"


def _scripted(subject: Subject) -> Mapping[str, ScriptedTool]:
    """Return the fake tools of the scenario, unless chance or a hook may change them."""
    scenario, settings = subject.scenario, subject.settings
    if scenario is None or scenario.faults is not None:
        return {}
    return {} if settings is not None and settings.hooks.before_llm_call else scenario.tools


@invariant(
    "A fake tool takes as long as its scenario says, unless its timeout or a stop ends it.",
    "BUGS.md B16, C12, D4",
    sees=[Prompt, ToolStarted, ToolResult],
    needs=[Need.SCENARIO],
    begins=[ToolStarted],
)
def scripted_tool_durations(subject: Subject) -> Watch:
    """A tool that an agent cancels may go on for a while, and then return."""
    tools, facts = _scripted(subject), subject.facts
    started: dict[str, int] = {}
    while tools:
        entry = yield
        if type(entry) is Prompt:
            started.clear()
        elif type(entry) is ToolStarted:
            if not entry.own:
                started[entry.call_id] = entry.at_ns
        else:
            begun_ns, tool = started.pop(entry.call_id, None), tools.get(entry.name)
            if begun_ns is None or tool is None or facts.stop is not None:
                continue
            if entry.text.startswith("Error: timed out after ") or tool.outlives_cancel:
                continue
            took_ns = entry.at_ns - begun_ns
            if took_ns != tool.takes or tool.hangs:
                return f"the tool of call {entry.call_id!r} takes {took_ns} ns, not {tool.takes} ns"
    return ""


def _seen_of_stops(subject: Subject) -> Iterable[EntryKind]:
    lasts = any(tool.outlives_cancel for tool in _scripted(subject).values())
    return (StopRequested, Ended) if lasts else ()


@invariant(
    "A stopped run waits within the grace period until its cancelled tools have ended.",
    "BUGS.md D4, D10, F5",
    sees=[StopRequested, Ended],
    needs=[Need.MACHINE, Need.SCENARIO],
    narrow=_seen_of_stops,
)
def cancelled_tools_waited_for(subject: Subject) -> Watch:
    """Otherwise a tool goes on during the next run."""
    facts, tools, world = subject.facts, _scripted(subject), subject.tools
    policy_ms = subject.course.settings.tool_execution.timeout_ms
    waits: dict[str, int] = {}
    while True:
        entry = yield
        if type(entry) is StopRequested:
            waits = {}
            prompt = facts.prompt
            if prompt is None or facts.stop is not entry:
                continue
            for call_id, (start, *_) in facts.running.items():
                tool = tools.get(start.name)
                if tool is not None and prompt.seq < start.seq and start.at_ns < entry.at_ns:
                    timeout_ms = world[start.name].timeout_ms or policy_ms
                    waits[call_id] = _until(start, tool, timeout_ms, entry.at_ns)
            continue
        if entry.outcome is Outcome.FAILED:
            waits = {}  # a hook that ends the run cancels the tools a second time
        for call_id, until_ns in waits.items():
            if call_id in facts.running and entry.at_ns < until_ns:
                early = (until_ns - entry.at_ns) / 1e6
                return f"the run ends {early:g} ms before the tool of call {call_id!r}"
        waits = {}


def _until(start: ToolStarted, tool: ScriptedTool, timeout_ms: int | None, now_ns: int) -> int:
    """Return the end of a tool that is cancelled now; a second cancellation ends it at once."""
    until_ns = now_ns + min(tool.outlives_cancel, GRACE_NS)
    if not tool.hangs and start.at_ns + tool.takes <= now_ns:
        return now_ns
    if timeout_ms is None:
        return until_ns
    timeout_ns = start.at_ns + timeout_ms * 1_000_000
    return now_ns if timeout_ns <= now_ns else min(until_ns, timeout_ns)


def _seen_of_parallel(subject: Subject) -> Iterable[EntryKind]:
    settings = subject.settings
    if settings is None or settings.tool_execution.order is not ToolOrder.PARALLEL:
        return ()
    own = settings.callbacks
    if has_tool_hooks(subject) or own.on_chunk or own.on_tool_call or own.on_tool_result:
        return ()
    early = settings.tool_execution.start is ToolStart.WHEN_CALLED
    return (ToolCall, ToolStarted) if early else (ToolStarted,)


@invariant(
    "Tools that run in parallel start without waiting for each other.",
    "loops.md",
    sees=[ToolCall, ToolStarted],
    needs=[Need.MACHINE],
    narrow=_seen_of_parallel,
)
def parallel_tools_start_at_once(subject: Subject) -> Watch:
    """They start after the reply, or with their calls, unless a tool of the batch is sequential."""
    facts, tools = subject.facts, subject.tools
    settings = subject.course.settings
    early, called_ns = settings.tool_execution.start is ToolStart.WHEN_CALLED, 0
    while True:
        entry = yield
        if type(entry) is ToolCall:
            called_ns = entry.at_ns
            continue
        reply = facts.reply
        if reply is None:
            continue
        if not early and any(c.name in tools and tools[c.name].sequential for c in reply.calls):
            continue
        due_ns = called_ns if early else reply.at_ns
        if entry.at_ns > due_ns:
            late = (entry.at_ns - due_ns) / 1e6
            return f"the tool of call {entry.call_id!r} starts {late:g} ms late"

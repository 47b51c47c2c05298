"""Invariants on virtual time: it passes only while a run waits, and each wait has its length.

An agent of the user waits as it likes, and the callbacks of an engine are not in the trace, so both
are left out.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from oracle.calls import in_turn
from oracle.hooks import has_tool_hooks
from oracle.ledger import ENDS_FROM_OUTSIDE, ledger_of
from simloop.check.invariants.agents import NS_PER_MS
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Course, Subject
from simloop.engine.hooks import Callbacks
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.states import ClosingStep
from simloop.messages import FinishReason, Outcome, StopCause
from simloop.scenario.schema import ScriptedTool
from simloop.trace.entries import (
    Backoff,
    CallBegun,
    Classified,
    Compaction,
    Ended,
    Error,
    Finish,
    Hook,
    Prompt,
    ReasoningDelta,
    Request,
    StopRequested,
    StreamCut,
    TextDelta,
    ToolCall,
    ToolCallDelta,
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
)
def failures_numbered_in_order(subject: Subject, entry: Any) -> str:
    """If a machine resets its count, the number is one again."""
    course, done = subject.course, ledger_of(subject).done
    judged, last = done.judged, done.failures
    effect = course.effect
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


@invariant(
    "Time passes in a run only while a reply, a tool, a hook or a wait before a retry lasts.",
    "BUGS.md C1, C12",
    sees=[
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
    ],
    needs=[Need.MACHINE],
)
def no_idle_time(subject: Subject, entry: Any) -> str:
    """These entries follow the entry before them without a pause, except after a stop.

    A callback may take time, which is not in the trace.
    """
    before = subject.facts.earlier
    if before is None or entry.at_ns == before.at_ns or subject.facts.stop is not None:
        return ""
    callbacks = subject.course.settings.callbacks
    if any(getattr(callbacks, name) for name in Callbacks.__struct_fields__):
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
    started: dict[str, tuple[int, ScriptedTool | None]] = {}
    turns = Counter[str]()
    while tools:
        entry = yield
        if type(entry) is Prompt:
            started.clear()
        elif type(entry) is ToolStarted:
            if not entry.own:
                started[entry.call_id] = entry.at_ns, in_turn(tools, entry.name, turns)
        else:
            begun_ns, tool = started.pop(entry.call_id, (0, None))
            if tool is None or facts.stop is not None:
                continue
            if entry.text.startswith("Error: timed out after ") or tool.outlives_cancel:
                continue
            took_ns = entry.at_ns - begun_ns
            if took_ns != tool.takes or tool.hangs:
                return f"the tool of call {entry.call_id!r} takes {took_ns} ns, not {tool.takes} ns"
    return ""


@invariant(
    "A stopped run waits within the grace period until its cancelled tools have ended.",
    "BUGS.md D4, D10, F5",
    sees=[StopRequested, Ended],
    begins=[StopRequested],
    needs=[Need.MACHINE, Need.SCENARIO],
)
def cancelled_tools_waited_for(subject: Subject) -> Watch:
    """Otherwise a tool goes on during the next run."""
    facts, tools, world = subject.facts, _scripted(subject), subject.tools
    policy_ms = subject.course.settings.tool_execution.timeout_ms
    if not any(tool.outlives_cancel for tool in tools.values()):
        return ""
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


@invariant(
    "Tools that run in parallel start without waiting for each other.",
    "loops.md",
    sees=[ToolCall, ToolStarted],
    needs=[Need.MACHINE],
)
def parallel_tools_start_at_once(subject: Subject) -> Watch:
    """They start after the reply, or with their calls, unless a tool of the batch is sequential."""
    facts, tools = subject.facts, subject.tools
    settings = subject.course.settings
    early, called_ns = settings.tool_execution.start == "when-called", 0
    own = settings.callbacks
    if settings.tool_execution.order != "parallel" or has_tool_hooks(subject):
        return ""
    if own.on_chunk or own.on_tool_call or own.on_tool_result:
        return ""
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


_PARTS = (TextDelta, ReasoningDelta, ToolCallDelta, ToolCall)


@invariant(
    "A model call takes no longer than the timeouts for the first part and for the whole "
    "reply, and does not time out earlier.",
    "BUGS.md C12, B16",
    sees=[Prompt, *_PARTS, Finish, Error, StreamCut, Classified, Compaction],
    needs=[Need.MACHINE],
)
def model_call_timeouts(subject: Subject) -> Watch:
    """The time of a callback, or of a tool that starts when called, does not count."""
    course, facts = subject.course, subject.facts
    settings = course.settings
    limits, callbacks = settings.limits, settings.callbacks
    whole_ns = limits.model_call_timeout_ms * NS_PER_MS
    first_ns = min(limits.first_part_timeout_ms * NS_PER_MS, whole_ns)
    exact = settings.tool_execution.start != "when-called"
    exact = exact and not any((callbacks.on_chunk, callbacks.on_text, callbacks.on_tool_call))
    judged, began_ns = 0, dict[int, int]()
    while True:
        entry = yield
        kind = type(entry)
        if kind in _PARTS:
            began_ns.setdefault(entry.request, entry.at_ns)
            continue
        number = next(reversed(facts.replies), 0)
        if kind is Prompt:
            judged = number  # a call that was open at the end of a run was stopped with it
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
            limit_ns = first_ns if number not in began_ns else whole_ns
            if took_ns < limit_ns or ((exact or kind is Compaction) and took_ns > limit_ns):
                return (
                    f"request {judged} is given up after {took_ns} ns, and may take {limit_ns} ns"
                )
        elif took_ns > whole_ns:
            return f"the reply to request {number} takes {took_ns} ns, and may take {whole_ns} ns"
        elif (waited := began_ns.get(number, 0) - reply.sent_ns) > first_ns:
            return f"reply {number} begins after {waited} ns, and must begin within {first_ns} ns"


@invariant(
    "A run is stopped when max_wall_clock has elapsed, and not earlier.",
    "BUGS.md A14, C1",
    sees=[Prompt, Hook, StopRequested, Ended],
    needs=[Need.SCENARIO],
)
def max_wall_clock_enforced(subject: Subject) -> Watch:
    """The scenario sets the limit. It counts from the prompt, and includes every wait.

    A run that is stopped, or that a failed hook ends, may wait until its tools have ended. An agent
    that blocks its event loop cannot be stopped: `event-loop-not-blocked` judges it for that.
    """
    scenario, facts, settings = subject.scenario, subject.facts, subject.settings
    assert scenario is not None
    most_ms = scenario.limits.max_wall_clock_ms
    ends = settings is not None and settings.hook_isolation.on_failure == "fail-run"
    has_failed = False  # a hook whose failure ends the run
    while True:
        entry = yield
        took_ns = entry.at_ns - (0 if facts.prompt is None else facts.prompt.at_ns)
        is_late = most_ms is not None and took_ns > most_ms * NS_PER_MS
        if type(entry) is Prompt:
            has_failed = False
        elif type(entry) is Hook:
            has_failed |= ends and entry.result not in ("ok", "blocked")
        elif type(entry) is Ended:
            can_hear = subject.machine is not None
            if is_late and can_hear and not facts.stops and not has_failed:
                return f"the run takes {took_ns} ns, and may take {most_ms} ms"
        elif entry.cause is StopCause.WALL_CLOCK and (
            most_ms is None or took_ns < most_ms * NS_PER_MS
        ):
            return f"the run is stopped after {took_ns} ns, and may take {most_ms} ms"

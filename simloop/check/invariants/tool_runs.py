"""Invariants on the runs of tools.

Not here: their results (results.py). The rule to keep: the id of a call
identifies a tool run, or, for an agent that renames calls, the name and the arguments do.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.scripted import expected_text
from simloop.check.invariants.subject import Subject
from simloop.engine.hooks import BEFORE_LLM_CALL
from simloop.escape import writable
from simloop.kernel.policies import Conversion, ToolOrder, ToolStart
from simloop.messages import ToolMessage
from simloop.trace.entries import (
    Answered,
    CallRenamed,
    Ended,
    Prompt,
    Queued,
    Request,
    StopRequested,
    ToolCall,
    ToolResult,
    ToolStarted,
)
from simloop.trace.facts import Facts
from simloop.world.tools import Tool

_NO_OBJECT = "its arguments are no JSON object"


@invariant(
    "The tool of a call runs at most once.",
    "BUGS.md C10, C13, D9, D14",
    sees=[Prompt, ToolCall, ToolStarted],
    begins=[ToolCall, ToolStarted],
)
def tool_runs_at_most_once(subject: Subject) -> Watch:
    """A retry or a repeated id must not run a tool again.

    Only an engine makes ids unique, so an agent is judged for each run anew.
    """
    machine = subject.machine is not None
    called: Counter[str] = Counter()
    started: Counter[str] = Counter()
    while True:
        entry = yield
        if type(entry) is Prompt:
            if not machine:
                called.clear()
                started.clear()
            continue
        call_id = entry.call_id
        if type(entry) is ToolCall:
            called[call_id] += 1
        elif started[call_id] and (machine or started[call_id] >= called[call_id]):
            return f"the tool of call {call_id!r} started again"
        else:
            started[call_id] += 1


@invariant(
    "A tool runs only for a call of the model, with the name and the arguments of the call.",
    "BUGS.md D9, D11, D14",
    sees=[ToolCall, CallRenamed, ToolStarted],
)
def only_called_tools_run(subject: Subject) -> Watch:
    """Hooks and converting loops may change the arguments, and an agent may change the ids.

    A framework may convert the arguments, and an agent may call its tools itself: a tool that
    `traced` records is not judged.
    """
    made: dict[str, list[tuple[str, str]]] = {}
    open_calls: Counter[tuple[str, str]] = Counter()
    settings = subject.settings
    exact = settings is None or not (
        settings.hooks.before_tool_call or settings.tool_rules.conversion is not Conversion.NONE
    )
    while True:
        entry = yield
        if type(entry) is ToolCall:
            call = entry.name, entry.arguments
            made.setdefault(entry.call_id, []).append(call)
            open_calls[call] += 1
        elif type(entry) is CallRenamed:
            old = made[entry.call_id].pop()  # the newest call
            call = entry.to_name, old[1]
            made.setdefault(entry.to_id, []).append(call)
            open_calls[old] -= 1
            open_calls[call] += 1
        elif not entry.own:
            call = entry.name, entry.arguments
            if settings is not None:
                asked = made.get(entry.call_id, ())
                if not any(one == call if exact else one[0] == entry.name for one in asked):
                    return f"{described(entry)} runs, and the model called {asked}"
            elif not open_calls[call] and value_of(entry.arguments) is not None:
                return f"{described(entry)} runs, and no call of the model is left for it"
            open_calls[call] -= 1


def described(entry: ToolStarted) -> str:
    """Return the text for a tool run in a violation."""
    return f"the tool {entry.name!r} of call {entry.call_id!r} with {entry.arguments:.80}"


def value_of(text: str) -> object:
    """Return the value of arguments, or None for a text that is no JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


@invariant(
    "A tool receives a JSON object as its arguments.", "BUGS.md A9, A10, D11", sees=[ToolStarted]
)
def tool_arguments_are_objects(_: Subject, entry: Any) -> str:
    """A loop reports other arguments to the model as an error."""
    if entry.arguments != "{}" and not isinstance(value_of(entry.arguments), dict):
        return f"{described(entry)} runs, and {_NO_OBJECT}"
    return ""


@invariant(
    "A tool ends before its call is answered in a request.",
    "BUGS.md D4, D8, D10",
    sees=[Prompt, ToolStarted, ToolResult, Answered, Request, Ended],
    begins=[ToolStarted],
)
def tool_ends_before_its_answer(subject: Subject) -> Watch:
    """A cancelled tool ends without a result; a tool that goes on has a late result.

    Only an engine must have ended all its tools at the end of the run.
    """
    facts = subject.facts
    running: dict[str, ToolStarted] = {}
    answered: dict[str, str] = {}  # calls whose tools may go on, with the place of the answer
    machine = subject.machine is not None
    while True:
        entry = yield
        kind = type(entry)
        if kind is ToolStarted:
            running[entry.call_id] = entry
            answered.pop(entry.call_id, None)
        elif kind is ToolResult:
            if entry.call_id in answered:
                return f"the tool of call {entry.call_id!r} ends after {answered[entry.call_id]}"
            running.pop(entry.call_id, None)
        elif kind is Answered:
            if running.pop(entry.call_id, None) is not None:
                answered[entry.call_id] = "its call was answered"
        elif kind is Prompt:
            answered.clear()
            running.clear()
        elif running and (kind is Ended or entry.purpose == "main"):
            where = "the end of the run" if kind is Ended else f"request {entry.number}"
            if machine:
                return f"the tool of call {next(iter(running))!r} has not ended before {where}"
            sent = facts.request.messages if kind is Request and facts.request else ()
            replied = {message.call_id for message in sent if type(message) is ToolMessage}
            gone = [one for one in running if kind is Ended or one in replied]
            for call_id in gone:
                answered[call_id] = where
                del running[call_id]


@invariant(
    "A tool runs no longer than its timeout, and does not time out earlier.",
    "BUGS.md B16, C12",
    sees=[Prompt, ToolStarted, ToolResult],
    needs=[Need.SCENARIO],
    begins=[ToolStarted],
)
def tool_timeouts(subject: Subject) -> Watch:
    """Each tool has its own timeout, or that of the policy. Code may outlive its cancellation."""
    scenario = subject.scenario
    assert scenario is not None
    settings = subject.settings or scenario
    policy = settings.tool_execution.timeout_ms if settings.tool_execution else None
    started: dict[str, int] = {}
    left: set[str] = set()  # in earlier runs of an agent; they may return in this one
    while True:
        entry = yield
        if type(entry) is not ToolResult:
            if type(entry) is Prompt:
                left.update(started if subject.machine is None else ())
                started.clear()
            elif entry.call_id not in left and not entry.own:
                started[entry.call_id] = entry.at_ns
            continue
        start = started.pop(entry.call_id, None)
        tool = subject.tools.get(entry.name)
        if start is None or tool is None:
            continue
        timeout_ms = tool.timeout_ms or policy
        if timeout_ms is None and not entry.is_error:
            continue
        scripted = scenario.tools.get(entry.name)
        longer_ns = scripted.outlives_cancel if scripted else 0
        took_ns = entry.at_ns - start
        what = f"the tool of call {entry.call_id!r}"
        is_late = timeout_ms is not None and took_ns >= timeout_ms * 1_000_000
        if entry.is_error and entry.text.startswith(_TIMED_OUT) and not is_late:
            return f"{what} timed out after {took_ns} ns, and its timeout is {timeout_ms} ms"
        over_ns = 0 if timeout_ms is None else took_ns - timeout_ms * 1_000_000
        is_taken = over_ns > 0 and not entry.is_error and subject.facts.stop is None
        if over_ns > longer_ns or is_taken:
            return f"{what} took {took_ns} ns, and its timeout is {timeout_ms} ms"


@invariant(
    "A fake tool returns the result, or raises the error, that its scenario states.",
    "BUGS.md D4, D20",
    sees=[Prompt, ToolStarted, ToolResult],
    needs=[Need.SCENARIO],
    begins=[ToolStarted],
)
def scripted_results(subject: Subject) -> Watch:
    """Random faults, tools that a hook replaces, and an agent's own functions are not judged."""
    scenario, settings = subject.scenario, subject.settings
    assert scenario is not None
    hooks = [hook for hook in scenario.hooks if hook.at == BEFORE_LLM_CALL]
    known = settings is None or len(hooks) == len(settings.hooks.before_llm_call)
    if scenario.faults is not None or not known:
        return ""
    replaced = {name for hook in hooks for name in hook.add_tools}
    started: set[str] = set()
    while True:
        entry = yield
        if type(entry) is not ToolResult:
            if type(entry) is Prompt:
                started.clear()
            elif not entry.own:
                started.add(entry.call_id)
            continue
        tool = scenario.tools.get(entry.name) if entry.call_id in started else None
        started.discard(entry.call_id)
        late = entry.is_error and entry.text.startswith(_TIMED_OUT)
        if tool is None or late or entry.name in replaced:
            continue
        fails = tool.raises is not None or tool.cancels
        if entry.is_error is not fails:
            return (
                f"the tool of call {entry.call_id!r} returns {entry.text!r:.80} as "
                f"{'an error' if entry.is_error else 'no error'}"
            )
        if entry.text != writable(expected_text(tool)):
            return f"the tool of call {entry.call_id!r} returns {entry.text!r:.80}"


_TIMED_OUT = "Error: timed out after "


@invariant(
    "Tools that run sequentially do not overlap in time.",
    "ARCHITECTURE.md",
    sees=[Prompt, ToolStarted, ToolResult, Answered],
    needs=[Need.MACHINE],
    begins=[ToolStarted],
)
def sequential_tools_do_not_overlap(subject: Subject) -> Watch:
    """The policy of the run, or a sequential tool of the batch, requires it."""
    settings, tools, facts = subject.settings, subject.tools, subject.facts
    assert settings is not None
    parallel = settings.tool_execution.order is ToolOrder.PARALLEL
    early = settings.tool_execution.start is ToolStart.WHEN_CALLED  # the batch is not known yet
    running: dict[str, str] = {}
    while True:
        entry = yield
        kind = type(entry)
        if kind is Prompt:
            running.clear()
        elif kind is not ToolStarted:
            running.pop(entry.call_id, None)
        else:
            if running and (not parallel or (not early and _asks_for_sequence(facts, tools))):
                return f"{described(entry)} runs beside that of {next(iter(running))!r}"
            running[entry.call_id] = entry.name


def _asks_for_sequence(facts: Facts, tools: Mapping[str, Tool]) -> bool:
    """Return whether the newest reply calls a sequential tool that its request offered.

    A hook may have withheld or replaced a tool, so the request counts, not the scenario.
    """
    reply, request = facts.reply, facts.request
    if reply is None or request is None:
        return False
    called = {call.name for call in reply.calls}
    return any(
        spec.name in called and spec == tools[spec.name].spec and tools[spec.name].sequential
        for spec in request.tools
        if spec.name in tools
    )


@invariant(
    "The end of one tool does not cancel another tool of the same reply.",
    "BUGS.md D3, D4, D15",
    sees=[Prompt, StopRequested, Queued, ToolStarted, ToolResult, Request],
    begins=[StopRequested, Queued, ToolStarted, ToolResult],
)
def no_tool_cancelled_by_another(subject: Subject) -> Watch:
    """The times show it: the request follows when the other tool ends, after a few seconds.

    An agent may have its own timeouts, which are longer, and may break its tools off for a message
    of the user.
    """
    facts = subject.facts
    running: dict[str, ToolStarted] = {}
    ended_ns, stopped, interrupted = -1, False, False
    while True:
        entry = yield
        kind = type(entry)
        if kind is ToolStarted:
            running[entry.call_id] = entry
        elif kind is ToolResult:
            running.pop(entry.call_id, None)
            ended_ns = entry.at_ns
        elif kind is Request:
            if entry.purpose != "main":
                continue
            answered = {one.call_id for one in facts.added if type(one) is ToolMessage}
            for call_id, start in () if stopped or interrupted else running.items():
                if call_id in answered and start.at_ns <= ended_ns == entry.at_ns < (
                    start.at_ns + _SOON_NS
                ):
                    return f"{described(start)} was ended when another tool of its batch ended"
            running = {each: start for each, start in running.items() if each not in answered}
            interrupted = False
        elif kind is Queued:
            interrupted = True
        else:
            running, stopped = {}, kind is StopRequested


_SOON_NS = 10 * 1_000_000_000

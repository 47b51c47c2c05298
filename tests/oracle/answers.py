"""Invariants on the answers of calls and on the end of a run.

The results that the fake tools of a scenario must return are computed from the scenario alone, and
not by the code that makes them, so that its errors are found.
"""

from collections.abc import Mapping
from typing import Any

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.tools import described
from simloop.engine.hooks import BEFORE_LLM_CALL
from simloop.escape import writable
from simloop.kernel.policies import ToolOrder, ToolStart
from simloop.messages import Outcome
from simloop.scenario.schema import ScriptedTool
from simloop.trace.entries import Answered, Ended, Prompt, ToolResult, ToolStarted
from simloop.trace.facts import Facts
from simloop.world.tools import Tool, canonical_json


def expected_text(tool: ScriptedTool) -> str:
    """Return the text that a fake tool returns: an empty text for null, JSON for another value."""
    if tool.raises is not None:
        return f"Error: {tool.raises or 'ScriptedFailure'}"
    if tool.cancels:
        return "Error: the tool was cancelled"
    if tool.returns_chars is not None:
        return "x" * tool.returns_chars
    if tool.returns is None or isinstance(tool.returns, str):
        return tool.returns or ""
    return canonical_json(tool.returns).decode()


@invariant(
    "The answer to a call states correctly whether the tool ran.",
    "BUGS.md C10, D9, D20",
    sees=[ToolStarted, ToolResult, Answered],
    needs=[Need.MACHINE],
)
def answers_match_tool_runs(subject: Subject) -> Watch:
    """A tool that was stopped before it returned counts as not run."""
    started: set[str] = set()
    returned: set[str] = set()
    while True:
        entry = yield
        kind = type(entry)
        if kind is ToolStarted:
            started.add(entry.call_id)
        elif kind is ToolResult:
            returned.add(entry.call_id)
        elif entry.ran and entry.call_id not in started:
            return f"call {entry.call_id!r} is answered as run, and its tool did not start"
        elif not entry.ran and entry.call_id in returned:
            return f"call {entry.call_id!r} is answered as not run, and its tool returned"
        elif not entry.ran and not entry.is_error:
            return f"call {entry.call_id!r} is answered as not run, and without an error"


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


@invariant(
    "Tools that run sequentially do not overlap in time.",
    "loops.md",
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


_TIMED_OUT = "Error: timed out after "


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
    "The message of a run that a hook has blocked, or that a failed call has ended, names the "
    "reason.",
    "BUGS.md E8, D16",
    sees=[Ended],
    needs=[Need.MACHINE],
)
def message_names_cause(subject: Subject, entry: Any) -> str:
    """The message has the words of the hook or the provider, or the model's last text."""
    facts = subject.facts
    reply = facts.reply
    if reply is not None and reply.text and reply.text == entry.message:
        return ""
    reasons = [hook.detail for hook in facts.vetoes if hook.detail]
    if entry.outcome is Outcome.FAILED and reply is not None and reply.fault is not None:
        reasons.append(reply.fault.message)
    elif entry.outcome is not Outcome.BLOCKED:
        return ""
    if reasons and not any(reason in entry.message for reason in reasons):
        return f"the user is told {entry.message!r:.80}, and the reason is {reasons[-1]!r}"
    return ""

"""Invariants on the calls of a reply in an engine: which run, with which arguments and answers.

A call that is not run has a reason that the trace shows. The results of the fake tools of a
scenario are computed from the scenario alone, and not by the code that makes them.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from oracle.hooks import hooks_of
from oracle.ledger import ledger_of
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.tools import described
from simloop.engine.hooks import AFTER_TOOL_CALL, BEFORE_LLM_CALL
from simloop.escape import writable
from simloop.kernel import effects, signals
from simloop.messages import FinishReason, Outcome, StopCause
from simloop.scenario.schema import ScriptedTool
from simloop.trace.entries import (
    Answered,
    CallBegun,
    Ended,
    Hook,
    Prompt,
    Request,
    StopRequested,
    ToolResult,
    ToolStarted,
    Transition,
)
from simloop.trace.facts import Facts
from simloop.world.tools import Tool, canonical_json

_decode = msgspec.json.Decoder().decode
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_KNOWN = {"type", "properties", "required", "additionalProperties", "description", "title"}


class _Schemas:
    """The plain schemas of tools: they only name types and required arguments."""

    def __init__(self) -> None:
        self._read: dict[bytes, Any] = {}

    def wrong(self, schema: Any, arguments: str, *, convert: bool = False) -> str | None:
        """Return the error in arguments, or an empty text; None if the schema is not plain.

        With `convert`, a whole number is also a text.
        """
        raw = bytes(schema)
        if raw not in self._read:
            self._read[raw] = _decode(raw)
        plain = self._read[raw]
        try:
            given = _decode(arguments)
        except (msgspec.DecodeError, RecursionError):
            return "they are no JSON"
        if not isinstance(given, dict):
            return "they are no object"
        if not isinstance(plain, dict) or not plain.keys() <= _KNOWN:
            return None
        if convert:
            given = {name: str(v) if type(v) is int else v for name, v in given.items()}
        return _wrong_members(plain, given)


def _wrong_members(schema: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in given:
            return f"{name!r} is missing"
    more = schema.get("additionalProperties", True)
    if not isinstance(more, bool):
        return None
    for name, value in given.items():
        if name not in properties:
            if not more:
                return f"{name!r} is unknown"
            continue
        rule = properties[name]
        kind: Any = rule.get("type") if isinstance(rule, dict) else None
        if (
            not isinstance(kind, str)
            or kind not in _TYPES
            or not rule.keys() <= {"type", "description", "title"}
        ):
            return None
        if not _is_of(value, kind):
            return f"{name!r} is no {kind}"
    return ""


def _is_of(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _schema_of(facts: Facts, call_id: str, name: str) -> Any:
    """Return the schema under which the request of a call offered its tool, or None."""
    request = facts.sent.get(facts.asked.get(call_id, 0))
    tools = () if request is None else request.tools
    return next((tool.parameters for tool in tools if tool.name == name), None)


@invariant(
    "A tool receives arguments that match its schema, also after a hook has changed them.",
    "BUGS.md A10, D11",
    sees=[ToolStarted],
    needs=[Need.MACHINE],
)
def arguments_match_schema(subject: Subject) -> Watch:
    """Only plain schemas are judged: types by name, required and allowed arguments."""
    facts, settings, schemas = subject.facts, subject.settings, _Schemas()
    assert settings is not None
    if settings.hooks.before_tool_call and not settings.tool_rules.check_changed:
        return ""
    while True:
        entry = yield
        schema = _schema_of(facts, entry.call_id, entry.name)
        wrong = None if schema is None else schemas.wrong(schema, entry.arguments)
        if wrong:
            return (
                f"the tool {entry.name!r} of call {entry.call_id!r} gets {entry.arguments:.80}, "
                f"and {wrong}"
            )


@invariant(
    "Every call of a complete reply runs, unless the trace shows a reason for its refusal.",
    "BUGS.md D13, D20, A8",
    sees=[Prompt, StopRequested, Hook, Answered],
    needs=[Need.MACHINE],
    begins=[StopRequested, Hook, Answered],
)
def every_call_runs(subject: Subject) -> Watch:
    """Reasons: an unknown tool, wrong arguments, a hook, a stop, a reply that is refused.

    Two equal calls both run.
    """
    course, facts, schemas = subject.course, subject.facts, _Schemas()
    settings, done = course.settings, ledger_of(subject).done
    is_stopped, hooked = False, -1
    while True:
        entry = yield
        kind = type(entry)
        if kind is Prompt:
            is_stopped = False
        elif kind is StopRequested:
            is_stopped = True
        elif kind is Hook:
            if entry.result != "ok":
                hooked = done.moves
        elif entry.ran or is_stopped or hooked == done.moves:
            continue
        else:
            effect = course.effect
            if type(effect) is not effects.RunTools or (effect.first_only or not _is_whole(facts)):
                continue
            schema = _schema_of(facts, entry.call_id, entry.name)
            if schema is None or settings.hooks.before_tool_call:
                continue
            call = next((c for c in ledger_of(subject).calls if c.id == entry.call_id), None)
            convert = settings.tool_rules.convert
            if call is not None and schemas.wrong(schema, call.arguments, convert=convert) == "":
                return f"call {entry.call_id!r} of {entry.name!r} is not run: {entry.text!r:.80}"


def _is_whole(facts: Facts) -> bool:
    reply = facts.reply
    return reply is not None and reply.finish not in (None, FinishReason.INTERRUPTED)


@invariant(
    "The signal after a batch of tools requests the end of the run exactly if each result "
    "requests it.",
    "BUGS.md D13",
    sees=[Request, Answered, signals.ToolsReturned],
    needs=[Need.MACHINE, Need.SCENARIO],
)
def terminate_signal_matches_results(subject: Subject) -> Watch:
    """A failed tool and a refused call do not request the end; a call that never began is left out.

    Only the fake tools of a scenario are predicted.
    """
    done, scenario = ledger_of(subject).done, subject.scenario
    hooks, settings = hooks_of(subject), subject.course.settings
    assert scenario is not None
    if not any(tool.terminate for tool in scenario.tools.values()):
        return ""
    own = sum(h.at == AFTER_TOOL_CALL for h in scenario.hooks) == len(hooks[AFTER_TOOL_CALL])
    fails = settings.hook_isolation.on_failure == "error-result"
    if hooks[BEFORE_LLM_CALL] or not own or (hooks[AFTER_TOOL_CALL] and fails):
        return ""
    if scenario.faults is not None:
        return ""
    asking: set[str] = set()
    begun: set[str] = set()
    while True:
        entry = yield
        if type(entry) is Request:
            asking, begun = set(), set()
            continue
        if type(entry) is Answered:
            tool = scenario.tools.get(entry.name)
            if entry.ran or subject.facts.stop is None:
                begun.add(entry.call_id)
            if tool is not None and tool.terminate and entry.ran and not entry.is_error:
                asking.add(entry.call_id)
            continue
        told = entry.signal.terminate
        wanted = bool(asking) and asking >= begun
        pending = done.pending
        if type(pending) is not effects.RunTools or pending.first_only or subject.facts.stop:
            continue
        if told is not wanted:
            some = "each result of the reply asks" if wanted else "not each result of it asks"
            return f"{some} for the end of the run, and the signal states the opposite"


@invariant(
    "After an abort that stops a batch, no tool starts, and no call begins except the first one.",
    "BUGS.md D7",
    sees=[Prompt, StopRequested, CallBegun, ToolStarted, Request],
    needs=[Need.MACHINE],
    begins=[StopRequested],
)
def no_call_starts_after_abort(subject: Subject) -> Watch:
    """The abort cancels the running tools; the calls after them do not begin.

    Where an abort is no flag, a tool may begin at the moment of it, but not behind one that ends.
    """
    is_flag, aborted_ns = subject.course.settings.abort_is_flag, -1
    aborted, begun = False, 0
    while True:
        entry = yield
        kind = type(entry)
        if kind is StopRequested:
            aborted, aborted_ns = aborted or entry.cause is StopCause.ABORT, entry.at_ns
        elif kind is Prompt or kind is Request:
            begun, aborted = 0, aborted and kind is Request
        elif not is_flag and (kind is CallBegun or entry.at_ns == aborted_ns):
            continue
        elif aborted and (begun or kind is ToolStarted):
            what = "tool" if kind is ToolStarted else "next one"
            return f"call {entry.call_id!r}: the {what} begins after an abort"
        else:
            begun += 1


@invariant(
    "Each call that an engine sends or runs has an id that is not empty.", "BUGS.md D14",
    sees=[ToolStarted, Answered],
    needs=[Need.MACHINE],
)  # fmt: skip
def call_ids_not_empty(_: Subject, entry: Any) -> str:
    """A provider refuses a request with an empty or a repeated call id."""
    return "" if entry.call_id else f"a call of {entry.name!r} has no id"


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


def in_turn(
    tools: Mapping[str, ScriptedTool], name: str, turns: Counter[str]
) -> ScriptedTool | None:
    """Return a fake tool as its next call finds it: with the answer that is the next one."""
    tool = tools.get(name)
    turns[name] += 1
    if tool is None or turns[name] > len(tool.answers):
        return tool
    answer = dict(tool.answers[turns[name] - 1])
    return tool.model_copy(update={"hangs": False, "cancels": False, **answer})


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
    started: dict[str, ScriptedTool | None] = {}
    turns = Counter[str]()
    while True:
        entry = yield
        if type(entry) is not ToolResult:
            if type(entry) is Prompt:
                started.clear()
            elif not entry.own:
                started[entry.call_id] = in_turn(scenario.tools, entry.name, turns)
            continue
        tool = started.pop(entry.call_id, None)
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
    parallel = settings.tool_execution.order == "parallel"
    early = settings.tool_execution.start == "when-called"  # the batch is not known yet
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
    sees=[Prompt, Hook, Ended, signals.HookFailed],
    needs=[Need.MACHINE],
)
def message_names_cause(subject: Subject) -> Watch:
    """The message has the words of the hook or the provider, or the model's last text."""
    reasons: list[str] = []
    hook = ""  # what the hook said that has ended the run
    while True:
        entry = yield
        reply = subject.facts.reply
        if type(entry) is Prompt:
            reasons, hook = [], ""
        elif type(entry) is Transition:
            hook = reasons[-1] if reasons else ""
        elif type(entry) is Hook:
            reasons += [entry.detail or "unknown"] if entry.result != "ok" else []
        elif hook and entry.outcome is Outcome.FAILED:
            if hook not in entry.message:
                return f"the user is told {entry.message!r:.80}, and the hook said {hook!r}"
        elif reply is None or not reply.text or reply.text != entry.message:
            fault = None if reply is None else reply.fault
            if entry.outcome is Outcome.FAILED and fault is not None:
                reasons.append(fault.message)
            elif entry.outcome is not Outcome.BLOCKED:
                continue
            if reasons and not any(reason in entry.message for reason in reasons):
                return f"the user is told {entry.message!r:.80}, and the reason is {reasons[-1]!r}"

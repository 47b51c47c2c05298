"""Invariants on the changes that hooks make: to a request, to arguments and to results.

The hooks of a scenario are known, so their changes are predicted; those of hooks in Python are not.
Not here: which hooks run (hooks.py). The rule to keep: a change is predicted for one call, and the
prediction begins anew with the next one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from simloop.check.invariants.hooks import has_tool_hooks, hooks_of
from simloop.check.invariants.invariant import Kind, Need, Watch, invariant
from simloop.check.invariants.machine import course_of
from simloop.check.invariants.subject import Subject
from simloop.engine.hooks import AFTER_TOOL_CALL, BEFORE_LLM_CALL, BEFORE_TOOL_CALL
from simloop.kernel import effects
from simloop.kernel.policies import Conversion, OnHookFailure, ToolOrder
from simloop.messages import ToolSpec
from simloop.scenario.schema import ScriptedHook
from simloop.trace.entries import (
    Answered,
    CallBegun,
    CallRenamed,
    Hook,
    Request,
    ToolCall,
    ToolResult,
    ToolStarted,
    Transition,
)


class _Script:
    """The hooks of a scenario at one point, and what they change when they run."""

    def __init__(self, subject: Subject, point: str) -> None:
        scenario = subject.scenario
        own = [] if scenario is None else [h for h in scenario.hooks if h.at == point]
        self.hooks: list[ScriptedHook] = own
        self.count = len(hooks_of(subject)[point])
        self.asked = [0] * len(own)
        self._place = 0

    @property
    def is_known(self) -> bool:
        """Return whether all hooks of the point are those of the scenario."""
        return len(self.hooks) == self.count

    def begin(self) -> None:
        """Begin a call."""
        self._place = 0

    def run(self, tool: str = "") -> ScriptedHook | None:
        """Return the next hook if it acts on this call."""
        if self._place >= len(self.hooks):
            return None
        place, hook = self._place, self.hooks[self._place]
        self._place += 1
        if hook.tool is not None and hook.tool != tool:
            return None
        self.asked[place] += 1
        return hook if hook.nth in (None, self.asked[place]) else None


def _seen_of_calls(subject: Subject) -> Iterable[Kind]:
    has_some = hooks_of(subject)[BEFORE_LLM_CALL]
    return (Hook, Request, Transition) if has_some else (Request,)


def _seen_of_tools(subject: Subject) -> Iterable[Kind]:
    """Without hooks of tools an answer is that of the tool."""
    if not has_tool_hooks(subject):
        return ToolResult, Answered
    return ToolCall, CallRenamed, CallBegun, Hook, ToolStarted, ToolResult, Answered


@invariant(
    "A request has the system prompt and the tools that its own hooks leave: a change for one call "
    "is gone in the next, and a hook that failed has changed nothing.",
    "BUGS.md D15, A5",
    sees=[Hook, Request, Transition],
    needs=[Need.MACHINE],
    narrow=_seen_of_calls,
)
def changes_last_for_one_call(subject: Subject) -> Watch:
    """Predicted where all hooks are those of a scenario, or have failed."""
    course = course_of(subject)
    script = _Script(subject, BEFORE_LLM_CALL)
    offered = {name: tool.spec for name, tool in subject.tools.items()}
    all_offered, checked = tuple(offered.values()), None
    prompt = course.settings.system_prompt
    ok: list[ScriptedHook] = []
    unknown = False
    while True:
        entry = yield
        kind = type(entry)
        if kind is Transition:
            ok, unknown = [], False
            script.begin()
        elif kind is Hook:
            if entry.point == BEFORE_LLM_CALL:
                acting = script.run()
                if entry.result == "ok":
                    unknown = unknown or not script.is_known
                    ok += [] if acting is None else [acting]
        elif entry.purpose == "main" and not unknown:
            request = subject.facts.request
            assert request is not None
            wanted = next(
                (h.system_prompt for h in reversed(ok) if h.system_prompt is not None), prompt
            )
            if request.system_prompt != wanted:
                return (
                    f"request {entry.number} has the system prompt {request.system_prompt[:40]!r}, "
                    f"not {wanted[:40]!r}"
                )
            effect = course.asked[-1] if course.asked else None
            plain = type(effect) is effects.CallModel and effect.tools and not ok
            if plain and request.tools is checked:
                continue
            wrong = _wrong_tools(request.tools, offered, ok, effect)
            if wrong:
                return f"request {entry.number} {wrong}"
            checked = request.tools if plain and request.tools == all_offered else None


def _wrong_tools(
    sent: tuple[ToolSpec, ...], offered: Mapping[str, ToolSpec], ok: list[ScriptedHook], effect: Any
) -> str:
    wanted = dict(offered) if getattr(effect, "tools", True) else {}
    added: set[str] = set()
    for hook in ok:
        wanted.update(dict.fromkeys(hook.add_tools))  # type: ignore[arg-type]
        added.update(hook.add_tools)
        for name in hook.hide_tools:
            wanted.pop(name, None)
    names = [tool.name for tool in sent]
    if names != list(wanted):
        return f"offers the tools {names}, not {list(wanted)}"
    changed = [t.name for t in sent if t.name not in added and t != wanted[t.name]]
    return f"describes the tool {changed[0]} otherwise than before" if changed else ""


@invariant(
    "A tool gets the arguments, and the model the result, that the hooks of the call leave.",
    "BUGS.md D15, D20",
    sees=[ToolCall, CallRenamed, CallBegun, Hook, ToolStarted, ToolResult, Answered],
    needs=[Need.MACHINE],
    narrow=_seen_of_tools,
)
def changes_of_tool_calls_hold(subject: Subject) -> Watch:
    """Predicted where all hooks are those of a scenario, and tools run one after the other."""
    course = course_of(subject)
    settings = course.settings
    before, after = _Script(subject, BEFORE_TOOL_CALL), _Script(subject, AFTER_TOOL_CALL)
    plain = settings.tool_execution.order is not ToolOrder.PARALLEL
    reads = plain and before.is_known and settings.tool_rules.conversion is Conversion.NONE
    tells = after.is_known and (plain or not after.count)
    fails = settings.hook_isolation.on_failure == OnHookFailure.ERROR_RESULT
    called: dict[str, tuple[str, str]] = {}
    changes: dict[str, Any] = {}
    results: dict[str, str] = {}
    call_id = ""
    while True:
        entry = yield
        kind = type(entry)
        if kind is ToolCall:
            called[entry.call_id] = entry.name, entry.arguments
        elif kind is CallRenamed:
            called[entry.to_id] = entry.to_name, called.get(entry.call_id, ("", ""))[1]
        elif kind is CallBegun:
            call_id, changes = entry.call_id, {}
            before.begin()
        elif kind is Hook:
            name = called.get(call_id, ("", ""))[0]
            if entry.point == BEFORE_TOOL_CALL:
                acting = before.run(name)
                if acting is not None and entry.result == "ok":
                    changes.update(acting.arguments)
            elif entry.point == AFTER_TOOL_CALL:
                acting = after.run(name)
                if acting is not None and entry.result == "ok" and acting.result is not None:
                    results[call_id] = acting.result
        elif kind is ToolStarted:
            if reads and before.count and entry.call_id == call_id:
                wrong = _wrong_arguments(entry, called.get(call_id, ("", "{}"))[1], changes)
                if wrong:
                    return wrong
        elif kind is ToolResult:
            call_id = entry.call_id
            results[call_id] = entry.text
            after.begin()
        elif entry.ran and tells and not fails:
            wanted = results.get(entry.call_id)
            if wanted is not None and entry.text != wanted:
                told = f"{entry.text[:40]!r}, not {wanted[:40]!r}"
                return f"call {entry.call_id!r} is answered with {told}"


def _wrong_arguments(started: ToolStarted, given: str, changes: Mapping[str, Any]) -> str:
    try:
        wanted = {**msgspec.json.decode(given or "{}"), **changes}
        got = msgspec.json.decode(started.arguments)
    except (msgspec.DecodeError, TypeError, RecursionError):
        return ""
    if got != wanted:
        return f"the tool of call {started.call_id!r} gets {got!r:.60}, not {wanted!r:.60}"
    return ""

"""Invariants on the effects of hooks: changes to requests, arguments and results, and vetoes.

The hooks of a scenario are known, so their changes are predicted; those of hooks in Python are not.
A change is predicted for one call, and the prediction begins anew with the next one. Of hooks that
run at once, the first in the list decides, and not the first that ends.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from oracle.hooks import Chain, has_tool_hooks, hooks_of
from oracle.ledger import ENDS_FROM_OUTSIDE, ledger_of
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.engine.hooks import AFTER_TOOL_CALL, BEFORE_LLM_CALL, BEFORE_TOOL_CALL
from simloop.escape import writable
from simloop.kernel import effects
from simloop.messages import Outcome, ToolSpec
from simloop.scenario.schema import ScriptedHook
from simloop.trace.entries import (
    Answered,
    CallBegun,
    CallRenamed,
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

_CUTTING = (StopRequested, *ENDS_FROM_OUTSIDE)


class _Script:
    """The hooks of a scenario at one point, and the changes that they make."""

    def __init__(self, subject: Subject, point: str) -> None:
        settings = subject.course.settings
        hooks = hooks_of(subject)[point]
        scenario = subject.scenario
        own = [] if scenario is None else [h for h in scenario.hooks if h.at == point]
        self.hooks: list[ScriptedHook] = own
        self.count = len(hooks)
        self.asked = [0] * len(own)
        self._chain = Chain(hooks, settings)
        self._is_lost = False
        self._is_parallel = settings.hook_execution.order == "parallel"
        self._may_be_lost = any(h.nth is not None and (h.takes or h.hangs) for h in own)

    @property
    def is_known(self) -> bool:
        """Return whether all hooks of the point are those of the scenario, with known counts."""
        return len(self.hooks) == self.count and not self._is_lost

    def stop(self) -> None:
        """Note an end from outside: a hook that it cut off has left no entry."""
        self._is_lost = self._is_lost or self._may_be_lost

    def miss(self) -> None:
        """Note that a hook has run for a call that the trace does not name."""
        self._is_lost = self._is_lost or any(hook.nth is not None for hook in self.hooks)

    def lose(self) -> None:
        """Note that it is unknown from now on which calls the hooks change."""
        self._is_lost = True

    def begin(self) -> None:
        """Begin a call."""
        self._chain.begin()

    def run(self, entry: Hook, tool: str = "") -> ScriptedHook | None:
        """Return the hook that has run if it acts on this call, and may change something."""
        place = self._chain.advance(entry)
        if place is None or place >= len(self.hooks):
            return None
        hook = self.hooks[place]
        if hook.tool is not None and hook.tool != tool:
            return None
        self.asked[place] += 1
        may_change = not (self._is_parallel and hook.independent)
        return hook if may_change and hook.nth in (None, self.asked[place]) else None


@invariant(
    "A hook that is marked as independent changes nothing where hooks run at once.",
    "loops.md",
    sees=[Hook],
)
def independent_hooks_change_nothing(subject: Subject) -> Watch:
    """Another hook of the same point and name may change something."""
    if subject.course.settings.hook_execution.order != "parallel":
        return ""
    hooks = hooks_of(subject)
    changing = {(p, h.name) for p in hooks for h in hooks[p] if not h.is_independent}
    while True:
        entry = yield
        if entry.changed and (entry.point, entry.hook) not in changing:
            return (
                f"the hook {entry.hook} is independent, and changes {' and '.join(entry.changed)}"
            )


@invariant(
    "A change that a hook makes to the system prompt or the tools applies to one request; a "
    "failed hook changes nothing.",
    "BUGS.md D15, A5",
    sees=[Hook, Request, *ENDS_FROM_OUTSIDE],
    needs=[Need.MACHINE],
)
def hook_changes_apply_to_one_request(subject: Subject) -> Watch:
    """Judged only if all hooks that ran are those of a scenario, or failed."""
    course, done = subject.course, ledger_of(subject).done
    script = _Script(subject, BEFORE_LLM_CALL)
    offered = {name: tool.spec for name, tool in subject.tools.items()}
    all_offered, checked = tuple(offered.values()), None
    prompt = course.settings.system_prompt
    ok: list[ScriptedHook] = []
    unknown, begun = False, -1
    while True:
        entry = yield
        kind = type(entry)
        if begun != done.moves:
            begun, ok, unknown = done.moves, [], False
            script.begin()
        if kind is Transition:
            script.stop()
        elif kind is Hook:
            if entry.point == BEFORE_LLM_CALL:
                acting = script.run(entry)
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
            effect = course.effect
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
    return f"describes the tool {changed[0]} differently than before" if changed else ""


@invariant(
    "A tool receives the arguments of its call, with the changes that hooks make.",
    "BUGS.md D15, D11",
    sees=[ToolCall, CallRenamed, CallBegun, Hook, ToolStarted, *_CUTTING],
    needs=[Need.MACHINE],
)
def hook_changes_to_arguments_apply(subject: Subject) -> Watch:
    """Judged only if all hooks are those of a scenario, and calls are prepared sequentially."""
    settings = subject.course.settings
    script = _Script(subject, BEFORE_TOOL_CALL)
    policy = settings.tool_execution
    at_once = policy.order == "parallel" and policy.start == "when-called"
    if not script.count or at_once or settings.tool_rules.convert:
        return ""
    called: dict[str, tuple[str, str]] = {}
    first: tuple[str, str] | None = None  # the call whose id the newest call repeats
    changes: dict[str, dict[str, Any]] = {}  # by the id of the call
    call_id = ""
    while True:
        entry = yield
        kind = type(entry)
        if kind is ToolCall:
            first = called.get(entry.call_id)
            called[entry.call_id] = entry.name, entry.arguments
        elif kind is CallRenamed:
            renamed = entry.to_name, called.get(entry.call_id, ("", ""))[1]
            if first is not None:
                called[entry.call_id] = first
            called[entry.to_id] = renamed
        elif kind is CallBegun:
            call_id = entry.call_id
            changes[call_id] = {}
            script.begin()
        elif kind is StopRequested or kind is Transition:
            script.stop()
        elif kind is Hook:
            if entry.point == BEFORE_TOOL_CALL:
                acting = script.run(entry, called.get(call_id, ("", ""))[0])
                if acting is not None and entry.result == "ok":
                    changes.setdefault(call_id, {}).update(acting.arguments)
        elif script.is_known and entry.call_id in changes:
            given = called.get(entry.call_id, ("", "{}"))[1]
            wrong = _wrong_arguments(entry, given, changes[entry.call_id])
            if wrong:
                return wrong


@invariant(
    "A call is answered with the result of its tool, with the changes that hooks make.",
    "BUGS.md D15, D20",
    sees=[Prompt, Hook, ToolResult, Answered, *_CUTTING],
    begins=[ToolResult, Hook],
    needs=[Need.MACHINE],
)
def hook_changes_to_results_apply(subject: Subject) -> Watch:
    """Judged only if all hooks are those of a scenario, and run for one call at a time."""
    settings = subject.course.settings
    script = _Script(subject, AFTER_TOOL_CALL)
    answers = settings.hook_isolation.on_failure == "error-result"
    if script.count and answers:
        return ""
    results: dict[str, str] = {}
    call_id = name = ""
    while True:
        entry = yield
        kind = type(entry)
        if kind is Prompt:
            results.clear()
        elif kind is ToolResult:
            if results and script.count:  # the hooks of two calls may run at the same time
                script.lose()
            call_id, name = entry.call_id, entry.name
            results[call_id] = entry.text
            script.begin()
        elif kind is Answered:
            if entry.call_id == call_id:  # one that does not run may be answered meanwhile
                call_id = ""
            wanted = results.pop(entry.call_id, entry.text)
            if entry.ran and script.is_known and entry.text != wanted:
                told = f"{entry.text[:40]!r}, not {wanted[:40]!r}"
                return f"call {entry.call_id!r} is answered with {told}"
        elif kind is StopRequested or kind is Transition:
            script.stop()
        elif entry.point == AFTER_TOOL_CALL:
            if not call_id:  # of a call that was stopped: its tool has no result
                script.miss()
                continue
            acting = script.run(entry, name)
            if acting is not None and entry.result == "ok" and acting.result is not None:
                results[call_id] = acting.result


def _wrong_arguments(started: ToolStarted, given: str, changes: Mapping[str, Any]) -> str:
    try:
        wanted = {**msgspec.json.decode(given or "{}"), **changes}
        got = msgspec.json.decode(started.arguments)
    except (msgspec.DecodeError, TypeError, RecursionError):
        return ""
    if got != wanted:
        return f"the tool of call {started.call_id!r} gets {got!r:.60}, not {wanted!r:.60}"
    return ""


@invariant(
    "A call that a hook forbids, or that a hook answers by its failure, is answered with an error "
    "that states the reason.",
    "BUGS.md D15, D16",
    sees=[Prompt, CallBegun, ToolResult, Hook, Answered],
    needs=[Need.MACHINE],
)
def hook_refusals_answer_calls(subject: Subject) -> Watch:
    """Judged only if it is known for which call a hook ran, and not after a stop."""
    settings, facts = subject.course.settings, subject.facts
    policy, on_failure = settings.tool_execution, settings.hook_isolation.on_failure
    if policy.order == "parallel" and policy.start == "when-called":
        return ""
    hooks = hooks_of(subject)
    if not has_tool_hooks(subject):
        return ""
    places = {(p, hook.name): n for p in hooks for n, hook in enumerate(hooks[p])}
    if any(Chain(hooks[point], settings).is_ambiguous for point in hooks):
        return ""
    begun = ""
    returned: set[str] = set()  # the calls whose tools have returned, and whose hooks may run
    refused: dict[str, tuple[tuple[bool, int], str]] = {}  # by the id of the call
    reasons: set[str] = set()
    while True:
        entry = yield
        kind = type(entry)
        if kind is Prompt:
            returned.clear()
            refused.clear()
        elif kind is CallBegun:
            begun = entry.call_id
        elif kind is ToolResult:
            returned.add(entry.call_id)
        elif kind is Hook:
            if on_failure == "fail-run" and entry.result in {"failed", "timed-out"}:
                refused.clear()  # the run ends, and calls that other hooks forbade end with it
            reason = _reason_of(entry, on_failure)
            if reason is None:
                continue
            reasons.add(reason)
            calls: Iterable[str] = ()
            if entry.point == BEFORE_TOOL_CALL:
                calls = (begun,)
            elif entry.point == AFTER_TOOL_CALL and len(returned) == 1:
                calls = returned
            # Of hooks that run at once the first in the list decides, and a veto before a failure.
            answers = entry.result != "blocked" and on_failure == "error-result"
            told = (answers, places.get((entry.point, entry.hook), 0)), reason
            refused.update({call_id: min(told, refused.get(call_id, told)) for call_id in calls})
        else:
            returned.discard(entry.call_id)
            decided = refused.pop(entry.call_id, None)
            if decided is None or facts.stop is not None:
                continue
            _, reason = decided
            if not entry.is_error or not _states(entry.text, reason, reasons):
                return (
                    f"call {entry.call_id!r} is answered {entry.text!r:.60}, not with an error"
                    + (f" that says {reason!r:.60}" if reason else "")
                )


@invariant(
    "A model call that hooks forbid at once is blocked for the reason of the first in the list.",
    "loops.md",
    sees=[Hook, Request, Ended],
    needs=[Need.MACHINE],
)
def first_veto_blocks_model_call(subject: Subject) -> Watch:
    """Otherwise the reason depends on the hook that ends first."""
    settings, hooks = subject.course.settings, hooks_of(subject)[BEFORE_LLM_CALL]
    parallel = settings.hook_execution.order == "parallel" and len(hooks) > 1
    if not parallel or Chain(hooks, settings).is_ambiguous:
        return ""
    places = {hook.name: place for place, hook in enumerate(hooks)}
    reasons: dict[int, str] = {}  # by the place of the hook, since the newest request
    while True:
        entry = yield
        if type(entry) is Hook:
            reason = _reason_of(entry, settings.hook_isolation.on_failure)
            if entry.point == BEFORE_LLM_CALL and reason is not None:
                reasons[places.get(entry.hook, 0)] = reason
            continue
        if type(entry) is Ended and entry.outcome is Outcome.BLOCKED and reasons:
            reason = reasons[min(reasons)]
            if not _states(entry.message, reason, reasons.values()):
                return f"the user is told {entry.message!r:.80}, and the reason is {reason!r:.60}"
        reasons = {}


def _states(text: str, reason: str, reasons: Iterable[str]) -> bool:
    """Return whether a text has this reason, and no other one: an empty one is in each text."""
    return reason in text and not any(one in text and one not in reason for one in reasons)


def _reason_of(hook: Hook, on_failure: str) -> str | None:
    """Return the words that the answer must have, if the hook decides about the answer."""
    if hook.result == "blocked":
        return hook.detail
    if hook.result == "ok":
        return None
    if on_failure == "block-call" and hook.point in _BEFORE:
        return writable(hook.detail)
    answers = on_failure == "error-result" and hook.point != BEFORE_LLM_CALL
    return "" if answers else None


_BEFORE = (BEFORE_LLM_CALL, BEFORE_TOOL_CALL)

"""Invariants on the hooks that forbid a call, or answer it by their failure.

Of hooks that run at once, the first in the list decides, and not the first that ends.
"""

from collections.abc import Iterable

from oracle.hooks import Chain, has_tool_hooks, hooks_of
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.engine.hooks import AFTER_TOOL_CALL, BEFORE_LLM_CALL, BEFORE_TOOL_CALL
from simloop.escape import writable
from simloop.kernel.policies import HookOrder, OnHookFailure, ToolOrder, ToolStart
from simloop.messages import Outcome
from simloop.trace.entries import Answered, CallBegun, Ended, Hook, Prompt, Request, ToolResult


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
    if policy.order is ToolOrder.PARALLEL and policy.start is ToolStart.WHEN_CALLED:
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
            if on_failure == OnHookFailure.FAIL_RUN and entry.result in {"failed", "timed-out"}:
                refused.clear()  # the run ends, and calls that other hooks forbade end with it
            reason = _reason_of(entry, on_failure)
            if reason is None:
                continue
            calls: Iterable[str] = ()
            if entry.point == BEFORE_TOOL_CALL:
                calls = (begun,)
            elif entry.point == AFTER_TOOL_CALL and len(returned) == 1:
                calls = returned
            # Of hooks that run at once the first in the list decides, and a veto before a failure.
            answers = entry.result != "blocked" and on_failure == OnHookFailure.ERROR_RESULT
            told = (answers, places.get((entry.point, entry.hook), 0)), reason
            refused.update({call_id: min(told, refused.get(call_id, told)) for call_id in calls})
        else:
            returned.discard(entry.call_id)
            decided = refused.pop(entry.call_id, None)
            if decided is None or facts.stop is not None:
                continue
            _, reason = decided
            if not entry.is_error or reason not in entry.text:
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
    parallel = settings.hook_execution.order is HookOrder.PARALLEL and len(hooks) > 1
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
            if reason not in entry.message:
                return f"the user is told {entry.message!r:.80}, and the reason is {reason!r:.60}"
        reasons = {}


def _reason_of(hook: Hook, on_failure: str) -> str | None:
    """Return the words that the answer must have, if the hook decides about the answer."""
    if hook.result == "blocked":
        return hook.detail
    if hook.result == "ok":
        return None
    if on_failure == OnHookFailure.BLOCK_CALL and hook.point in _BEFORE:
        return writable(hook.detail)
    answers = on_failure == OnHookFailure.ERROR_RESULT and hook.point != BEFORE_LLM_CALL
    return "" if answers else None


_BEFORE = (BEFORE_LLM_CALL, BEFORE_TOOL_CALL)

"""Each invariant on hooks that run at once is violated by an engine that is broken in one line."""

from typing import Any

from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated
from incases import in_cases

from simloop import Scenario

FIRE = "engine.parallel_hooks:ParallelHooks.fire"
AT_ONCE = "engine.parallel_hooks:ParallelHooks._fire_at_once"
DECIDE = "engine.parallel_hooks:_decide"
CODE = "engine.user_code:UserCode"
PARALLEL = {"order": "parallel"}
READS = {"look": {"returns": "seen", "parameters": {"path": "string?"}}}
TWICE = {"call": [LOOK.call, LOOK.call]}


def hook(at: str, name: str, **does: Any) -> dict[str, Any]:
    return {"at": at, "name": name, "independent": True, **does}


def parallel(*replies: Any, hooks: list[dict[str, Any]], **settings: Any) -> Scenario:
    return scenario(*replies, hooks=hooks, hook_execution=PARALLEL, **settings)


def three(at: str) -> list[dict[str, Any]]:
    """Two hooks that run at once, where the second ends first, and one after them."""
    alone = {"at": at, "name": "alone", "takes": "1s"}
    return [hook(at, "slow", takes="2s"), hook(at, "fast", takes="1s"), alone]


VETOES = [
    hook("before_tool_call", "slow", takes="1s", block="too long"),
    hook("before_tool_call", "fast", block="not allowed"),
]
FAILURES = [
    hook("before_tool_call", "fails", raises="the first"),
    hook("before_tool_call", "forbids", block="the second"),
]
CHANGES = [
    hook("before_llm_call", "prompts", system_prompt="Mine."),
    hook("before_tool_call", "argues", arguments={"path": "b"}),
    hook("after_tool_call", "results", result="changed"),
]

CASES = [
    (
        "model-call-hooks-in-order",
        part(FIRE, "groupby(hooks", "groupby(hooks[::-1]"),
        parallel(DONE, hooks=three("before_llm_call")),
    ),
    (
        "model-call-hooks-in-order",
        part(AT_ONCE, "zip(hooks, inputs, strict=True)", "zip(hooks[1:], inputs)"),
        parallel(DONE, hooks=three("after_llm_call")[:2]),
    ),
    (
        "tool-call-hooks-in-order",
        part(FIRE, "groupby(hooks", "groupby(hooks[::-1]"),
        parallel(LOOK, DONE, hooks=three("after_tool_call")),
    ),
    (
        "tool-call-hooks-in-order",
        part(AT_ONCE, "_decide(given, inputs)", "pass"),
        parallel(LOOK, DONE, hooks=VETOES),
    ),
    (
        "hooks-run-for-each-call",
        part(AT_ONCE, "zip(hooks, inputs, strict=True)", "zip(hooks[:1], inputs)"),
        parallel(TWICE, DONE, hooks=three("after_tool_call"), tool_execution=PARALLEL),
    ),
    (
        "hooks-run-for-each-call",
        part(FIRE, "if _is_decided(given):", "if False:"),
        parallel(LOOK, DONE, hooks=[*VETOES, {"at": "before_tool_call", "name": "alone"}]),
    ),
    (
        "hooks-start-in-turn",
        part(AT_ONCE, "after_the_last=False", "after_the_last=True"),
        parallel(DONE, hooks=three("before_llm_call")),
    ),
    (
        "hooks-start-in-turn",
        part(AT_ONCE, "after_the_last=False", "after_the_last=True"),
        parallel(LOOK, DONE, hooks=three("before_tool_call")),
    ),
    (
        "hooks-start-in-turn",
        part(f"{CODE}.fire", "start_ns =", "await asyncio.sleep(1); start_ns ="),
        scenario(DONE, hooks=three("after_llm_call")),
    ),
    (
        "hook-refusals-answer-calls",
        part(DECIDE, "for own in inputs if isinstance(own, Blockable)", "for own in inputs[::-1]"),
        parallel(LOOK, DONE, hooks=VETOES),
    ),
    (
        "hook-refusals-answer-calls",
        part(DECIDE, "isinstance(given, Blockable)", "not any(own.failure for own in inputs)"),
        parallel(LOOK, DONE, hooks=FAILURES, hook_isolation={"on_failure": "error-result"}),
    ),
    (
        "first-veto-blocks-model-call",
        part(DECIDE, "for own in inputs if isinstance(own, Blockable)", "for own in inputs[::-1]"),
        parallel(hooks=[{**each, "at": "before_llm_call"} for each in VETOES]),
    ),
    (
        "first-veto-blocks-model-call",
        part(DECIDE, "for own in inputs if isinstance(own, Blockable)", "for own in inputs[::-1]"),
        parallel(
            hooks=[{**each, "at": "before_llm_call"} for each in FAILURES],
            hook_isolation={"on_failure": "block-call"},
        ),
    ),
    (
        "independent-hooks-change-nothing",
        part("engine.hooks:BeforeLLMCall.apart", "own.is_apart = True", "pass"),
        parallel(LOOK, DONE, hooks=CHANGES),
    ),
    (
        "independent-hooks-change-nothing",
        part("engine.hooks:AfterToolCall.apart", "own.is_apart = True", "pass"),
        parallel(LOOK, DONE, hooks=CHANGES),
    ),
    (
        "hook-changes-apply-to-one-request",
        part(AT_ONCE, "given.apart() for _ in hooks", "given for _ in hooks"),
        parallel(LOOK, DONE, hooks=CHANGES),
    ),
    (
        "hook-changes-to-arguments-apply",
        part(AT_ONCE, "given.apart() for _ in hooks", "given for _ in hooks"),
        parallel(LOOK, DONE, hooks=CHANGES, tools=READS),
    ),
    (
        "hook-changes-to-results-apply",
        part(AT_ONCE, "given.apart() for _ in hooks", "given for _ in hooks"),
        parallel(LOOK, DONE, hooks=CHANGES, tools=READS),
    ),
    (
        "hook-timeouts",
        part(f"{CODE}._wait", "self._isolation.timeout_ms", "1_000"),
        parallel(DONE, hooks=three("before_llm_call")),
    ),
]


@in_cases(CASES)
def test_a_broken_hook_among_others_is_found(name: str, broken: Part, played: Scenario) -> None:
    assert not violated(played)
    with faulty(broken):
        assert name in violated(played)

"""Each invariant on hooks that run at once is violated by the record of a wrong engine."""

from typing import Any

import msgspec
import pytest
from faultyruns import DONE, LOOK, Edit, changed, doubled, dropped, scenario, swapped, violated

from simloop import Scenario
from simloop.trace.entries import Answered, Ended, Hook, Request, ToolStarted

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


def hook_later(nth: int, seconds: int) -> Edit:
    """Have a hook end so much later, and take no longer."""

    def edit(record: list[Any]) -> list[Any]:
        places = [at for at, each in enumerate(record) if type(each) is Hook]
        hook = record[places[nth]]
        late_ns = hook.at_ns + seconds * 1_000_000_000
        record[places[nth]] = msgspec.structs.replace(hook, at_ns=late_ns)
        return [
            msgspec.structs.replace(each, at_ns=max(each.at_ns, late_ns))
            if at > places[nth]
            else each
            for at, each in enumerate(record)
        ]

    return edit


CASES = [
    ("model-call-hooks-in-order", swapped(Hook, 1, 2),
     parallel(DONE, hooks=three("before_llm_call"))),
    ("model-call-hooks-in-order", dropped(Hook), parallel(DONE, hooks=three("after_llm_call")[:2])),
    ("tool-call-hooks-in-order", swapped(Hook, 1, 2),
     parallel(LOOK, DONE, hooks=three("after_tool_call"))),
    ("hooks-run-for-each-call", dropped(Hook, -1),
     parallel(TWICE, DONE, hooks=three("after_tool_call"), tool_execution=PARALLEL)),
    ("hooks-run-for-each-call", doubled(Hook, -1),
     parallel(LOOK, DONE, hooks=[*VETOES, {"at": "before_tool_call", "name": "alone"}])),
    ("hooks-start-in-turn", hook_later(1, 1), parallel(DONE, hooks=three("before_llm_call"))),
    ("hooks-start-in-turn", hook_later(1, 1),
     parallel(LOOK, DONE, hooks=three("before_tool_call"))),
    ("hooks-start-in-turn", hook_later(2, 1), scenario(DONE, hooks=three("after_llm_call"))),
    ("hook-refusals-answer-calls", changed(Answered, text="Error: not allowed"),
     parallel(LOOK, DONE, hooks=VETOES)),
    ("hook-refusals-answer-calls", changed(Answered, text="Error: the first"),
     parallel(LOOK, DONE, hooks=FAILURES, hook_isolation={"on_failure": "error-result"})),
    ("first-veto-blocks-model-call", changed(Ended, message="not allowed"),
     parallel(hooks=[{**each, "at": "before_llm_call"} for each in VETOES])),
    ("first-veto-blocks-model-call", changed(Ended, message="the second"),
     parallel(hooks=[{**each, "at": "before_llm_call"} for each in FAILURES],
     hook_isolation={"on_failure": "block-call"})),
    ("independent-hooks-change-nothing", changed(Hook, changed=("system_prompt",)),
     parallel(LOOK, DONE, hooks=CHANGES)),
    ("independent-hooks-change-nothing", changed(Hook, 2, changed=("result",)),
     parallel(LOOK, DONE, hooks=CHANGES)),
    ("hook-changes-apply-to-one-request", changed(Request, system_prompt="Mine."),
     parallel(LOOK, DONE, hooks=CHANGES)),
    ("hook-changes-to-arguments-apply", changed(ToolStarted, arguments='{"path":"b"}'),
     parallel(LOOK, DONE, hooks=CHANGES, tools=READS)),
    ("hook-changes-to-results-apply", changed(Answered, text="changed"),
     parallel(LOOK, DONE, hooks=CHANGES, tools=READS)),
    ("hook-timeouts", changed(Hook, result="timed-out"),
     parallel(DONE, hooks=three("before_llm_call"))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played"), CASES)
def test_a_wrong_hook_among_others_is_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)

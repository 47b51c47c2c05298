"""Each invariant on hooks is violated by the record of a wrong engine."""

from typing import Any

import pytest
from faultyruns import DONE, LOOK, Edit, changed, dropped, scenario, swapped, violated

from simloop import Scenario
from simloop.trace.entries import Answered, Hook, Request, ToolResult, ToolStarted

BEFORE = [{"at": "before_llm_call", "name": "one"}, {"at": "before_llm_call", "name": "two"}]
TOOL = [{"at": "before_tool_call", "name": "one"}, {"at": "before_tool_call", "name": "two"}]
AFTER = [{"at": "after_tool_call", "name": "one"}, {"at": "after_tool_call", "name": "two"}]
READS = {"look": {"returns": "seen", "parameters": {"path": "string?"}}}
FAILS = [{"at": "before_tool_call", "arguments": {"path": "b"}, "hangs": True, "waits": "after"}]
PROMPTS = [{"at": "before_llm_call", "system_prompt": "Mine.", "hangs": True, "waits": "after"}]
TWICE = {"call": [LOOK.call, LOOK.call]}
VETO = [{"at": "before_tool_call", "block": "no"}]
LATE = [{"at": "after_tool_call", "result": "late", "hangs": True, "waits": "after"}]
ADDS = [{"at": "before_llm_call", "add_tools": {"write": {"returns": "written"}}}]
RAISES = [{"at": "after_tool_call", "raises": "broken"}]
AT_ONCE = {"order": "parallel"}
SECOND = 1_000_000_000


def with_a_forbidden_tool(record: list[Any]) -> list[Any]:
    """Start the tool of the first call, which a hook has forbidden."""
    at = next(at for at, each in enumerate(record) if type(each) is Hook)
    hook = record[at]
    return [
        *record[: at + 1],
        ToolStarted(0, hook.at_ns, "call-1", "look", "{}"),
        *record[at + 1 :],
    ]


CASES = [
    ("model-call-hooks-in-order", swapped(Hook, 0, 1), scenario(DONE, hooks=BEFORE)),
    ("model-call-hooks-in-order", dropped(Hook), scenario(DONE, hooks=[{"at": "after_llm_call"}])),
    ("tool-call-hooks-in-order", swapped(Hook, 0, 1), scenario(LOOK, DONE, hooks=TOOL)),
    ("tool-call-hooks-in-order", dropped(Hook), scenario(LOOK, DONE, hooks=AFTER)),
    ("tool-call-hooks-in-order", with_a_forbidden_tool, scenario(LOOK, DONE, hooks=VETO)),
    ("hooks-run-for-each-call", dropped(Hook, -1),
     scenario(TWICE, DONE, hooks=AFTER, tool_execution=AT_ONCE)),
    ("hook-timeouts", changed(Hook, took_ns=10 * SECOND),
     scenario(DONE, hooks=[{"at": "before_llm_call", "takes": "7s"}])),
    ("hook-timeouts", changed(Hook, took_ns=SECOND),
     scenario(DONE, hooks=[{"at": "before_llm_call", "hangs": True}])),
    ("hook-timeouts", changed(Hook, took_ns=7 * SECOND),
     scenario(DONE, hooks=[{"at": "before_llm_call", "takes": "3s"}])),
    ("hook-changes-apply-to-one-request", changed(Request, system_prompt="Mine."),
     scenario(DONE, hooks=PROMPTS)),
    ("hook-changes-to-arguments-apply", changed(ToolStarted, arguments='{"path":"b"}'),
     scenario(LOOK, DONE, hooks=FAILS, tools=READS)),
    ("hook-changes-to-arguments-apply", changed(ToolStarted, arguments='{"path":"b"}'),
     scenario(TWICE, DONE, hooks=FAILS, tools=READS, tool_execution=AT_ONCE)),
    ("hook-changes-to-results-apply", changed(Answered, text="other"), scenario(LOOK, DONE)),
    ("hook-changes-to-results-apply", changed(Answered, text="late"),
     scenario(LOOK, DONE, hooks=LATE, tool_execution=AT_ONCE)),
    ("hook-refusals-answer-calls", changed(Answered, text="Error: forbidden"),
     scenario(LOOK, DONE, hooks=VETO)),
    ("hook-refusals-answer-calls", changed(Answered, text="seen", is_error=False),
     scenario(LOOK, DONE, hooks=RAISES, hook_isolation={"on_failure": "error-result"})),
    ("scripted-results", changed(ToolResult, is_error=False),
     scenario(LOOK, DONE, hooks=ADDS, tools={"look": {"raises": "no"}})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played"), CASES)
def test_a_wrong_hook_is_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)

"""Each invariant on hooks is violated by an engine that is broken in one line."""

from faultyparts import DONE, LOOK, Part, faulty, part, scenario, violated
from incases import in_cases

from simloop import Scenario

HANDLERS = "engine.handlers:EffectHandlers"
CALLS = "engine.tool_calls:ToolCalls"
CODE = "engine.user_code:UserCode"
BEFORE = [{"at": "before_llm_call", "name": "one"}, {"at": "before_llm_call", "name": "two"}]
TOOL = [{"at": "before_tool_call", "name": "one"}, {"at": "before_tool_call", "name": "two"}]
AFTER = [{"at": "after_tool_call", "name": "one"}, {"at": "after_tool_call", "name": "two"}]
READS = {"look": {"returns": "seen", "parameters": {"path": "string?"}}}
FAILS = [{"at": "before_tool_call", "arguments": {"path": "b"}, "hangs": True, "waits": "after"}]
TWICE = {"call": [LOOK.call, LOOK.call]}
VETO = [{"at": "before_tool_call", "block": "no"}]
LATE = [{"at": "after_tool_call", "result": "late", "hangs": True, "waits": "after"}]
ADDS = [{"at": "before_llm_call", "add_tools": {"write": {"returns": "written"}}}]
RAISES = [{"at": "after_tool_call", "raises": "broken"}]
AT_ONCE = {"order": "parallel"}

CASES = [
    (
        "model-call-hooks-in-order",
        part(f"{CODE}.fire", "for hook in hooks:", "for hook in hooks[::-1]:"),
        scenario(DONE, hooks=BEFORE),
    ),
    (
        "model-call-hooks-in-order",
        part(f"{HANDLERS}._report_step", "if hooks.after_llm_call:", "if False:"),
        scenario(DONE, hooks=[{"at": "after_llm_call"}]),
    ),
    (
        "tool-call-hooks-in-order",
        part(f"{CODE}.fire", "for hook in hooks:", "for hook in hooks[::-1]:"),
        scenario(LOOK, DONE, hooks=TOOL),
    ),
    (
        "tool-call-hooks-in-order",
        part(f"{CODE}.fire", "for hook in hooks:", "for hook in hooks[1:]:"),
        scenario(LOOK, DONE, hooks=AFTER),
    ),
    (
        "hooks-run-for-each-call",
        part(f"{CODE}.fire", "for hook in hooks:", "for hook in hooks[:1]:"),
        scenario(TWICE, DONE, hooks=AFTER, tool_execution={"order": "parallel"}),
    ),
    (
        "hook-timeouts",
        part(f"{CODE}._wait", "self._isolation.timeout_ms", "2 * self._isolation.timeout_ms"),
        scenario(DONE, hooks=[{"at": "before_llm_call", "takes": "7s"}]),
    ),
    (
        "hook-timeouts",
        part(f"{CODE}._wait", "self._isolation.timeout_ms", "1_000"),
        scenario(DONE, hooks=[{"at": "before_llm_call", "takes": "3s"}]),
    ),
    (
        "hook-timeouts",
        part(f"{CODE}._wait", "self._isolation.timeout_ms", "2 * self._isolation.timeout_ms"),
        scenario(DONE, hooks=[{"at": "before_llm_call", "hangs": True}]),
    ),
    (
        "hook-changes-apply-to-one-request",
        part("engine.hooks:BeforeLLMCall.restore", "self.system_prompt, self.tools", "_, _"),
        scenario(
            DONE,
            hooks=[
                {
                    "at": "before_llm_call",
                    "system_prompt": "Mine.",
                    "hangs": True,
                    "waits": "after",
                }
            ],
        ),
    ),
    (
        "hook-changes-to-arguments-apply",
        part(f"{CODE}.fire", "given.restore()", "pass"),
        scenario(LOOK, DONE, hooks=FAILS, tools=READS),
    ),
    (
        "hook-changes-to-results-apply",
        part(
            f"{CALLS}._put",
            "call = self._calls[index]",
            "call, result = self._calls[index], result.__class__('other')",
        ),
        scenario(LOOK, DONE),
    ),
    (
        "tool-call-hooks-in-order",
        part(
            f"{CALLS}._is_answered_by_hook",
            "elif given.blocked is not None:",
            "elif given.blocked is not None and self.blocked is None:",
        ),
        scenario(TWICE, DONE, hooks=VETO, tool_execution=AT_ONCE),
    ),
    (
        "hook-changes-to-arguments-apply",
        part(f"{CODE}.fire", "given.restore()", "pass"),
        scenario(TWICE, DONE, hooks=FAILS, tools=READS, tool_execution=AT_ONCE),
    ),
    (
        "hook-changes-to-results-apply",
        part("engine.hooks:AfterToolCall.restore", "self.result = self._kept", "pass"),
        scenario(LOOK, DONE, hooks=LATE, tool_execution=AT_ONCE),
    ),
    (
        "hook-refusals-answer-calls",
        part(f"{CALLS}._is_answered_by_hook", "Error: {given.blocked}", "Error: forbidden"),
        scenario(LOOK, DONE, hooks=VETO),
    ),
    (
        "hook-refusals-answer-calls",
        part(f"{CODE}._apply_isolation", "isinstance(given, _AtToolCall)", "False"),
        scenario(LOOK, DONE, hooks=RAISES, hook_isolation={"on_failure": "error-result"}),
    ),
    (
        "scripted-results",
        part("world.tools_port:ToolsPort._failure", "return failed(", "return ToolResult("),
        scenario(LOOK, DONE, hooks=ADDS, tools={"look": {"raises": "no"}}),
    ),
]


@in_cases(CASES)
def test_a_broken_hook_is_found(name: str, broken: Part, played: Scenario) -> None:
    assert not violated(played)
    with faulty(broken):
        assert name in violated(played)

"""A command hook is a process, which the scenario plays or the machine runs."""

import sys
from typing import Any

import msgspec
import pytest
from incases import in_cases

from simloop import Reply, Result, Scenario, run
from simloop.errors import ScenarioError
from simloop.trace import entries

CALL = {"shell": {"command": "rm -r logs"}}
DENIES = '{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecisionReason":"No."}}'
CHANGES = '{"hookSpecificOutput":{"updatedInput":{"command":"ls logs"}}}'


def scenario(*hooks: dict[str, Any], **more: Any) -> Scenario:
    tools = {"shell": {"parameters": {"command": "string"}, "returns": "done"}}
    given = {"model": [Reply(call=CALL), Reply(say="Well.")], "tools": tools, **more}
    return Scenario(prompt="Delete the logs.", hooks=[*hooks], **given)


def played(point: str, **program: Any) -> Result:
    return run(scenario({"at": point, "command": "guard -s"}, programs={"guard": program}))


def kinds_of(result: Result, kind: type[Any]) -> list[Any]:
    return [entry for entry in result.trace.entries if isinstance(entry, kind)]


def results(result: Result) -> list[str]:
    return [entry.text for entry in kinds_of(result, entries.Answered)]


@in_cases([
    ({"exit": 2, "stderr": "Not now.\n"}, "Error: Not now."),
    ({"exit": 2}, "Error: forbidden by `guard -s`"),
    ({"stdout": DENIES}, "Error: No."),
    ({"stdout": '{"decision":"block","reason":"Later."}'}, "Error: Later."),
    ({"stdout": '{"decision":"approve"}'}, "done"),
    ({"stdout": "fine"}, "done"),
    ({"exit": 1, "stderr": "broken"}, "done"),
])  # fmt: skip
def test_the_exit_and_the_answer_of_a_command_decide_on_a_call(
    program: dict[str, Any], told: str
) -> None:
    assert results(played("before_tool_call", **program)) == [told]


def test_a_command_changes_the_arguments_and_the_result_of_a_tool() -> None:
    changed = played("before_tool_call", stdout=CHANGES)
    (started,) = kinds_of(changed, entries.ToolStarted)
    assert started.arguments == '{"command":"ls logs"}'
    assert results(played("after_tool_call", exit=2, stderr="Mind it.")) == ["done\nMind it."]


@in_cases([
    ("before_llm_call", {"hook_event_name": "UserPromptSubmit", "prompt": "Delete the logs."}),
    ("after_llm_call", {"hook_event_name": "Stop", "last_assistant_message": "Well."}),
    ("before_tool_call", {"hook_event_name": "PreToolUse", "tool_input": CALL["shell"]}),
    ("after_tool_call", {"hook_event_name": "PostToolUse", "tool_response": "done"}),
])  # fmt: skip
def test_a_command_reads_what_the_program_of_its_point_sends(
    point: str, told: dict[str, Any]
) -> None:
    reads = played(point, stdin={"contains": "hook_event_name"})
    given = msgspec.json.decode(kinds_of(reads, entries.ProgramInput)[-1].text)
    assert given.items() >= told.items()


def test_a_command_that_takes_too_long_is_broken_off_and_its_process_ended() -> None:
    slow = scenario(
        {"at": "before_tool_call", "command": "guard"},
        programs={"guard": {"takes": "9s"}}, hook_isolation={"timeout": "2s"},
    )  # fmt: skip
    result = run(slow)
    assert results(result) == ["done"]
    assert result.elapsed_s == 2
    (ended,) = kinds_of(result, entries.ProgramEnded)
    assert ended.at_ns == 2 * 10**9
    assert run(slow).trace.entries == result.trace.entries


def test_a_command_that_is_not_there_fails_and_the_call_goes_on() -> None:
    result = run(scenario({"at": "before_tool_call", "command": "guard"}))
    assert results(result) == ["done"]
    (hook,) = kinds_of(result, entries.Hook)
    assert "`guard` ends with exit status 127" in hook.detail


def test_real_hooks_run_on_this_machine_and_take_their_time() -> None:
    code = "import sys, json; sys.exit(json.load(sys.stdin)['tool_input']['command'])"
    hook = {"at": "before_tool_call", "command": f'{sys.executable} -c "{code}"'}
    real = run(scenario(hook, programs={"python": {"exit": 2}}), real_hooks=True)
    assert results(real) == ["done"]
    (entry,) = kinds_of(real, entries.Hook)
    assert "exit status 1: rm -r logs" in entry.detail
    assert real.elapsed_ns > 0
    assert real.trace.header.python == ("real_hooks",)
    assert real.reproduce == "simloop.run(scenario, seed=0, real_hooks=True)"


def test_the_command_of_a_hook_decides_alone() -> None:
    with pytest.raises(ScenarioError, match=r"the command decides by itself: leave `block` out"):
        scenario({"at": "before_tool_call", "command": "guard", "block": "No."})
    with pytest.raises(ScenarioError, match=r"the command decides by itself: leave `takes` out"):
        scenario({"at": "after_llm_call", "command": "guard", "takes": "1s"})

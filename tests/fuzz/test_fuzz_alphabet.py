from searching import RecordedChoices

from simloop.fuzz.alphabet import hook_for, policy_for, tool_for
from simloop.fuzz.choices import SeededChoices
from simloop.kernel.policies import HookExecution
from simloop.scenario.schema import ScriptedHook, ScriptedTool


def _tools(*on: str, number: int = 2_000) -> list[ScriptedTool]:
    choices = SeededChoices(1)
    return [tool_for(choices, "read", on) for _ in range(number)]


def test_the_benign_tool_returns_a_text_at_once() -> None:
    tool = tool_for(RecordedChoices([]), "read", ("tools", "slow tools"))
    assert tool == tool_for(SeededChoices(1), "read", ())
    assert (tool.returns, tool.takes, tool.timeout) == ("what read found", 0, None)


def test_any_two_properties_meet_in_one_tool() -> None:
    tools = _tools("tools", "slow tools")
    assert any(tool.raises and tool.takes and tool.outlives_cancel for tool in tools)
    assert any(tool.terminate and tool.sequential and tool.returns is None for tool in tools)
    assert any(tool.takes and tool.details for tool in tools)


def test_a_tool_that_cancels_itself_may_wait_before() -> None:
    assert {bool(tool.takes) for tool in _tools("tools") if tool.cancels} == {False, True}


def test_a_tool_that_hangs_has_a_timeout() -> None:
    assert all(tool.timeout is not None for tool in _tools("tools") if tool.hangs)


def test_a_tool_without_features_is_quick() -> None:
    assert all(tool.takes == 0 and not tool.raises for tool in _tools(number=50))


def _hooks() -> list[ScriptedHook]:
    choices = SeededChoices(1)
    return [hook_for(choices) for _ in range(3_000)]


def test_the_benign_hook_changes_nothing() -> None:
    assert hook_for(RecordedChoices([])) == ScriptedHook(at="before_llm_call")


def test_one_hook_makes_several_changes_and_then_fails() -> None:
    hooks = _hooks()
    assert any(h.system_prompt and h.hide_tools and h.add_tools for h in hooks)
    assert any(h.arguments and h.hangs and h.waits == "after" for h in hooks)
    assert any(h.result == "" and h.takes and h.waits == "after" for h in hooks)


def test_hooks_that_fail_after_a_change_are_no_rarity() -> None:
    hooks = [h for h in _hooks() if h.hangs and h.waits == "after"]
    assert sum(bool(h.system_prompt) for h in hooks) > 40  # of 3,000
    assert sum(bool(h.arguments) for h in hooks) > 40


def test_a_hook_raises_at_once_or_after_a_wait() -> None:
    assert {h.takes > 0 for h in _hooks() if h.raises} == {True, False}


def test_some_hooks_act_at_each_call_and_some_at_one_of_them() -> None:
    vetoes = [h for h in _hooks() if h.at == "before_tool_call" and h.block]
    assert {h.nth for h in vetoes} == {None, 1, 2, 3}
    assert {h.tool is None for h in vetoes} == {True, False}


def test_hooks_of_each_point_run_at_once_in_some_worlds() -> None:
    hooks = _hooks()
    assert {h.at for h in hooks if h.independent and h.takes} == {h.at for h in hooks}
    assert any(h.independent and h.block for h in hooks)
    assert any(h.independent and h.arguments for h in hooks)
    choices = SeededChoices(1)
    orders = {policy_for(choices, "hook execution").order for _ in range(20)}
    assert orders == {"sequential", "parallel"}


def test_the_benign_policy_runs_hooks_one_after_the_other() -> None:
    assert policy_for(RecordedChoices([]), "hook execution") == HookExecution()

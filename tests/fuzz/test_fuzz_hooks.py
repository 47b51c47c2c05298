from simloop.fuzz.choices import RecordedChoices, SeededChoices
from simloop.fuzz.hooks import hook_execution_for, hook_for
from simloop.kernel.policies import HookExecution
from simloop.scenario.schema import ScriptedHook


def _drawn() -> list[ScriptedHook]:
    choices = SeededChoices(1)
    return [hook_for(choices) for _ in range(3_000)]


def test_the_benign_hook_changes_nothing() -> None:
    assert hook_for(RecordedChoices([])) == ScriptedHook(at="before_llm_call")


def test_one_hook_makes_several_changes_and_then_fails() -> None:
    hooks = _drawn()
    assert any(h.system_prompt and h.hide_tools and h.add_tools for h in hooks)
    assert any(h.arguments and h.hangs and h.waits == "after" for h in hooks)
    assert any(h.result == "" and h.takes and h.waits == "after" for h in hooks)


def test_hooks_that_fail_after_a_change_are_no_rarity() -> None:
    hooks = [h for h in _drawn() if h.hangs and h.waits == "after"]
    assert sum(bool(h.system_prompt) for h in hooks) > 40  # of 3,000
    assert sum(bool(h.arguments) for h in hooks) > 40


def test_a_hook_raises_at_once_or_after_a_wait() -> None:
    assert {h.takes > 0 for h in _drawn() if h.raises} == {True, False}


def test_some_hooks_act_at_each_call_and_some_at_one_of_them() -> None:
    vetoes = [h for h in _drawn() if h.at == "before_tool_call" and h.block]
    assert {h.nth for h in vetoes} == {None, 1, 2, 3}
    assert {h.tool is None for h in vetoes} == {True, False}


def test_hooks_of_each_point_run_at_once_in_some_worlds() -> None:
    hooks = _drawn()
    assert {h.at for h in hooks if h.independent and h.takes} == {h.at for h in hooks}
    assert any(h.independent and h.block for h in hooks)
    assert any(h.independent and h.arguments for h in hooks)
    choices = SeededChoices(1)
    orders = {hook_execution_for(choices).order for _ in range(20)}
    assert orders == {"sequential", "parallel"}


def test_the_benign_policy_runs_hooks_one_after_the_other() -> None:
    assert hook_execution_for(RecordedChoices([])) == HookExecution()

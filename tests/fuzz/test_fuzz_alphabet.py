import itertools

from incases import in_cases
from searching import RecordedChoices

from simloop import Request, UserMessage
from simloop.fuzz.alphabet import (
    CONTENT_NAMES,
    CONTENTS,
    END_NAMES,
    ENDS,
    IDS,
    LAST,
    LAST_SUMMARY,
    PACES,
    STEPS,
    SUMMARIES,
    USAGES,
    Abilities,
    Recipe,
    hook_for,
    policy_for,
    reply_of,
    settings_of,
    summary_of,
    tool_for,
)
from simloop.fuzz.choices import SeededChoices
from simloop.kernel.policies import HookExecution
from simloop.scenario.replies import Reply
from simloop.scenario.schema import ScriptedHook, ScriptedTool
from simloop.world.faults import BODIES, WAITS


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


def test_two_hooks_forbid_one_thing_at_once_for_two_reasons() -> None:
    drawn = [settings_of(SeededChoices(n), Abilities(), "reference").hooks for n in range(600)]
    pairs = {tuple((each.at, each.block) for each in hooks[-2:]) for hooks in drawn}
    for point in ("before_llm_call", "before_tool_call"):
        assert ((point, "this"), (point, "that")) in pairs


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
    orders = {policy_for(choices, "hook_execution").order for _ in range(20)}
    assert orders == {"sequential", "parallel"}


def test_the_benign_policy_runs_hooks_one_after_the_other() -> None:
    assert policy_for(RecordedChoices([]), "hook_execution") == HookExecution()


HTTP = END_NAMES.index("http 429")


def test_the_benign_recipe_is_a_short_text_that_ends_well() -> None:
    assert reply_of(Recipe()) == Reply(say="Answer 0.")


@in_cases(range(len(ENDS)), END_NAMES.__getitem__)
def test_every_content_makes_a_reply_with_every_end(end: int) -> None:
    for content in range(len(CONTENTS)):
        reply = reply_of(Recipe(content, end, wait=1, body=1, pace=1, usage=2, steps=2))
        assert Reply.model_validate_json(reply.model_dump_json(exclude_defaults=True)) == reply
        parts = reply.play(1)
        assert parts or (CONTENT_NAMES[content], END_NAMES[end]) == ("nothing", "unfinished")


def test_every_failed_call_makes_a_reply_with_every_wait_and_body() -> None:
    for wait, body in itertools.product(range(len(WAITS)), range(len(BODIES))):
        assert reply_of(Recipe(end=HTTP, wait=wait, body=body)).http is not None


def test_every_pace_usage_and_number_of_steps_makes_a_reply() -> None:
    kinds = itertools.product(range(len(PACES)), range(len(USAGES)), range(len(STEPS)))
    replies = [reply_of(Recipe(pace=p, usage=u, steps=s)) for p, u, s in kinds]
    assert {reply.steps for reply in replies} == set(STEPS)


def test_every_content_with_calls_takes_every_kind_of_ids() -> None:
    for content, ids in itertools.product(range(len(CONTENTS)), range(1, len(IDS))):
        reply = reply_of(Recipe(content, ids=ids))
        assert bool(reply.ids) == bool(reply.call)
        assert Reply.model_validate_json(reply.model_dump_json(exclude_defaults=True)) == reply


def test_every_kind_of_summary_makes_a_reply() -> None:
    assert all(summary_of(kind, 1).play(1) for kind in range(len(SUMMARIES)))


def test_equal_recipes_share_a_reply() -> None:
    assert reply_of(Recipe(1, 2)) is reply_of(Recipe(1, 2))


def test_replies_of_different_numbers_differ() -> None:
    """But for those that stand for one thing that a provider sends."""
    fixed = {
        *("nothing", "blank", "repeated call", "half call"),
        *(f"{kind} arguments" for kind in ("malformed", "empty", "null", "list")),
    }
    equal = {
        name
        for place, name in enumerate(CONTENTS)
        if reply_of(Recipe(place, number=1)) == reply_of(Recipe(place, number=2))
    }
    assert equal == fixed


def test_the_last_replies_answer_every_request() -> None:
    request = Request(1, "main", "", [UserMessage("Go.")], ())
    for last in (LAST, LAST_SUMMARY):
        entry = last.entry("model.0")
        assert entry.times is None
        assert entry.matches is None or entry.matches(request)

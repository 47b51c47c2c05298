from collections.abc import Callable

from simloop import Reply, Scenario, Trigger, run
from simloop.check.trial import UNJUDGED, trial
from simloop.fuzz.alphabet import Abilities
from simloop.fuzz.goals import GOALS, Goal, Goals
from simloop.kernel.machine import Feature
from simloop.runs.plan import Plan
from simloop.trace.entries import AnyEntry, Finish, Hook, Request


def of(kind: type) -> Callable[[AnyEntry], bool]:
    return lambda entry: type(entry) is kind


TWO_REQUESTS = Goal("two-requests", (of(Request),) * 2, (Request,))
A_HOOK = Goal("a-hook", (of(Hook),), (Hook,))
A_REPLY = Goal("a-reply", (of(Finish),), (Finish,), (Feature.QUEUE,))
OWN = (TWO_REQUESTS, A_HOOK, A_REPLY)
AGAIN = [Reply(call={"look": {}}), Reply(say="Done.")]


def counted(*goals: str) -> Goals:
    found = Goals([each for each in GOALS if each.name in goals], Abilities())
    assert len(found.counts) == len(goals), "each is a goal"
    return found


def test_a_goal_is_counted_once_for_each_run_that_reaches_it() -> None:
    goals = Goals(OWN, Abilities())
    for replies in (AGAIN, AGAIN, AGAIN[1:]):
        scenario = Scenario(prompt="Go.", model=replies, tools={"look": {"returns": "x"}})
        goals.add(run(scenario).trace.entries)
    assert goals.counts == {"two-requests": 2, "a-hook": 0, "a-reply": 3}
    assert goals.looked_at == 3


def test_a_goal_that_a_loop_cannot_reach_is_left_out() -> None:
    assert list(Goals(OWN, Abilities(has_engine=False)).counts) == ["two-requests", "a-reply"]
    assert list(Goals(OWN, Abilities({Feature.QUEUE})).counts) == ["two-requests", "a-hook"]


def test_there_are_more_than_forty_goals_with_names_of_their_own() -> None:
    assert len({each.name for each in GOALS}) == len(GOALS) > 40


def test_an_abort_in_a_backoff_after_a_forced_compaction_is_reached_by_that_alone() -> None:
    name = "abort-in-a-backoff-after-forced-compaction"
    goals = counted(name, "abort-in-a-backoff", "overflow-then-compaction")
    overflow = Reply(http={"status": 413, "message": "prompt is too long"})
    scenario = Scenario(
        prompt="Go.",
        history=[{"user": "Before."}, {"assistant": "words " * 200}, {"user": "x"},
                 {"assistant": "y"}],
        model=[overflow, Reply(http={"status": 500}), Reply(say="Done.", times="always")],
        summaries=[Reply(say="Short.")],
        abort=Trigger(after="backoff"),
        expect={"outcome": "aborted"},
    )  # fmt: skip
    without = scenario.model_copy(update={"model": scenario.model[1:]})
    goals.add(played(without))
    assert goals.counts == {name: 0, "abort-in-a-backoff": 1, "overflow-then-compaction": 0}
    goals.add(played(scenario))
    assert goals.counts == {name: 1, "abort-in-a-backoff": 2, "overflow-then-compaction": 1}


def played(scenario: Scenario) -> list[AnyEntry]:
    plan = Plan(scenario, {})
    return list(trial(plan, UNJUDGED).entries)


def test_a_parallel_batch_with_one_timeout_is_reached() -> None:
    goals = counted("parallel-batch-with-one-timeout", "tool-timeout")
    scenario = Scenario(
        prompt="Go.",
        tools={"slow": {"hangs": True, "timeout": "1s"}, "fast": {"takes": "10ms"}},
        tool_execution={"order": "parallel"},
        model=[Reply(call={"slow": {}, "fast": {}}), Reply(say="Done.")],
    )
    goals.add(played(scenario))
    assert set(goals.counts.values()) == {1}
    alone = scenario.model_copy(update={"model": [Reply(call={"slow": {}}), Reply(say="Done.")]})
    goals.add(played(alone))
    assert goals.counts == {"parallel-batch-with-one-timeout": 1, "tool-timeout": 2}

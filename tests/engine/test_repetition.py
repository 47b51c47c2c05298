"""A run in which nothing new is said ends soon; one that makes progress goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from simloop import Http, Limits, Outcome, Reply, RunawayRun, Scenario, ScriptedTool, run
from simloop.engine import repetition
from simloop.engine.settings import MAX_TRANSITIONS

TOOLS = {"look": ScriptedTool(returns="Nothing.")}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simloop.engine.machine_agent.MARK", 250)
    monkeypatch.setattr(repetition, "MARK", 250)
    monkeypatch.setattr(repetition, "STRIDE", 1_000)


def play(loop: str, model: Callable[[Any], Any], **more: Any) -> Any:
    return run(Scenario(prompt="Go.", loop=loop, tools=TOOLS, **more), model=model)


@pytest.mark.parametrize("loop", ["pi", "opencode@1.1.11", "opencode@1.18.33"])
def test_a_run_that_says_nothing_new_is_ended_and_tells_its_round(loop: str) -> None:
    with pytest.raises(RunawayRun, match=r"no progress: after 1000 .* it repeats .*model-replied"):
        play(loop, lambda _: Reply(call={"look": {}}))


def test_a_run_that_fails_in_the_same_way_for_ever_is_ended() -> None:
    with pytest.raises(RunawayRun, match=r"it repeats .*backoff-elapsed"):
        play("opencode@1.1.11", lambda _: Reply(http=Http(status=429, retry_after="1s")))


def test_a_run_that_goes_on_to_something_new_is_not_ended() -> None:
    asked = 0

    def model(_: Any) -> Reply:
        nonlocal asked
        asked += 1
        return Reply(say="Done.") if asked > 600 else Reply(say=f"{asked}", call={"look": {}})

    assert play("pi", model).text == "Done."


@pytest.mark.parametrize("loop", ["pi", "opencode@1.18.33"])
def test_a_script_that_is_used_up_is_progress(loop: str) -> None:
    replies = [Reply(call={"look": {}}, times=600), Reply(say="Done.")]
    summaries = [Reply(say="Short.", times="always")] if loop == "pi" else []
    scenario = Scenario(prompt="Go.", loop=loop, tools=TOOLS, model=replies, summaries=summaries)
    assert run(scenario).text == "Done."


def test_a_run_that_uses_up_its_budget_is_not_ended_before() -> None:
    """Its rounds are equal, but its limit on steps ends it."""
    steps = 700
    limits = Limits(max_steps=steps)
    played = play("reference", lambda _: Reply(say="Again.", call={"look": {}}), limits=limits)
    assert (played.outcome, played.counters.total_steps) == (Outcome.MAX_STEPS, steps)


def test_a_bound_below_the_default_is_taken_as_it_is() -> None:
    bound = MAX_TRANSITIONS // 400
    with pytest.raises(RunawayRun, match=f"passed max_transitions={bound}"):
        play("pi", lambda _: Reply(call={"look": {}}), max_transitions=bound)

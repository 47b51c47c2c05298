from typing import Any

import pytest

from simloop import Limits, Reply, Scenario, ScenarioError, UserMessage, World
from simloop.check.invariants.limits import bounded_model_calls
from simloop.check.trial import FINISHES, MOST_REQUESTS, Failure, Rules, Until, failure_of, trial
from simloop.errors import InvariantViolated
from simloop.loops.reference import ReferenceLoop
from simloop.runs.plan import Plan
from simloop.trace.entries import Ended, Request
from simloop.trace.novelty import REPETITIONS

FINE = Scenario(prompt="Go.", model=[Reply(call={"look": {}}), Reply(say="Done.")],
                tools={"look": {"returns": "seen"}})  # fmt: skip


class Deaf(ReferenceLoop):
    """A loop that takes no failure for the end."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.limits = Limits(max_error_count=limits.max_error_count + 1_000)


async def asks_for_ever(prompt: str, world: World) -> str:
    while True:
        await world.model.reply([UserMessage(prompt)])


def failure_in(scenario: Scenario, given: Any) -> Failure | None:
    return failure_of(Plan(scenario, given), Rules(expectations=False))


def test_a_run_that_keeps_all_rules_has_no_breach() -> None:
    assert failure_in(FINE, {}) is None


def test_a_run_is_ended_at_the_first_violation() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(http={"status": 500}, times="always")],
                        limits=Limits(max_steps=1, max_compaction_attempts=0))  # fmt: skip
    plan = Plan(scenario, {"loop": Deaf})
    verdict = trial(plan, Rules([bounded_model_calls]), Until.VIOLATION)
    failure = verdict.failure()
    assert failure is not None
    assert failure.name == "bounded-model-calls"
    assert failure.sentence.startswith("A run makes no more model calls")
    assert verdict.run is not None
    assert isinstance(verdict.run.error, InvariantViolated)
    kinds = [type(entry) for entry in verdict.entries]
    assert kinds.count(Request) == 5
    assert Ended not in kinds


def test_a_run_that_does_not_end_breaks_the_rule_that_it_finishes() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(say="No.", times="always")], max_transitions=50)
    found = failure_in(scenario, {"loop": asks_for_ever})
    assert found is not None
    assert found.name == FINISHES
    assert "max_transitions=50" in found.text


def test_the_bound_of_a_world_that_a_search_has_made_allows_an_agent_no_repetition() -> None:
    always = [Reply(say="No.", times="always")]
    scenario = Scenario(prompt="Go.", model=always, max_transitions=MOST_REQUESTS)
    found = failure_in(scenario, {"loop": asks_for_ever})
    assert found is not None
    assert found.name == FINISHES
    assert f"no progress: {REPETITIONS} requests in a row brought nothing new" in found.text
    assert "in asks_for_ever" in found.text


@pytest.mark.parametrize("ends", [{"hangs": True}, {"takes": "1s"}])
def test_a_run_that_waits_for_ever_is_a_deadlock(ends: dict[str, Any]) -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(call={"look": {}}), Reply(say="Done.")],
                        tools={"look": ends})  # fmt: skip
    found = failure_in(scenario, {})
    assert (None if found is None else found.name) == ("Deadlock" if "hangs" in ends else None)


def test_an_error_of_the_scenario_is_no_breach() -> None:
    with pytest.raises(ScenarioError, match="there is no tool"):
        failure_in(Scenario(prompt="Go.", hooks=[{"at": "before_tool_call", "tool": "x"}]), {})


async def sends_a_text(prompt: str, world: World) -> str:
    return (await world.model.reply([prompt])).message.text  # type: ignore[list-item]


def test_a_request_that_is_none_is_a_breach_of_the_loop() -> None:
    found = failure_in(Scenario(prompt="Go.", model=[Reply(say="Done.")]), {"loop": sends_a_text})
    assert found is not None
    assert found.name == "ScenarioError"
    assert "str is no message" in found.text

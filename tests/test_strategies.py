import sys
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from offering import AnswersFirst, Asks, of_world

import simloop
from simloop import Reply, Scenario, ToolMessage, UserMessage, run
from simloop import strategies as sim
from simloop.errors import Deadlock, InvariantViolated, RunawayRun, SimloopError
from simloop.runs.plan import Plan
from simloop.scenario.conversation import calls_of
from simloop.scenario.expect import Expect
from simloop.scenario.loader import parse_scenario
from simloop.scenario.writing import scenario_text
from simloop.trace.entries import ToolCall
from simloop.world.model_port import ModelCallFailed
from simloop.world.world import World

PARTS = (
    simloop.Reply,
    simloop.ScriptedTool,
    simloop.ScriptedHook,
    simloop.Limits,
    simloop.ExponentialBackoff,
    simloop.Compaction,
    simloop.ToolExecution,
    simloop.HookExecution,
    simloop.HookIsolation,
    simloop.Trigger,
    simloop.Queued,
)


@pytest.mark.parametrize("kind", PARTS)
def test_a_type_has_its_strategy(kind: type) -> None:
    @given(st.from_type(kind))
    def drawn(value: Any) -> None:
        assert isinstance(value, kind)

    drawn()


@given(sim.scenarios())
def test_a_scenario_is_what_its_file_says(scenario: Scenario) -> None:
    read = parse_scenario(scenario_text(scenario))
    assert read.model_dump() == scenario.model_dump()


OTHERS = (pytest.param(loop, marks=pytest.mark.slow) for loop in ("pi", "react", "opencode"))


@pytest.mark.parametrize("loop", ["reference", *OTHERS])
def test_a_scenario_asks_for_nothing_that_its_loop_lacks(loop: str) -> None:
    @given(sim.scenarios(loop))
    def drawn(scenario: Scenario) -> None:
        Plan(scenario, {})

    drawn()


def plainest_scenario() -> Scenario:
    """The first example, in which every choice is 0: to shrink it takes seconds for nothing."""
    first = settings(phases=[Phase.generate], database=None)
    return find(sim.scenarios(), lambda _: True, settings=first)


def test_the_plainest_scenario_has_no_fault_no_latency_and_the_default_settings() -> None:
    plainest = plainest_scenario()
    usual = Scenario(prompt="")
    same = ("limits", "retry", "compaction", "hooks", "abort", "queue", "then", "history", "faults")
    assert [getattr(plainest, name) for name in same] == [getattr(usual, name) for name in same]
    assert [(reply.say, reply.http) for reply in plainest.model] == [("All is done.", None)]
    result = sim.check(plainest)
    assert result is not None
    assert result.elapsed_ns == 0


LAST = Reply(say="All is done.", times="always")
ALONE: list[tuple[st.SearchStrategy[Any], Callable[[Any], bool], Any]] = [
    (
        sim.replies(),
        lambda reply: reply.http is not None and reply.http.status == 429,
        Reply(http={"status": 429}),
    ),
    (
        sim.hooks(),
        lambda hook: hook.raises is not None,
        simloop.ScriptedHook(at="before_llm_call", raises="the hook is broken"),
    ),
    (sim.limits(), lambda limits: limits.max_steps == 2, simloop.Limits(max_steps=2)),
    (sim.aborts(), lambda _: True, simloop.Trigger(at="0s")),
]
"""A strategy, what its value must have, and the plainest value that has it."""


@pytest.mark.parametrize(("strategy", "has_it", "alone"), ALONE)
def test_a_fault_shrinks_alone(
    strategy: st.SearchStrategy[Any], has_it: Callable[[Any], bool], alone: object
) -> None:
    few = settings(max_examples=1_000, database=None, suppress_health_check=list(HealthCheck))
    assert find(strategy, has_it, settings=few, random=Random(3)) == alone


@pytest.mark.slow
def test_an_abort_shrinks_alone_in_a_scenario() -> None:
    """Hypothesis seldom stops before the end, with one more setting."""
    alone = plainest_scenario().model_copy(update={"abort": simloop.Trigger(at="0s")})
    few = settings(max_examples=1_000, database=None, suppress_health_check=list(HealthCheck))
    found = find(
        sim.scenarios(), lambda each: each.abort is not None, settings=few, random=Random(3)
    )
    fields = type(alone).model_fields
    assert sum(getattr(found, name) != getattr(alone, name) for name in fields) <= 1


@given(sim.faults())
def test_a_fault_is_no_reply_that_ends_well(reply: Reply) -> None:
    usual = Reply(say="All is done.")
    ends = ("finish", "http", "error", "lost", "stall", "unfinished", "raises")
    assert any(getattr(reply, end) != getattr(usual, end) for end in ends)


@given(sim.conversations())
def test_a_conversation_has_several_prompts(scenario: Scenario) -> None:
    assert scenario.then


# Shrinking takes most of the time of a search, and a failure that is stored ends the next search at
# its first example: `test_a_fault_shrinks_alone` shrinks, these look for a failure from scratch.
# Derandomized, because a search by chance may fail by chance.
SEARCH = settings(
    phases=[Phase.generate], database=None, derandomize=True, report_multiple_bugs=False
)


async def spins(prompt: str, world: World) -> str:
    """An agent that asks again, without a wait, until a call succeeds."""
    while True:
        try:
            return (await world.model.reply([UserMessage(prompt)])).message.text
        except ModelCallFailed:
            continue


def test_a_faulty_agent_is_found_with_a_scenario_that_shows_it() -> None:
    @settings(SEARCH, max_examples=300, suppress_health_check=list(HealthCheck))
    @given(sim.scenarios(spins))
    def keeps_every_invariant(scenario: Scenario) -> None:
        sim.check(scenario, loop=spins)

    with pytest.raises(SimloopError) as found:
        keeps_every_invariant()
    assert "model:" in str(found.value)


def test_checking_takes_no_account_of_unused_replies() -> None:
    sim.check(Scenario(prompt="Go.", model=[Reply(say="Done."), Reply(say="Unused.")]))


def test_checking_says_which_invariant_was_violated_and_shows_the_file() -> None:
    async def orphans(prompt: str, world: World) -> str:
        stray = ToolMessage("no-such-call", "a result")
        return (await world.model.reply([UserMessage(prompt), stray])).message.text

    scenario = Scenario(prompt="Go.", model=[Reply(say="Done.")])
    with pytest.raises(InvariantViolated, match=r"(?s)no-such-call.*prompt: Go\."):
        sim.check(scenario, loop=orphans)


def test_checking_says_that_a_run_does_not_end() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(http={"status": 500}, times="always")])
    with pytest.raises(RunawayRun, match="finishes"):
        sim.check(scenario.model_copy(update={"max_transitions": 300}), loop=spins, invariants=[])


@pytest.mark.parametrize(
    ("strategy", "loop"),
    [*((sim.scenarios, loop) for loop in ("reference", AnswersFirst, Asks, of_world)),
     *((sim.conversations, loop) for loop in ("reference", AnswersFirst))],
)  # fmt: skip
def test_a_drawn_scenario_has_no_part_that_its_run_does_not_use(strategy: Any, loop: Any) -> None:
    @settings(derandomize=True, database=None, max_examples=30)
    @given(strategy(loop))
    def drawn(scenario: Scenario) -> None:
        strict = scenario.model_copy(update={"expect": Expect(outcomes=[...])})
        with suppress(RunawayRun, Deadlock):
            assert simloop.run(strict, loop=loop).unused_places == ()

    drawn()


def test_a_failure_of_an_agent_shrinks_to_its_course_in_a_few_runs() -> None:
    drawn: list[Scenario] = []

    @settings(derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(sim.scenarios(of_world))
    def calls_once(scenario: Scenario) -> None:
        drawn.append(scenario)
        result = simloop.run(scenario, loop=of_world)
        assert sum(isinstance(each, ToolCall) for each in result.trace.entries) < 2

    with pytest.raises(AssertionError):
        calls_once()
    assert len(drawn) < 100
    assert len(drawn[-1].model) <= 3


def test_a_run_is_not_traced_which_hypothesis_does_after_a_failure() -> None:
    seen: list[Any] = []

    async def looks(prompt: str, world: World) -> str:
        seen.append(sys.gettrace())
        return (await world.model.reply([UserMessage(prompt)])).message.text

    def trace(*_: Any) -> None: ...

    def traced_by(module: str, call: Callable[..., object]) -> None:
        trace.__module__ = module
        sys.settrace(trace)
        call(Scenario(prompt="Go.", model=[Reply(say="Done.")]), loop=looks)
        assert sys.gettrace() is trace

    before = sys.gettrace()
    try:
        for call in (sim.check, run):
            traced_by("hypothesis.internal.scrutineer", call)
        traced_by("coverage.pytracer", run)
    finally:
        sys.settrace(before)
    assert seen == [None, None, trace]


def test_a_check_returns_the_result_of_the_run() -> None:
    result = sim.check(Scenario(prompt="Go.", model=[Reply(say="Done."), Reply(say="Unused.")]))
    assert result is not None
    assert (result.text, result.unused_places) == ("Done.", ("model.1",))


@settings(derandomize=True, database=None, max_examples=30)
@given(sim.scenarios(AnswersFirst))
def test_scenarios_of_an_agent_call_the_tools_that_it_offers_and_end_as_it_ends(
    scenario: Scenario,
) -> None:
    last = [each.call for each in scenario.model if each.times == "always"]
    assert all([*call] == ["answer"] for call in last)
    named = {name for reply in scenario.model for name, _ in calls_of(reply.call)}
    assert not named & {"read", "search", "write", "shell"}


def test_a_scenario_of_an_agent_calls_each_tool_that_it_offers() -> None:
    for name in ("find", "cancel"):
        find(sim.scenarios(AnswersFirst),
             lambda drawn, name=name: any(  # type: ignore[misc]
                 name == called for reply in drawn.model for called, _ in calls_of(reply.call)),
             settings=settings(SEARCH, max_examples=300), random=Random(1))  # fmt: skip

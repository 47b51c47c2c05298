import asyncio
import itertools
import json
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from services import asked, replies, sent
from shrinking import LARGE, RunsAgain, asks_for_ever, breaks_at_boom, plain, runs_twice

from simloop import (
    Line,
    Program,
    Reply,
    Scenario,
    ScenarioError,
    Subject,
    Then,
    UserMessage,
    World,
    invariant,
    parse_scenario,
    run,
    traced,
)
from simloop.check.invariants.invariant import Invariant
from simloop.check.trial import FINISHES, failure_of
from simloop.fuzz.search import Search
from simloop.fuzz.shrink import ShrinkProgress, Shrunk, shrink, with_planned_faults
from simloop.kernel.limits import USUAL_REQUESTS
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.scenario.catalog import bundled_names, find_bundled
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Queued
from simloop.scenario.writing import content, scenario_text
from simloop.trace import entries

LONG = 600.0
"""Seconds: a busy machine must not end the work before its end."""


def shrunk(
    scenario: Scenario, invariants: Sequence[Invariant] | None = None, **given: Any
) -> Shrunk:
    found = shrink(scenario, given, invariants=invariants, seconds=LONG)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_a_violated_invariant_is_all_that_is_left_of_a_long_scenario() -> None:
    found = shrunk(LARGE, loop=runs_twice)
    assert found.failure.name == "tool-runs-at-most-once"
    assert found.unfinished == ""
    assert content(found.scenario) == {
        "title": found.failure.sentence,
        "prompt": "Go.",
        "tools": {"list": {}},
        "model": [{"call": {"list": {}}}, {"say": "All is done.", "times": "always"}],
        "expect": {"outcomes": ["..."], "unused": {"min": 0}},
    }


def test_what_is_shrunk_fails_in_the_same_way_when_it_is_read_from_its_file() -> None:
    found = shrunk(LARGE, loop=runs_twice)
    again = failure_of(Plan(parse_scenario(scenario_text(found.scenario)), {"loop": runs_twice}))
    assert again == found.failure


def test_a_loop_without_the_fault_passes_what_is_shrunk() -> None:
    """It goes on after the place of the failure, and finds a reply there."""
    found = shrunk(LARGE, loop=runs_twice)
    assert run(found.scenario, loop=plain).ok
    assert failure_of(Plan(found.scenario, {"loop": plain})) is None


def test_an_agent_without_the_fault_goes_on_where_the_faulty_one_ends() -> None:
    """A run that waits for ever never asks for the reply that a mended agent gets."""

    async def waits(prompt: str, world: World) -> None:
        await world.model.reply([UserMessage(prompt)])
        await asyncio.Event().wait()

    async def asks_twice(prompt: str, world: World) -> str:
        await world.model.reply([UserMessage(prompt)])
        return (await world.model.reply([UserMessage(prompt)])).message.text

    answer = Reply(say='{"sum": 3}', times="always")
    found = shrunk(Scenario(prompt="Go.", model=[Reply(say="Hm."), answer]), loop=waits)
    assert found.failure.name == "Deadlock"
    assert found.scenario.model[-1] == answer
    assert run(found.scenario, loop=asks_twice).text == '{"sum": 3}'


def test_shrinking_twice_gives_the_same_bytes_after_the_same_number_of_runs() -> None:
    one, other = shrunk(LARGE, loop=runs_twice), shrunk(LARGE, loop=runs_twice)
    assert one == other
    assert scenario_text(one.scenario) == scenario_text(other.scenario)


def test_what_is_shrunk_cannot_be_shrunk_further() -> None:
    found = shrunk(LARGE, loop=runs_twice)
    assert shrunk(found.scenario, loop=runs_twice).scenario == found.scenario


def test_a_scenario_that_does_not_fail_is_not_shrunk() -> None:
    assert shrink(Scenario(prompt="Go.", model=[Reply(say="Done.")])) is None


def test_an_error_that_the_scenario_expects_is_no_failure() -> None:
    assert shrink(parse_scenario("prompt: Go.\nexpect: {error: ScriptExhausted}")) is None


def test_a_scenario_that_cannot_run_is_the_authors_mistake() -> None:
    with pytest.raises(ScenarioError, match="hooks"):
        shrink(parse_scenario("prompt: Go.\nhooks: [{at: before_llm_call}]"), {"loop": runs_twice})


def test_an_exception_of_the_agent_keeps_its_class_and_needs_its_replies() -> None:
    replies = [Reply(say=f"Reply {n} of many.") for n in range(8)]
    replies.append(Reply(say="And now it goes boom at last."))
    found = shrunk(Scenario(prompt="Go.", model=replies), loop=breaks_at_boom)
    words = [reply.say for reply in found.scenario.model]
    assert "boom" in words[-2]
    assert len(words) <= 4


def test_an_expectation_that_fails_stays_with_what_makes_it_fail() -> None:
    scenario = parse_scenario("""
prompt: Wait, please.
limits: {max_steps: 9}
model: [{http: {status: 429, retry_after: 5s}}, {say: Done with it all.}]
expect: {outcome: completed, text: Done with it all., backoffs: [7s], requests: 2}
""")
    found = shrunk(scenario)
    assert found.failure.text.startswith("expect.backoffs: expected ['7s'], got ['5s']")
    assert content(found.scenario)["expect"] == {"backoffs": ["7s"]}
    assert content(found.scenario)["model"][0] == {"http": {"status": 429, "retry_after": "5s"}}


HOOKED = """
prompt: Go.
hook_execution: {order: parallel}
hooks:
  - {at: before_llm_call, name: slow, takes: 2s, independent: true}
  - {at: before_llm_call, name: fast, takes: 1s, independent: true}
  - {at: after_llm_call, independent: true}
model: [{say: Done.}]
"""


def test_hooks_that_run_at_once_stay_only_where_a_failure_needs_them() -> None:
    order = "[before_llm_call slow ok, before_llm_call fast ok, ...]"
    needed = content(shrunk(parse_scenario(f"{HOOKED}expect: {{hooks: {order}}}")).scenario)
    assert needed["hook_execution"] == {"order": "parallel"}
    assert [hook.get("independent") for hook in needed["hooks"]] == [True, True, None]
    other = content(shrunk(parse_scenario(f"{HOOKED}expect: {{text: Nothing.}}")).scenario)
    assert not {"hooks", "hook_execution"} & other.keys()


def test_a_runaway_stays_a_runaway_and_one_reply_stands_for_all() -> None:
    replies = [Reply(say=f"Step {n}.", pace={"first_part": "3s"}) for n in range(30)]
    scenario = Scenario(
        prompt="Go.",
        max_transitions=100,
        model=[*replies, Reply(say="More.", times="always")],
    )
    found = shrunk(scenario, (), loop=asks_for_ever)
    assert found.failure.name == FINISHES
    assert content(found.scenario)["model"] == [{"say": "More.", "times": "always"}]


def test_a_run_that_must_end_once_the_model_answers_well_keeps_the_good_answer() -> None:
    scenario = parse_scenario("""
loop: pi
prompt: Go.
max_transitions: 40
tools: {look: {}}
model:
  - {call: {look: {}}, times: 8}
  - {call: {look: {}}, times: 8}
  - {say: All is done., times: always}
""")
    found = shrunk(scenario, ())
    assert found.failure.name == FINISHES
    times = [reply.times for reply in found.scenario.model]
    assert times == [10, "always"], "a model that never answers is no reason to come to an end"


def test_a_bound_is_not_lowered_because_any_run_passes_a_low_one() -> None:
    found = shrunk(
        Scenario(prompt="Go.", max_transitions=90, model=[Reply(say="More.", times="always")]),
        (),
        loop=asks_for_ever,
    )
    assert (found.scenario.max_transitions or 0) >= 90


def test_the_bounds_end_a_candidate_that_goes_on_forever_and_are_removed_at_last() -> None:
    asked: list[int] = []

    async def never_answers(prompt: str, world: World) -> None:
        asked.append(0)
        while True:
            reply = await world.model.reply([UserMessage(prompt)])
            asked[-1] += 1
            for call in reply.message.calls:
                await world.tools.run(call)
                await world.tools.run(call)

    replies = [Reply(call={"look": {}}), Reply(say="More.", times="always")]
    scenario = Scenario(prompt="Go.", max_transitions=30, tools={"look": {}}, model=replies)
    found = shrunk(scenario, loop=never_answers)
    assert found.failure.name == "tool-runs-at-most-once"
    assert found.scenario.max_transitions is None
    assert asked.count(30) == 1  # without the call
    assert USUAL_REQUESTS not in asked


def test_a_message_of_the_user_is_shortened_and_not_emptied() -> None:
    async def takes(prompt: str, world: World) -> None:
        await world.model.reply([UserMessage(prompt)])
        assert not world.user.take()

    queue = [Queued(say="And tell me of the weather there.", after="request")]
    scenario = Scenario(prompt="Go.", model=[Reply(say="Yes.", times="always")], queue=queue)
    found = shrunk(scenario, (), loop=takes)
    assert [message.say for message in found.scenario.queue] == ["Go."]


def test_it_names_its_loop_its_options_and_its_seed_by_itself() -> None:
    scenario = parse_scenario("prompt: Go.\nmodel: [{http: {status: 500}, times: always}]")
    found = shrunk(scenario, loop="opencode", loop_options={"max_retries": 1}, seed=5)
    assert found.scenario.loop == "opencode"
    assert shrink(found.scenario) is not None


def test_a_loop_without_a_name_keeps_its_options() -> None:
    found = shrunk(LARGE, loop=RunsAgain, loop_options={"again": True})
    assert found.failure.name == "tool-runs-at-most-once"
    assert len(found.scenario.model) == 2


def test_numbers_are_brought_down_and_times_are_rounded() -> None:
    scenario = parse_scenario("""
prompt: Go.
limits: {max_wall_clock: 95s}
tools: {wait: {takes: 61s}}
model: [{call: {wait: {}}, times: 40}]
expect: {outcome: aborted}
""")
    found = shrunk(scenario)
    assert found.failure.text == "expect.outcome: expected aborted, got timed-out"
    assert content(found.scenario)["limits"] == {"max_wall_clock": "1s"}
    assert content(found.scenario)["tools"] == {"wait": {"takes": "1s"}}


def test_the_progress_goes_down_to_the_size_of_what_is_found() -> None:
    steps: list[ShrinkProgress] = []
    found = shrink(LARGE, {"loop": runs_twice}, say=steps.append, seconds=LONG)
    assert found is not None
    assert len(steps) > 5
    assert all(before.runs < after.runs for before, after in itertools.pairwise(steps))
    assert steps[-1].replies == len(found.scenario.model) - 1  # without the one after the failure
    assert steps[-1].runs <= found.runs


def test_the_time_ends_it_as_well() -> None:
    found = shrink(LARGE, {"loop": runs_twice}, seconds=0.0)
    assert found is not None
    assert found.unfinished == "the time limit was reached"
    assert found.scenario.model[-1].times == "always"  # what is mended can end, all the same


def test_whoever_stops_it_gets_the_smallest_so_far() -> None:
    asked = itertools.count()
    found = shrink(LARGE, {"loop": runs_twice}, stopped=lambda: next(asked) > 10, seconds=LONG)
    assert found is not None
    assert found.unfinished == "the reduction was interrupted"
    assert 0 < found.runs <= 11
    assert len(scenario_text(found.scenario)) < len(scenario_text(LARGE))


def test_ctrl_c_gives_the_smallest_so_far() -> None:
    def interrupt(progress: ShrinkProgress) -> None:
        if progress.runs > 5:
            raise KeyboardInterrupt

    found = shrink(LARGE, {"loop": runs_twice}, say=interrupt, seconds=LONG)
    assert found is not None
    assert found.unfinished == "the reduction was interrupted"
    assert failure_of(Plan(found.scenario, {"loop": runs_twice})) == found.failure


def test_a_violation_that_the_scenario_expects_is_no_failure_and_stays_so() -> None:
    known = {"tool-runs-at-most-once": "known", "only-called-tools-run": "known, too"}
    replies = [Reply(call={"look": {}}), Reply(say="Done.")]
    scenario = Scenario(
        prompt="Go.", tools={"look": {}}, model=replies, expect={"violates": known, "text": "no"}
    )
    met = scenario.model_copy(update={"expect": scenario.expect.model_copy(update={"text": None})})
    assert failure_of(Plan(met, {"loop": runs_twice})) is None
    assert shrunk(scenario, loop=runs_twice).failure.text.startswith("expect.text: expected 'no'")
    one = {"tool-runs-at-most-once": "known"}
    other = met.model_copy(update={"expect": met.expect.model_copy(update={"violates": one})})
    found = shrunk(other, loop=runs_twice)
    assert found.failure.name == "only-called-tools-run"
    assert found.scenario.expect.violates == one


STORM = load_scenario(find_bundled("chance/storm"))


def with_content(tree: dict[str, Any], **expect: Any) -> Scenario:
    """The scenario of this content with other expectations: by default any end."""
    whole = {**tree, "expect": expect or {"outcomes": ["..."], "unused": 1}, "expect_on": {}}
    return Scenario.model_validate_json(json.dumps(whole))


def planned(scenario: Scenario) -> tuple[list[Any], list[Any]]:
    """The faults of a run by chance, and those of the scenario that is made of it."""
    first = Simulation(scenario)
    first.run()
    made = with_planned_faults(content(scenario), first.trace.entries)
    assert "faults" not in made
    second = Simulation(with_content(made))
    second.run()
    return faults_of(first), faults_of(second)


def faults_of(simulation: Simulation) -> list[Any]:
    """The failed calls with the number of the request, whatever their words."""
    return [
        (entry.request, entry.fault.status, entry.fault.code)
        for entry in simulation.trace.entries
        if isinstance(entry, entries.Error)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_the_planned_faults_are_those_that_came_by_chance(seed: int) -> None:
    storm = with_content({**content(STORM), "seed": seed})
    by_chance, planned_ones = planned(storm)
    assert by_chance == planned_ones
    assert by_chance


def test_replies_are_written_as_they_came() -> None:
    scenario = parse_scenario("""
prompt: Look.
tools: {look: {returns: seen}}
model:
  - say: [I, " look."]
    think: Hm.
    call: {look: {deep: true}}
    usage: {input: 5, output: 7}
  - {call: {look: broken}, finish: odd}
  - {http: {status: 503, message: Later., code: busy}}
  - {say: Half, unfinished: true}
  - {say: Half, lost: mid-output}
  - say: Done.
limits: {max_error_count: 9}
""")
    simulation = Simulation(scenario)
    simulation.run()
    made = with_planned_faults(content(scenario), simulation.trace.entries)["model"]
    assert made == [
        {
            "think": ["Hm."],
            "say": ["I", " look."],
            "call": [{"look": {"deep": True}}],
            "ids": ["call-1"],
            "finish": "tool-calls",
            "usage": {"input": 5, "output": 7},
        },
        {"call": [{"look": "broken"}], "ids": ["call-2"], "finish": "odd"},
        {"http": {"status": 503, "message": "Later.", "code": "busy", "headers": {}}},
        {"say": ["Half"], "unfinished": True},
        {"say": ["Half"], "lost": "mid-output"},
        {"say": ["Done."], "finish": "stop"},
    ]


@pytest.mark.slow
def test_a_failure_by_chance_is_shrunk_to_planned_faults() -> None:
    storm = with_content(content(STORM), counters={"error_count": 0})
    found = shrink(storm, seconds=600)
    assert found is not None
    assert found.scenario.faults is None
    assert found.failure.text == "expect.counters.error_count: expected 0, got 19"
    assert content(found.scenario)["model"] == [
        {"http": {"status": 429}, "times": 19},
        {"say": "Ten"},
    ]
    assert failure_of(Plan(found.scenario, {})) == found.failure


def test_a_tool_that_failed_by_chance_fails_by_plan() -> None:
    tools = load_scenario(find_bundled("chance/tools"))
    assert "chance/tools" in bundled_names()
    simulation = Simulation(tools)
    simulation.run()
    lost = {
        entry.name
        for entry in simulation.trace.entries
        if isinstance(entry, entries.ToolResult) and "lost its connection" in entry.text
    }
    made = with_planned_faults(content(tools), simulation.trace.entries)["tools"]
    assert {name for name, tool in made.items() if "raises" in tool} == lost
    assert lost


def test_the_answers_of_services_are_written_as_they_came() -> None:
    routes = [{"any": "/...", "json": [1], "takes": "1s"}]
    faults = {"activate": 1.0, "fire": 0.5, "sites": ["service.503", "service.lost"]}
    requests = [sent(f"GET /{number}?a=b") for number in range(8)]
    _, result = asked(routes, *requests, faults=faults)
    trace = result.trace
    made = with_planned_faults(json.loads(bytes(trace.header.scenario)), trace.entries)
    assert "faults" not in made
    _, again = asked(made["services"], *requests)
    assert replies(again) == replies(result)
    assert {status for status, _, _ in replies(result)} == {0, 200, 503}


def test_the_answers_of_programs_are_written_as_they_came() -> None:
    def agent(prompt: str) -> None:
        for number in range(12):
            subprocess.run(["make", str(number % 2)], capture_output=True, check=False)
        with suppress(subprocess.TimeoutExpired):
            subprocess.call(["serve"], stdout=subprocess.DEVNULL, timeout=1)

    pieces = [{"after": "1s", "stdout": "a"}, {"after": "1s", "stderr": "b"}]
    programs: dict[str, Any] = {
        "make": {"pieces": pieces},
        "serve": {"stdout": "up", "hangs": True},
    }
    sites = ["program.fails", "program.killed", "program.slow"]
    faults = {"activate": 1.0, "fire": 0.3, "sites": sites}
    scenario = Scenario(prompt="Go.", programs=programs, faults=faults)
    trace = run(scenario, loop=agent).trace
    made = with_planned_faults(content(scenario), trace.entries)
    assert "faults" not in made
    again = run(Scenario(**made), loop=agent).trace
    assert again.entries == trace.entries
    exits = {each.exit for each in trace.entries if isinstance(each, entries.ProgramEnded)}
    assert exits == {0, 1, -9}


@traced
def pay(bill: str) -> str:
    return f"{bill} is paid"


class PaysAfterARestart:
    """An agent that pays again if it restarts, and if its user has said yes to it."""

    def __init__(self) -> None:
        self.is_fresh = True

    def __call__(self, prompt: str, world: World) -> str:
        is_fresh, self.is_fresh = self.is_fresh, False
        if is_fresh and input("Pay? ") == "yes":
            asyncio.run(world.model.reply([UserMessage(prompt)]))
            pay("rent")
        return "Done."


@pytest.mark.slow
def test_the_lines_and_the_restart_that_a_failure_needs_are_left() -> None:
    scenario = Scenario(
        prompt="Pay the rent, please.",
        then=["Thank you.", Then(after="2h", say="Is it paid?", restart=True), "Good."],
        input=["yes", Line(say="yes", after="40m"), "no"],
        model=[Reply(call={"pay": {"bill": "rent"}}), Reply(say="It is."), Reply(say="Fine.")],
    )
    found = shrunk(scenario, loop=PaysAfterARestart)
    assert found.failure.name == "no-tools-run-again-after-a-pause"
    left = content(found.scenario)
    assert left["input"] == ["yes", {"say": "yes"}]
    assert [each.keys() for each in left["then"]] == [{"say", "restart"}]
    assert failure_of(Plan(found.scenario, {"loop": PaysAfterARestart})) == found.failure


def test_a_search_finds_the_program_that_breaks_an_agent_and_shrinks_it() -> None:
    async def agent(prompt: str, world: World) -> str:
        done = subprocess.run(["git", "status"], capture_output=True, check=False)  # noqa: ASYNC221
        if done.returncode < 0:
            raise RuntimeError("git died")
        return (await world.model.reply([UserMessage(prompt)])).message.text

    def no_death(_: Subject, entry: entries.Ended) -> str:
        return entry.message if "git died" in entry.message else ""

    judged = [invariant("No death.", "us", sees=[entries.Ended])(no_death)]
    base = Scenario(prompt="Go.", programs={"git": Program()}, model=[Reply(say="Done.")])
    search = Search(agent, seed=0, scenarios=[base], invariants=judged)
    found = next(each for each in search.run(runs=60) if each.name == "no-death")
    shrunk = shrink(found.scenario, {"loop": agent}, invariants=judged)
    assert shrunk is not None
    assert shrunk.scenario.programs == {"git": Program(signal="SIGKILL")}

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from simloop import Limits, Reply, Scenario, UserMessage, World
from simloop.check.invariants.invariant import invariant
from simloop.check.invariants.subject import Subject
from simloop.check.trial import FINISHES, Failure, Rules, Until, Verdict, failure_of, trial, verify
from simloop.errors import (
    CannotExpress,
    Deadlock,
    InternalError,
    InvariantViolated,
    ReplayDiverged,
    RunawayRun,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
    SimloopError,
)
from simloop.kernel.retry import ExponentialBackoff
from simloop.loops.reference import ReferenceLoop
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.scenario.loader import parse_scenario
from simloop.trace.entries import Ended, Request

PASSES = "prompt: Hi\nmodel: [{http: {status: 500}}, {say: Hello.}]\nexpect: {text: Hello.}\n"
FAILS = PASSES.replace("text: Hello.", "text: Bye.")
EXHAUSTED = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}]\n"
UNUSED = "prompt: Hi\nmodel: [{say: a}, {say: b}]\n"
RUNAWAY = "prompt: Hi\ntools: {t: {takes: 100000h}}\nmodel: [{call: {t: {}}}]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.simloop.yaml"
    path.write_text(PASSES, "utf-8")
    return path


def types(verdict: Verdict) -> list[type[SimloopError]]:
    return [type(error) for error in verdict.errors]


class TestAScenario:
    def test_that_passes_twice_the_same_is_well(self, file: Path) -> None:
        verdict = verify(file)
        assert verdict.scenario is not None
        assert verdict.result is not None
        assert verdict.result.text == "Hello."
        assert verdict.trace is verdict.result.trace
        assert (verdict.exit_code, verdict.deterministic, verdict.failures) == (0, True, ())

    def test_may_be_one_that_was_made_in_python(self) -> None:
        assert verify(parse_scenario(PASSES)).deterministic is True

    def test_that_fails_is_still_run_twice(self) -> None:
        verdict = verify(parse_scenario(FAILS))
        assert verdict.failures == ("expect.text: expected 'Bye.', got 'Hello.'",)
        assert (verdict.exit_code, verdict.deterministic, verdict.errors) == (1, True, [])

    @pytest.mark.parametrize(
        ("text", "kind", "code"),
        [(EXHAUSTED, ScriptExhausted, 1), (UNUSED, ScriptUnused, 1)],
        ids=["exhausted", "unused"],
    )
    def test_whose_script_does_not_fit_is_an_error_and_the_same_twice(
        self, file: Path, text: str, kind: type[SimloopError], code: int
    ) -> None:
        file.write_text(text, "utf-8")
        verdict = verify(file)
        assert (types(verdict), verdict.exit_code, verdict.deterministic) == ([kind], code, True)
        assert str(verdict.errors[0]).startswith(f"{file}: ")

    def test_that_never_ends_is_a_failed_check_and_the_same_twice(self) -> None:
        verdict = verify(parse_scenario(RUNAWAY))
        assert (verdict.exit_code, verdict.deterministic, verdict.result) == (1, True, None)
        assert verdict.trace is not None
        assert verdict.trace.entries

    def test_that_cannot_be_read_is_an_error_that_names_the_file(self, file: Path) -> None:
        file.write_text("modell: []", "utf-8")
        verdict = verify(file)
        assert (types(verdict), verdict.exit_code) == ([ScenarioError], 2)
        assert str(verdict.errors[0]).startswith(f"{file}:1:1: ")
        assert (verdict.scenario, verdict.trace, verdict.deterministic) == (None, None, None)

    def test_of_an_unknown_loop_is_an_error_that_names_the_file(self, file: Path) -> None:
        verdict = verify(file, loop="gone")
        assert str(verdict.errors[0]).startswith(f"{file}: loop: there is no loop `gone`")
        assert verdict.deterministic is None

    def test_with_a_fault_site_that_is_not_there_is_an_error_that_names_the_file(
        self, file: Path
    ) -> None:
        file.write_text(f"faults: {{sites: [gone]}}\n{PASSES}", "utf-8")
        assert str(verify(file).errors[0]).startswith(
            f"{file}:1:17: faults.sites: no fault site `gone`"
        )

    def test_is_run_with_the_seed_and_the_loop_that_are_given(self) -> None:
        scenario = parse_scenario(f"loop: not.here:Loop\n{PASSES}")
        verdict = verify(scenario, seed=9, loop="reference")
        assert verdict.trace is not None
        assert (verdict.trace.header.seed, verdict.trace.header.loop) == (9, "reference")
        assert verdict.deterministic is True


STUCK = "prompt: Hi\ntools: {t: {hangs: true}}\nmodel: [{call: {t: {}}}]\n"
ENDLESS = (
    "prompt: Hi\nmax_transitions: 50\ntools: {t: {}}\nloop: pi\ncontext: {over: [false]}\n"
    "model: [{call: {t: {}}, times: always}]\n"
)


class TestAnErrorThatTheScenarioExpects:
    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            (EXHAUSTED, ScriptExhausted),
            (STUCK, Deadlock),
            (RUNAWAY, RunawayRun),
            (ENDLESS, RunawayRun),
        ],
        ids=["exhausted", "deadlock", "runaway", "endless"],
    )
    def test_is_what_should_happen_and_the_same_twice(
        self, text: str, kind: type[SimloopError]
    ) -> None:
        verdict = verify(parse_scenario(f"{text}expect: {{error: {kind.__name__}}}\n"))
        assert isinstance(verdict.ended_by, kind)
        assert (verdict.errors, verdict.failures, verdict.result) == ([], (), None)
        assert (verdict.exit_code, verdict.deterministic) == (0, True)

    def test_is_a_failure_if_the_run_has_an_outcome(self) -> None:
        text = PASSES.replace("text: Hello.", "error: Deadlock")
        verdict = verify(parse_scenario(text))
        assert verdict.failures == ("expect.error: expected 'Deadlock', got 'none'",)
        assert (verdict.exit_code, verdict.ended_by) == (1, None)

    def test_is_an_error_like_any_other_if_it_is_another_one(self) -> None:
        verdict = verify(parse_scenario(f"{STUCK}expect: {{error: RunawayRun}}\n"))
        assert (types(verdict), verdict.exit_code, verdict.ended_by) == ([Deadlock], 1, None)

    def test_leaves_what_else_is_expected_of_the_trace_to_be_judged(self) -> None:
        expect = "{error: Deadlock, tools_run: [t, t], requests: 1}"
        verdict = verify(parse_scenario(f"{STUCK}expect: {expect}\n"))
        assert verdict.failures == ("expect.tools_run: expected ['t', 't'], got ['t']",)
        assert (verdict.exit_code, verdict.errors) == (1, [])

    @pytest.mark.parametrize(
        "other", ["outcome: completed", "text: Hello.", "elapsed: 5s", "counters: {total_steps: 7}"]
    )
    def test_does_not_hide_an_expectation_that_only_an_outcome_could_meet(self, other: str) -> None:
        text = f"{STUCK}expect: {{error: Deadlock, {other}}}\n"
        try:
            verdict = verify(parse_scenario(text))
        except ScenarioError:
            return  # refused where it is written: as good
        assert verdict.exit_code != 0

    def test_may_be_expected_on_one_loop_only(self) -> None:
        text = f"{EXHAUSTED}expect_on: {{pi: {{error: ScriptExhausted}}}}\n"
        assert types(verify(parse_scenario(text))) == [ScriptExhausted]
        on_pi = verify(parse_scenario(text), loop="pi")
        assert (on_pi.exit_code, on_pi.deterministic) == (0, True)

    def test_is_not_that_a_loop_cannot_express_it(self) -> None:
        text = "prompt: Hi\nabort: {at: 1s}\nexpect_on: {react: {error: Deadlock}}\n"
        verdict = verify(parse_scenario(text), loop="react")
        assert (types(verdict), verdict.trace) == ([CannotExpress], None)
        assert verdict.cannot == "react has no way to stop a run"

    def test_can_only_be_one_that_can_end_a_run(self) -> None:
        with pytest.raises(ScenarioError, match=r"expect\.error"):
            parse_scenario("prompt: Hi\nexpect: {error: InternalError}\n")


class TestSeveralPrompts:
    def test_are_run_twice_and_are_the_same(self) -> None:
        text = "prompt: Hi\nthen: [Again]\nmodel: [{http: {status: 401}}, {say: Well.}]\n"
        verdict = verify(parse_scenario(f"{text}expect: {{outcomes: [failed, completed]}}\n"))
        assert (verdict.exit_code, verdict.deterministic, verdict.failures) == (0, True, ())

    def test_of_which_a_later_one_finds_no_reply_are_an_error(self) -> None:
        verdict = verify(parse_scenario("prompt: Hi\nthen: [More]\nmodel: [{say: Hello.}]\n"))
        assert (types(verdict), verdict.deterministic) == ([ScriptExhausted], True)


def test_the_worst_error_is_the_first_of_those_with_the_highest_exit_code() -> None:
    errors = [RunawayRun("one"), ScenarioError("two"), ScenarioError("three")]
    assert Verdict(errors=[*errors]).worst is errors[1]
    assert Verdict().worst is None
    assert not Verdict(errors=[*errors]).cannot


@pytest.mark.parametrize(
    "loop", ["pi", "react", "opencode", "pi@0.87.1", "simloop.loops.pi:PiLoop"]
)
def test_every_loop_is_run_twice_and_is_the_same(loop: str) -> None:
    text = "prompt: Hi\ntools: {t: {takes: 1s}}\nmodel: [{call: {t: {}}}, {say: Done.}]\n"
    verdict = verify(parse_scenario(text), loop=loop)
    assert (verdict.exit_code, verdict.deterministic) == (0, True)
    assert verdict.trace is not None
    assert verdict.trace.header.loop == loop


class TestARunThatIsNotTheSameTwice:
    @pytest.fixture(autouse=True)
    def counting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A retry policy that remembers: each wait is longer, also in the next run."""
        numbers = itertools.count(10**9)
        monkeypatch.setattr(ExponentialBackoff, "delay_ns", lambda *_, **__: next(numbers))

    def test_fails_though_what_it_expects_is_so(self) -> None:
        verdict = verify(parse_scenario(PASSES))
        assert (verdict.failures, verdict.deterministic) == ((), False)
        assert (types(verdict), verdict.exit_code) == ([InvariantViolated, ReplayDiverged], 1)

    def test_keeps_the_trace_and_the_result_of_the_first(self) -> None:
        verdict = verify(parse_scenario(PASSES))
        assert verdict.trace is not None
        assert verdict.result is not None
        assert verdict.result.backoffs_s == [1.0]


class TestAFaultOfOurs:
    @pytest.fixture
    def runs(self, monkeypatch: pytest.MonkeyPatch) -> list[Simulation]:
        """Every run is noted, then ends as none should."""
        made: list[Simulation] = []
        run = Simulation.run

        def break_down(self: Simulation) -> Any:
            made.append(self)
            run(self)
            raise InternalError("broken")

        monkeypatch.setattr(Simulation, "run", break_down)
        return made

    def test_is_reported_once_and_not_looked_for_again(self, runs: list[Simulation]) -> None:
        verdict = verify(parse_scenario(PASSES))
        assert (types(verdict), verdict.exit_code) == ([InternalError], 3)
        assert len(runs) == 1
        assert verdict.deterministic is None


def test_what_ends_a_run_from_outside_leaves_what_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(ExponentialBackoff, "delay_ns", interrupt)
    begun: list[Simulation] = []
    with pytest.raises(KeyboardInterrupt):
        verify(parse_scenario(PASSES), watch=begun.append)
    assert begun[0].trace.entries
    assert begun[0].trace.footer is None


def test_a_thousand_hours_are_checked_in_virtual_time() -> None:
    text = "prompt: Hi\ntools: {t: {takes: 1000h}}\nmodel: [{call: {t: {}}}, {say: Done.}]\n"
    assert verify(parse_scenario(text)).deterministic is True


FINE = Scenario(prompt="Go.", model=[Reply(call={"look": {}}), Reply(say="Done.")],
                tools={"look": {"returns": "seen"}})  # fmt: skip


class Deaf(ReferenceLoop):
    """A loop that takes no failure for the end."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.limits = Limits(max_error_count=limits.max_error_count + 1_000)


async def waits_the_second_time(prompt: str, world: World) -> str:
    if number := next(_runs):
        await asyncio.sleep(2)  # the first difference, which the model does not see
    return (await world.model.reply([UserMessage(f"{prompt} {number}")])).message.text


_runs = itertools.count()


def test_two_runs_that_tell_the_model_something_else_say_where() -> None:
    plan = Plan(Scenario(prompt="Go.", model=[Reply(say="So.")]), {"loop": waits_the_second_time})
    failure = failure_of(plan, Rules(expectations=False), twice=True)
    assert failure is not None
    assert failure.name == "ReplayDiverged"
    assert "the model is told something else in request #1" in failure.text


async def asks_for_ever(prompt: str, world: World) -> str:
    while True:
        await world.model.reply([UserMessage(prompt)])


def failure_in(scenario: Scenario, given: Any) -> Failure | None:
    return failure_of(Plan(scenario, given), Rules(expectations=False))


def test_a_run_that_keeps_all_rules_has_no_breach() -> None:
    assert failure_in(FINE, {}) is None


@invariant("A run sends at most four requests.", "a test", sees=[Request])
def at_most_four_requests(_: Subject, entry: Any) -> str:
    return "there is a fifth" if entry.number > 4 else ""


def test_a_run_is_ended_at_the_first_violation() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(http={"status": 500}, times="always")],
                        limits=Limits(max_steps=1, max_compaction_attempts=0))  # fmt: skip
    plan = Plan(scenario, {"loop": Deaf})
    verdict = trial(plan, Rules([at_most_four_requests]), Until.VIOLATION)
    failure = verdict.failure()
    assert failure is not None
    assert failure.name == "at-most-four-requests"
    assert failure.sentence == "A run sends at most four requests."
    assert verdict.run is not None
    assert isinstance(verdict.run.error, InvariantViolated)
    kinds = [type(entry) for entry in verdict.entries]
    assert kinds.count(Request) == 5
    assert Ended not in kinds


@invariant("A run sends no second request.", "a test", sees=[Request])
def no_second_request(_: Subject, entry: Any) -> str:
    return "there is a second" if entry.number > 1 else ""


@invariant("A run sends no even request.", "a test", sees=[Request])
def no_even_request(_: Subject, entry: Any) -> str:
    return "there is an even one" if not entry.number % 2 else ""


def test_of_several_violations_the_one_of_the_name_is_returned() -> None:
    plan = Plan(Scenario(prompt="Go.", model=[Reply(http={"status": 500}), Reply(say="So.")]), {})
    rules = Rules([no_second_request, no_even_request], expectations=False)
    first = "no-second-request"
    for name, found in (("no-even-request",) * 2, ("", first), ("another", first)):
        failure = failure_of(plan, rules, name=name)
        assert failure is not None
        assert failure.name == found


def test_a_run_that_does_not_end_breaks_the_rule_that_it_finishes() -> None:
    scenario = Scenario(prompt="Go.", model=[Reply(say="No.", times="always")], max_transitions=50)
    found = failure_in(scenario, {"loop": asks_for_ever})
    assert found is not None
    assert found.name == FINISHES
    assert "max_transitions=50" in found.text
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

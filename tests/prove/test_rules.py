"""What a machine has to keep to, and that a machine which does not is found, with the way there."""

from collections.abc import Mapping
from typing import Any

import pytest
from broken import SMALL, Change, Staying, change, goes_round, proof_of, replayed
from msgspec import Struct
from test_explore import OneCall, found
from test_explore_broken import violation

from simloop.kernel import effects, signals, states
from simloop.kernel.effects import Effect
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Bound, Run, Transition, finish
from simloop.kernel.names import NAMES
from simloop.kernel.signals import Signal
from simloop.loops.opencode import Turning
from simloop.messages import Outcome
from simloop.runs.loop import machine_for

MEASURED = [signals.ContextMeasured(over) for over in (True, False)]
NEVER_TESTED = [
    (
        "max_steps",
        change(
            "reference", "steps", "_exceeded", "run.total_steps >= self.limits.max_steps", "False"
        ),
    ),
    (
        "max_steps",
        change(
            "reference",
            "steps after a reply",
            "_follow",
            "self._exceeded(run) or self._measure(run)",
            "self._measure(run)",
        ),
    ),
    (
        "max_steps",
        change(
            "reference",
            "steps after a useless reply",
            "_recover",
            "self._exceeded_on_a_detour(failed) or (failed",
            "(failed",
        ),
    ),
    (
        "max_error_count",
        change(
            "reference",
            "errors",
            "_recover",
            "failed.error_count >= self.limits.max_error_count",
            "False",
        ),
    ),
    (
        "max_compaction_attempts",
        change(
            "reference",
            "forced",
            "_make_room",
            "run.compaction_attempts >= self.limits.max_compaction_attempts",
            "False",
        ),
    ),
    (
        "max_compaction_attempts",
        change(
            "reference",
            "normal",
            "_enter_round",
            "over and run.compaction_attempts < self.limits.max_compaction_attempts",
            "over",
        ),
    ),
    (
        "max_steps",
        change("reference", "only just", "_exceeded", "total_steps >= self", "total_steps == self"),
    ),
    (
        "max_rounds",
        change("react", "rounds", "_go_on", "run.total_steps >= self.max_rounds", "False"),
    ),
    (
        "max_retries",
        change(
            "opencode",
            "retries",
            "_catch",
            "failed.error_count > self.options.max_retries",
            "False",
        ),
    ),
    (
        "max_steps",
        change(
            "opencode",
            "steps",
            "_is_spent",
            "self.options.steps is Steps.ENFORCE and run.total_steps >= self.max_steps",
            "False",
        ),
    ),
]


@pytest.mark.parametrize(("limit", "broken"), NEVER_TESTED, ids=str)
def test_a_bound_that_is_never_tested_is_found_with_the_way_past_it(
    limit: str, broken: Change
) -> None:
    machine = broken.machine()
    found = violation(proof_of(machine).violations, limit, "reached")
    run, _ = replayed(broken.machine(), found.counterexample)
    assert getattr(run, machine.bounds[limit].counter) >= machine.bounds[limit].at


@pytest.mark.parametrize("broken", [broken for _, broken in NEVER_TESTED], ids=str)
def test_where_a_run_is_not_followed_past_a_bound_no_end_and_no_longest_run_is_proved(
    broken: Change,
) -> None:
    proof = proof_of(broken.machine())
    assert not proof.terminates
    assert proof.longest is None


# Bounds that are one too early, and do not end the run themselves


def test_a_compaction_that_is_given_up_one_too_early_is_found() -> None:
    broken = change("reference", "normal", "_enter_round", "attempts < self", "attempts + 1 < self")
    found = violation(
        proof_of(broken.machine()).violations, "max_compaction_attempts", "context-measured:"
    )
    run, asked = replayed(broken.machine(), found.counterexample)
    assert run.compaction_attempts == SMALL.max_compaction_attempts - 1
    assert asked == (effects.CallModel(),)


@pytest.mark.parametrize(("new", "steps"), [(">=", "3"), ("- 1 >", "4")])
def test_a_burst_that_begins_one_too_early_or_too_late_is_found(new: str, steps: str) -> None:
    broken = change("reference", "burst", "_take_reply", "signal.steps >", f"signal.steps {new}")
    found = violation(proof_of(broken.machine()).violations, steps, "burst")
    assert isinstance(
        replayed(broken.machine(), found.counterexample)[0].state, states.CallingModel
    )


def test_a_counter_that_ends_the_run_where_it_rises_may_not_end_it_one_early() -> None:
    """The end does not name the limit, so only the same move with one less tells."""
    broken = change(
        "reference", "one-early", "_recover",
        "max_error_count:", "max_error_count - 1:",
        ', "max_error_count")', ")",
    )  # fmt: skip
    limits = Limits(max_steps=3, max_error_count=4, max_compaction_attempts=2)
    violation(proof_of(broken.machine(limits), limits).violations, "error_count", "ends")


# Traps


@pytest.mark.parametrize(
    ("loop", "stuck", "asks", "by"),
    [
        ("reference", states.Measuring, effects.MeasureContext(), MEASURED),
        ("pi", states.Measuring, effects.MeasureContext(), MEASURED),
        ("pi", states.ClosingStep, effects.CloseStep(keep=True), [signals.StepClosed()]),
        ("opencode", Turning, effects.MeasureContext(), MEASURED),
    ],
)
def test_a_state_that_can_be_left_only_for_itself_goes_round_and_has_no_end(
    loop: str, stuck: type[Struct], asks: Effect, by: list[Signal]
) -> None:
    machine = Staying(machine_for(loop, SMALL), stuck, asks, *by)
    proof = proof_of(machine)
    assert goes_round(machine, proof.lasso)
    found = violation(proof.violations, "no", "way", "end")
    run, _ = replayed(machine, found.counterexample)
    assert type(run.state) is stuck
    assert NAMES[stuck] in found.what


# Runs by themselves


def test_a_wait_before_the_first_failure_is_found() -> None:
    broken = change("reference", "wait", "_recover", "Backoff(failed.", "Backoff(run.")
    found = violation(
        proof_of(broken.machine()).violations, "backing-off", "waits", "0", "failures"
    )
    assert replayed(broken.machine(), found.counterexample)[1] == (effects.Backoff(0),)


def test_a_bound_on_a_counter_of_its_own_can_be_proved() -> None:
    class Own(Run, frozen=True, gc=False):
        tries: int = 0

    class Tries(OneCall):
        bounds: Mapping[str, Bound] = {"max_tries": Bound("tries", 2)}
        late = 0

        def start(self) -> Run:
            return Own(states.Ready())

        def ends(self, run: Run) -> Transition:
            assert isinstance(run, Own)
            tried = Own(run.state, tries=run.tries + 1)
            if tried.tries >= 2 + self.late:
                return finish(tried, Outcome.TOO_MANY_ERRORS, "max_tries")
            return tried, self.asks()

    class Late(Tries):
        late = 1

    class Early(Tries):
        late = -1

    assert [w for w in found(Tries()) if "max_tries" in w] == []
    assert any("max_tries" in what for what in found(Late()))
    assert any("max_tries" in what for what in found(Early()))


def test_a_machine_that_remembers_is_found() -> None:
    class Remembering(OneCall):
        calls = 0

        def ends(self, run: Run) -> Transition:
            self.calls += 1
            return finish(run, Outcome.COMPLETED if self.calls < 9 else Outcome.FAILED)

    assert any("not the same twice" in what for what in found(Remembering()))


def test_an_end_without_a_goodbye_or_with_two_is_found() -> None:
    class Mute(OneCall):
        def ends(self, run: Run) -> Transition:
            return super().ends(run)[0], ()

    class Wordy(OneCall):
        def ends(self, run: Run) -> Transition:
            return super().ends(run)[0], (effects.EndRun(), effects.EndRun("Twice."))

    assert any("without exactly one `EndRun`" in what for what in found(Mute()))
    assert any("without exactly one `EndRun`" in what for what in found(Wordy()))


def test_an_end_as_something_that_is_no_outcome_is_found() -> None:
    class Proud(OneCall):
        def ends(self, run: Run) -> Transition:
            return finish(run, "great")  # type: ignore[arg-type]

    assert found(Proud()) == ["finished as 'great', which is no outcome"]


def test_what_is_answered_is_asked_for_last() -> None:
    class First(OneCall):
        def asks(self) -> tuple[Effect, ...]:
            return effects.CallModel(), effects.TakeQueued()

    assert any("not last" in what for what in found(First()))


def test_a_list_of_effects_and_an_effect_of_its_own_do_not_break_exploration() -> None:
    class Lists(OneCall):
        def asks(self) -> Any:
            return [effects.CallModel()]

    class Wash(Struct, frozen=True):
        pass

    class Strange(OneCall):
        def asks(self) -> Any:
            return (Wash(),)

    assert found(Lists()) == []
    assert any("no effect" in what for what in found(Strange()))


def test_coming_back_to_the_start_is_no_way_round() -> None:
    class Back(OneCall):
        def ends(self, run: Run) -> Transition:
            return self.start(), ()

    assert any("cannot be left" in what for what in found(Back()))

"""What a machine has to keep to, and that a machine which does not is found, with the way there."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from broken import SMALL, change, proof_of, replayed
from msgspec import Struct, structs
from test_explore import OneCall, found
from test_explore_broken import violation

from simloop.kernel import effects, signals, states
from simloop.kernel.effects import Effect
from simloop.kernel.limits import Limits
from simloop.kernel.machine import (
    END,
    ENDINGS,
    AbortRule,
    Bound,
    Feature,
    LegalMap,
    Run,
    Transition,
    finish,
)
from simloop.kernel.signals import ModelReplied, Signal
from simloop.kernel.states import (
    CallingModel,
    ClosingStep,
    Compacting,
    Finished,
    Halting,
    Measuring,
    Ready,
    ReplyFacts,
)
from simloop.loops.react import LEGAL, ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.messages import Outcome

# Bounds that are one too early, and do not end the run themselves

TWICE = replace(SMALL, max_compaction_attempts=2)


def test_a_compaction_that_is_given_up_one_too_early_is_found() -> None:
    broken = change("reference", "normal", "_enter_round", "attempts < self", "attempts + 1 < self")
    machine = broken.machine(TWICE)
    found = violation(
        proof_of(machine, TWICE).violations, "max_compaction_attempts", "context-measured:"
    )
    run, asked = replayed(machine, found.counterexample)
    assert run.compaction_attempts == TWICE.max_compaction_attempts - 1
    assert asked == (effects.CallModel(),)


@pytest.mark.parametrize(("new", "steps"), [(">=", "3"), ("- 1 >", "4")])
def test_a_burst_that_begins_one_too_early_or_too_late_is_found(new: str, steps: str) -> None:
    broken = change("reference", "burst", "_take_reply", "signal.steps >", f"signal.steps {new}")
    found = violation(proof_of(broken.machine()).violations, steps, "burst")
    assert isinstance(
        replayed(broken.machine(), found.counterexample)[0].state, states.CallingModel
    )


@pytest.mark.slow
def test_a_counter_that_ends_the_run_where_it_rises_may_not_end_it_one_early() -> None:
    """The end does not name the limit, so only the same move with one less tells."""
    broken = change(
        "reference", "one-early", "_recover",
        "max_error_count:", "max_error_count - 1:",
        ', "max_error_count")', ")",
    )  # fmt: skip
    limits = Limits(max_steps=3, max_error_count=4, max_compaction_attempts=2)
    violation(proof_of(broken.machine(limits), limits).violations, "error_count", "ends")


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


def test_what_is_answered_is_asked_for_last() -> None:
    class First(OneCall):
        def asks(self) -> tuple[Effect, ...]:
            return effects.CallModel(), effects.TakeQueued()

    assert any("not last" in what for what in found(First()))


def test_an_end_that_is_asked_for_in_a_state_that_goes_on_is_found() -> None:
    class Hasty(OneCall):
        def asks(self) -> tuple[Effect, ...]:
            return effects.EndRun(), effects.CallModel()

    assert "calling-model emits EndRun but is not followed by Finished" in found(Hasty())


KINDS: tuple[type[Signal], ...] = Signal.__args__
ANYWHERE: frozenset[type[Struct]] = frozenset({CallingModel, Halting, Finished})
STOPPING: LegalMap = {
    Ready: {signals.Began: frozenset({CallingModel})},
    CallingModel: dict.fromkeys(KINDS, ANYWHERE),
    Halting: dict.fromkeys(KINDS, END),
    Finished: {},
}
EVERYTHING: dict[type[Struct], frozenset[type[Struct]]] = dict.fromkeys(KINDS, ANYWHERE)
LAST_CALL = AbortRule(frozenset({effects.CallModel}))


class Stopping(OneCall):
    """One call with hooks; `on` says as what a run ends that is stopped, and what it asks first."""

    legal = STOPPING
    unsupported: Mapping[Feature, str] = {}

    def __init__(
        self,
        on: Mapping[type[Struct], Outcome] | None = None,
        last: Effect | None = None,
        rule: AbortRule | None = None,
    ) -> None:
        self.on: dict[type[Struct], Outcome] = {
            signals.AbortRequested: Outcome.ABORTED,
            signals.WallClockExpired: Outcome.TIMED_OUT,
            signals.HookFailed: Outcome.FAILED,
            signals.CallBlocked: Outcome.BLOCKED,
            **({} if on is None else on),
        }
        self.last = last
        if rule is not None:
            self.abort_rule = rule

    def advance(self, run: Run, signal: Signal) -> Transition:
        aborted = isinstance(signal, signals.AbortRequested)
        if aborted and self.last is not None and not isinstance(run.state, Halting):
            return run.to(Halting()), (self.last,)
        outcome = self.on.get(type(signal))
        if outcome is None and isinstance(run.state, Halting):
            outcome = self.on[signals.AbortRequested]
        return super().advance(run, signal) if outcome is None else finish(run, outcome)


ABORTED_CALL = effects.CallModel(aborted=True)


def test_a_run_that_ends_as_the_signal_says_breaks_no_rule() -> None:
    assert found(Stopping()) == []


@pytest.mark.parametrize(
    ("signal", "outcome"),
    [
        (signals.HookFailed, Outcome.COMPLETED),
        (signals.HookFailed, Outcome.ABORTED),
        (signals.WallClockExpired, Outcome.FAILED),
    ],
)
def test_a_failed_hook_and_the_wall_clock_have_outcomes_of_their_own(
    signal: type[Signal], outcome: Outcome
) -> None:
    (what,) = found(Stopping({signal: outcome}))
    assert f"ends the run as {outcome}, not as" in what


def test_a_call_after_an_abort_is_allowed_if_it_is_declared() -> None:
    assert found(Stopping(last=ABORTED_CALL, rule=LAST_CALL)) == []
    assert found(Stopping(last=ABORTED_CALL)) == ["halting asks for call-model after an abort"]


def test_a_call_after_an_abort_that_asks_the_model_cannot_be_declared() -> None:
    asking = Stopping(last=effects.CallModel(), rule=LAST_CALL)
    assert found(asking) == ["halting asks for call-model after an abort"]


def test_an_aborted_run_ends_only_as_it_declares() -> None:
    completes: dict[type[Struct], Outcome] = {signals.AbortRequested: Outcome.COMPLETED}
    either = AbortRule(outcomes=frozenset({Outcome.ABORTED, Outcome.COMPLETED}))
    assert found(Stopping(completes)) == ["a run ends as completed after an abort"]
    assert found(Stopping(completes, rule=either)) == []


def test_what_is_asked_for_two_signals_after_an_abort_is_found_too() -> None:
    class Later(Stopping):
        def advance(self, run: Run, signal: Signal) -> Transition:
            if isinstance(run.state, Halting) and isinstance(signal, signals.ModelFailed):
                return run.to(CallingModel()), (effects.CallModel(),)
            return super().advance(run, signal)

    machine = Later(last=ABORTED_CALL, rule=LAST_CALL)
    machine.legal = {**STOPPING, Halting: EVERYTHING}
    assert found(machine) == ["calling-model asks for call-model after an abort"]


def test_an_aborted_run_that_repeats_a_declared_call_is_found_though_it_never_ends() -> None:
    class Again(Stopping):
        def advance(self, run: Run, signal: Signal) -> Transition:
            if isinstance(run.state, Halting) and isinstance(signal, signals.ModelFailed):
                return run, (ABORTED_CALL,)
            return super().advance(run, signal)

    machine = Again(last=ABORTED_CALL, rule=LAST_CALL)
    machine.legal = {**STOPPING, Halting: EVERYTHING}
    assert found(machine) == ["a run may never end after an abort"]


LIMITS = Limits(max_steps=5, max_error_count=2, max_compaction_attempts=1, max_steps_per_round=2)


def test_a_machine_that_takes_no_notice_of_bursts_breaks_no_rule() -> None:
    assert found(ReactLoop(LIMITS), LIMITS) == []


def test_a_burst_that_begins_later_once_there_was_an_error_is_found() -> None:
    class Later(ReferenceLoop):
        def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
            if run.error_count and signal.steps == LIMITS.max_steps_per_round + 1:
                after, asked = super()._take_reply(run, _plain(signal))
                return Run(after.state, after.error_count, run.total_steps + signal.steps), asked
            return super()._take_reply(run, signal)

    assert "3 steps of a reply are not taken for a burst" in found(Later(LIMITS), LIMITS)


def test_a_burst_that_goes_unnoticed_after_a_compaction_is_found() -> None:
    class Unnoticed(ReferenceLoop):
        def _take_reply(self, run: Run, signal: ModelReplied) -> Transition:
            if run.compaction_attempts:
                return super()._take_reply(run, _plain(signal))
            return super()._take_reply(run, signal)

    what = "calling-model takes notice of a burst at some counts, and not here"
    assert what in found(Unnoticed(LIMITS), LIMITS)


def test_a_burst_that_is_noticed_and_goes_on_is_found() -> None:
    class Careless(ReferenceLoop):
        def _follow(self, run: Run, reply: ReplyFacts, *, queued: bool) -> Transition:
            if reply.burst and reply.finish == "length" and not run.compaction_attempts:
                return run.to(Compacting(forced=True)), (effects.Compact(forced=True),)
            return super()._follow(run, reply, queued=queued)

    assert "a run asks for compact after a burst" in found(Careless(LIMITS), LIMITS)


def _plain(reply: ModelReplied) -> ModelReplied:
    """The reply as if it reported one step."""
    return structs.replace(reply, steps=1)


ROUNDS = Limits(max_steps=3, max_steps_per_round=2)


MEASURES: LegalMap = {
    **LEGAL,
    ClosingStep: {
        **LEGAL[ClosingStep],
        signals.StepClosed: frozenset({CallingModel, Measuring, Finished}),
    },
    Measuring: {signals.ContextMeasured: frozenset({CallingModel}), **ENDINGS},
}


class LastMeasures(ReactLoop):
    """Before the last round it looks at the context, and then goes on all the same."""

    legal = MEASURES

    def advance(self, run: Run, signal: Signal) -> Transition:
        if isinstance(signal, signals.ContextMeasured):
            return self.measured(run)
        return super().advance(run, signal)

    def measured(self, run: Run) -> Transition:
        return run.to(CallingModel()), (effects.CallModel(),)

    def _go_on(self, run: Run) -> Transition:
        if run.total_steps == self.max_rounds - 1:
            return run.to(Measuring()), (effects.MeasureContext(),)
        return super()._go_on(run)


ENDS: LegalMap = {
    **MEASURES,
    Measuring: {signals.ContextMeasured: END, **ENDINGS},
}


class EndsInstead(LastMeasures):
    """It looks at the context, and ends one round too early."""

    legal = ENDS

    def measured(self, run: Run) -> Transition:
        return finish(run, Outcome.MAX_STEPS)


def test_a_last_try_that_begins_in_another_way_is_no_finding() -> None:
    assert found(LastMeasures(ROUNDS), ROUNDS) == []


def test_a_last_try_that_looks_and_then_ends_is_found() -> None:
    assert any("total_steps" in what for what in found(EndsInstead(ROUNDS), ROUNDS))


class Noted(Struct, frozen=True, gc=False):
    """What a reply reported, in words of its own."""

    steps: int


KEEPS: LegalMap = {
    **OneCall.legal,
    CallingModel: {**OneCall.legal[CallingModel], signals.ModelReplied: frozenset({Noted})},
    Noted: {signals.StepClosed: END, **ENDINGS},
}


class Keeping(OneCall):
    """It keeps a number made of the steps in its state, and makes nothing of bursts."""

    legal = KEEPS
    most = 3

    def advance(self, run: Run, signal: Signal) -> Transition:
        if isinstance(signal, signals.ModelReplied):
            kept = min(signal.steps, self.most)
            return run.to(Noted(kept)), (effects.CloseStep(keep=True),)
        if isinstance(signal, signals.StepClosed):
            return finish(run, Outcome.COMPLETED)
        return super().advance(run, signal)


@pytest.mark.parametrize("most", [3, 50])
@pytest.mark.parametrize("limit", [2, 20])
def test_a_number_that_a_state_keeps_is_no_burst(most: int, limit: int) -> None:
    machine = Keeping()
    machine.most = most
    given: Mapping[str, int] = {"max_steps_per_round": limit}
    assert found(machine, Limits(**given)) == []

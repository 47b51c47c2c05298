"""After an abort, a failed hook and the end of the wall clock a run does only what is declared."""

from collections.abc import Mapping

import pytest
from msgspec import Struct
from test_explore import OneCall, found

from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.machine import END, AbortRule, Feature, LegalMap, Run, Transition, finish
from simloop.kernel.signals import Signal
from simloop.kernel.states import CallingModel, Finished, Halting, Ready
from simloop.messages import Outcome

KINDS: tuple[type[Signal], ...] = Signal.__args__
ANYWHERE: frozenset[type[Struct]] = frozenset({CallingModel, Halting, Finished})
LEGAL: LegalMap = {
    Ready: {signals.Began: frozenset({CallingModel})},
    CallingModel: dict.fromkeys(KINDS, ANYWHERE),
    Halting: dict.fromkeys(KINDS, END),
    Finished: {},
}
EVERYTHING: dict[type[Struct], frozenset[type[Struct]]] = dict.fromkeys(KINDS, ANYWHERE)
LAST_CALL = AbortRule(frozenset({effects.CallModel}))


class Stopping(OneCall):
    """One call with hooks; `on` says as what a run ends that is stopped, and what it asks first."""

    legal = LEGAL
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
    machine.legal = {**LEGAL, Halting: EVERYTHING}
    assert found(machine) == ["calling-model asks for call-model after an abort"]


def test_an_aborted_run_that_repeats_a_declared_call_is_found_though_it_never_ends() -> None:
    class Again(Stopping):
        def advance(self, run: Run, signal: Signal) -> Transition:
            if isinstance(run.state, Halting) and isinstance(signal, signals.ModelFailed):
                return run, (ABORTED_CALL,)
            return super().advance(run, signal)

    machine = Again(last=ABORTED_CALL, rule=LAST_CALL)
    machine.legal = {**LEGAL, Halting: EVERYTHING}
    assert found(machine) == ["a run may never end after an abort"]

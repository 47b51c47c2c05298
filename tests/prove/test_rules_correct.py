"""Machines that are unusual and correct break no rule; what only looks like them does."""

from collections.abc import Mapping

import pytest
from msgspec import Struct
from test_explore import OneCall, found

from simloop.kernel import effects, signals
from simloop.kernel.limits import Limits
from simloop.kernel.machine import (
    END,
    ENDINGS,
    LegalMap,
    Run,
    Transition,
    finish,
)
from simloop.kernel.signals import Signal
from simloop.kernel.states import CallingModel, ClosingStep, Finished, Measuring
from simloop.loops.react import LEGAL, ReactLoop
from simloop.messages import Outcome

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

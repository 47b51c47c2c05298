"""A counter of a bound counts each time by one, and decides only where the bound says so."""

from collections.abc import Mapping
from typing import Any

import pytest
from test_explore import OneCall, found

from simloop.kernel import effects, signals
from simloop.kernel.limits import Limits
from simloop.kernel.machine import END, ENDINGS, Bound, LegalMap, Run, Transition, finish
from simloop.kernel.signals import Signal
from simloop.kernel.states import BackingOff, CallingModel, Finished, Ready
from simloop.messages import Outcome

LIMITS = Limits(max_steps_per_round=1)
ROUND: LegalMap = {
    Ready: {signals.Began: frozenset({CallingModel})},
    CallingModel: {
        signals.ModelReplied: frozenset({CallingModel, Finished}),
        signals.ModelFailed: frozenset({CallingModel, BackingOff, Finished}),
        **ENDINGS,
    },
    BackingOff: {signals.BackoffElapsed: frozenset({CallingModel}) | END, **ENDINGS},
    Finished: {},
}


class Retrying(OneCall):
    """It tries a failed call again, six times in all, and any reply is the answer."""

    legal = ROUND
    most = 6

    def __init__(self, *, resets: bool = False) -> None:
        self.bounds: Mapping[str, Bound] = {"max_tries": Bound("error_count", self.most, resets)}

    def advance(self, run: Run, signal: Signal) -> Transition:
        if isinstance(signal, signals.ModelFailed):
            return self.fails(self.count(run))
        if isinstance(signal, signals.BackoffElapsed):
            return run.to(CallingModel()), self.asks()
        return super().advance(run, signal)

    def count(self, run: Run) -> Run:
        return Run(run.state, run.error_count + 1, run.total_steps)

    def fails(self, run: Run) -> Transition:
        if run.error_count >= self.most:
            return finish(run, Outcome.TOO_MANY_ERRORS, "max_tries")
        return self.waits(run)

    def waits(self, run: Run) -> Transition:
        return run.to(BackingOff()), (effects.Backoff(max(run.error_count, 1)),)


def test_a_machine_that_counts_each_failure_once_breaks_no_rule() -> None:
    assert found(Retrying(), LIMITS) == []


@pytest.mark.parametrize(("step", "verb"), [(2, "rises from 0 to 2"), (-1, "falls from 3 to 2")])
def test_a_counter_that_jumps_or_falls_is_found(step: int, verb: str) -> None:
    class Jumping(Retrying):
        def count(self, run: Run) -> Run:
            by = step if step > 1 or run.error_count == 3 else 1
            return Run(run.state, run.error_count + by)

    assert f"calling-model on model-failed: error_count {verb}" in found(Jumping(), LIMITS)


class Forgetting(Retrying):
    """It counts the failures in a row: a reply is followed by another call, three times."""

    def ends(self, run: Run) -> Transition:
        if run.total_steps == 2:
            return super().ends(run)
        return Run(CallingModel(), total_steps=run.total_steps + 1), self.asks()


def test_a_counter_may_fall_if_its_bound_says_that_it_resets() -> None:
    assert found(Forgetting(resets=True), LIMITS) == []
    (what, *_) = found(Forgetting(), LIMITS)
    assert "error_count falls from 1 to 0" in what


def test_a_wait_that_is_not_counted_is_found() -> None:
    class Free(Retrying):
        def fails(self, run: Run) -> Transition:
            if run.error_count == 4 and not run.total_steps:
                return self.waits(Run(run.state, 3, total_steps=1))
            return super().fails(run)

    assert "backoff is asked for twice while error_count stays 3" in found(Free(), LIMITS)


def test_a_count_that_decides_far_from_its_bound_is_found_unless_it_is_a_threshold() -> None:
    class Changing(Retrying):
        thresholds: Mapping[str, Any] = {}

        def asks(self) -> tuple[effects.Effect, ...]:
            return (effects.CallModel(),)

        def waits(self, run: Run) -> Transition:
            if run.error_count >= 3:
                return run.to(CallingModel()), self.asks()
            return super().waits(run)

    class Ending(Retrying):
        thresholds: Mapping[str, Bound] = {}

        def advance(self, run: Run, signal: Signal) -> Transition:
            if isinstance(signal, signals.BackoffElapsed) and run.error_count >= 3:
                return finish(run, Outcome.FAILED)
            return super().advance(run, signal)

    (what,) = found(Changing(), LIMITS)
    assert what == (
        "calling-model on model-failed: error_count 2 and 0 go different ways, far from a bound"
    )
    machine = Ending()
    (what,) = found(machine, LIMITS)
    assert "error_count 3 and 1 go different ways" in what
    machine.thresholds = {"gives_up": Bound("error_count", 3)}
    assert found(machine, LIMITS) == []


def test_the_last_try_is_waited_for_as_those_before_it() -> None:
    class Hasty(Retrying):
        def waits(self, run: Run) -> Transition:
            if run.error_count == self.most - 1:
                return run.to(CallingModel()), self.asks()
            return super().waits(run)

    assert len(found(Hasty(), LIMITS)) == 1


def test_a_counter_that_bounds_nothing_may_do_as_it_likes() -> None:
    class Unbounded(Forgetting):
        def __init__(self) -> None:
            self.bounds = {}

        def count(self, run: Run) -> Run:
            return Run(run.state, min(run.error_count + 2, 9), run.total_steps)

    assert found(Unbounded(), LIMITS) == []


class Carrying(Retrying):
    """A machine that begins its next run with the failures of the last."""

    carried = 0

    def start(self) -> Run:
        return Run(Ready(), error_count=self.carried)

    def advance(self, run: Run, signal: Signal) -> Transition:
        moved = super().advance(run, signal)
        if isinstance(moved[0].state, Finished):
            self.carried = moved[0].error_count
        return moved


def test_a_next_run_that_does_not_begin_as_the_first_is_found() -> None:
    (what,) = found(Carrying(), LIMITS)
    assert what == "the next run does not begin as the first: error_count"

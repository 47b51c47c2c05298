"""The reference loop makes room: when, how often, and what if it gains nothing."""

import pytest
from arrivals import (
    FITS,
    LENGTH,
    MEASURE,
    NO_GAIN,
    OVER,
    OVERFLOW,
    SHRUNK,
    TOOLS,
    Signals,
    ending,
    play,
    replied,
    state_after,
)

from simloop.kernel import effects, states
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Run
from simloop.kernel.signals import ContextCompacted, ModelFailed
from simloop.messages import Outcome


def test_a_context_over_the_trigger_is_compacted() -> None:
    assert play(OVER) == (
        Run(states.Compacting(forced=False)),
        (effects.Compact(forced=False),),
    )


@pytest.mark.parametrize(
    "cause", [LENGTH, replied("length", calls=True), OVERFLOW], ids=["length", "calls", "overflow"]
)
class TestACauseOfForcedCompaction:
    def test_forces_one(self, cause: Signals) -> None:
        run, asked = play(*cause)
        assert (run.state, asked) == (
            states.Compacting(forced=True),
            (effects.Compact(forced=True),),
        )

    def test_is_no_error(self, cause: Signals) -> None:
        assert play(*cause)[0].error_count == 0

    def test_ends_the_run_when_the_attempts_are_used_up(self, cause: Signals) -> None:
        ended = states.Finished(Outcome.CONTEXT_LIMIT, "max_compaction_attempts")
        assert ending(OVER, SHRUNK, *cause, max_compaction_attempts=1) == ended

    def test_ends_the_run_without_a_compaction_where_none_is_allowed(self, cause: Signals) -> None:
        assert ending(*cause, max_compaction_attempts=0).outcome is Outcome.CONTEXT_LIMIT

    def test_ends_the_run_when_compaction_gains_nothing(self, cause: Signals) -> None:
        assert ending(*cause, NO_GAIN).outcome is Outcome.CONTEXT_LIMIT

    def test_starts_the_round_again_when_compaction_gains(self, cause: Signals) -> None:
        run, asked = play(*cause, SHRUNK)
        assert (run.state, asked) == (states.Measuring(), MEASURE)

    def test_for_ever_ends_the_run_by_the_attempts(self, cause: Signals) -> None:
        arrivals = (*cause, SHRUNK, *cause, SHRUNK, *cause)
        assert ending(*arrivals, max_compaction_attempts=2).limit == "max_compaction_attempts"


def test_an_overflow_makes_room_even_if_the_policy_would_retry_it() -> None:
    overflow = ModelFailed(ErrorClass.OVERFLOW, retryable=True)
    assert state_after(FITS, overflow) == states.Compacting(forced=True)


def test_a_compacted_context_is_measured_again() -> None:
    assert play(OVER, SHRUNK) == (
        Run(states.Measuring(), compaction_attempts=1),
        MEASURE,
    )


def test_a_normal_compaction_without_gain_goes_on_to_the_model() -> None:
    assert play(OVER, NO_GAIN) == (
        Run(states.CallingModel(), compaction_attempts=1),
        (effects.CallModel(),),
    )


@pytest.mark.parametrize("cause", [(OVER,), LENGTH], ids=["normal", "forced"])
@pytest.mark.parametrize("result", [SHRUNK, NO_GAIN], ids=["shrunk", "no-gain"])
def test_a_compaction_counts_whether_or_not_it_helps(
    cause: Signals, result: ContextCompacted
) -> None:
    assert play(*cause, result)[0].compaction_attempts == 1


def test_when_the_attempts_are_used_up_an_oversized_context_is_sent() -> None:
    assert state_after(OVER, SHRUNK, OVER, max_compaction_attempts=1) == states.CallingModel()


def test_with_no_attempts_an_oversized_context_is_sent() -> None:
    assert play(OVER, max_compaction_attempts=0) == (
        Run(states.CallingModel()),
        (effects.CallModel(),),
    )


def test_the_last_attempt_is_still_made() -> None:
    arrivals = (OVER, SHRUNK, OVER)
    assert state_after(*arrivals, max_compaction_attempts=2) == states.Compacting(forced=False)


def test_the_last_attempt_may_be_a_forced_one() -> None:
    arrivals = (OVER, SHRUNK, *LENGTH)
    assert state_after(*arrivals, max_compaction_attempts=2) == states.Compacting(forced=True)


def test_normal_and_forced_compactions_share_their_attempts() -> None:
    assert play(OVER, SHRUNK, *LENGTH, SHRUNK)[0].compaction_attempts == 2


def test_a_success_does_not_reset_the_attempts() -> None:
    assert play(OVER, SHRUNK, *TOOLS)[0].compaction_attempts == 1


def test_length_at_the_last_step_does_not_compact_for_nothing() -> None:
    assert ending(*LENGTH, max_steps=1) == states.Finished(Outcome.MAX_STEPS, "max_steps")


@pytest.mark.parametrize(
    "limits", [{"max_steps": 1}, {"max_steps_per_round": 1}], ids=["last-step", "burst"]
)
def test_length_that_could_not_go_on_anyway_ends_by_the_context(limits: dict[str, int]) -> None:
    length = replied("length", steps=2)
    ended = ending(*length, max_compaction_attempts=0, **limits)
    assert ended.outcome is Outcome.CONTEXT_LIMIT

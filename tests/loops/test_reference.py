"""The reference loop: what each counter counts, what each limit ends, and who goes first."""

import pytest
from arrivals import (
    ANSWER,
    EMPTY,
    FITS,
    LENGTH,
    MEASURE,
    OVER,
    RATE_LIMITED,
    REFUSED,
    SHRUNK,
    TOOLS,
    WAITED,
    Signals,
    ending,
    play,
    replied,
    state_after,
)

from simloop.kernel import effects, states
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Run
from simloop.kernel.signals import ModelFailed
from simloop.loops.reference import ReferenceLoop
from simloop.messages import Outcome

# The beginning


def test_a_run_starts_ready_with_nothing_spent() -> None:
    assert ReferenceLoop().start() == Run(states.Ready(), 0, 0, 0)


def test_a_loop_without_limits_has_the_documents_limits() -> None:
    assert ReferenceLoop().limits == Limits()


def test_a_prompt_makes_the_loop_hear_the_user_out_and_measure_the_context() -> None:
    assert play() == (Run(states.Measuring()), MEASURE)


def test_a_context_that_fits_is_sent_to_the_model() -> None:
    assert play(FITS) == (Run(states.CallingModel()), (effects.CallModel(),))


# Errors


def test_the_third_error_ends_the_run_with_max_error_count_3() -> None:
    failures = (*RATE_LIMITED, WAITED, *RATE_LIMITED, WAITED, *RATE_LIMITED)
    ended = states.Finished(Outcome.TOO_MANY_ERRORS, "max_error_count")
    assert ending(*failures, max_error_count=3) == ended


def test_the_second_error_is_tried_again_with_max_error_count_3() -> None:
    failures = (*RATE_LIMITED, WAITED, *RATE_LIMITED)
    assert state_after(*failures, max_error_count=3) == states.BackingOff()


@pytest.mark.parametrize("failures", [1, 2, 3, 4])
def test_a_backoff_carries_the_ordinal_of_the_failure(failures: int) -> None:
    arrivals = (*RATE_LIMITED, WAITED) * (failures - 1) + RATE_LIMITED
    _, asked = play(*arrivals, max_error_count=9)
    assert asked == (effects.Backoff(failures),)


def test_after_a_backoff_the_round_starts_at_the_top() -> None:
    assert play(*RATE_LIMITED, WAITED) == (
        Run(states.Measuring(), error_count=1),
        MEASURE,
    )


def test_the_error_count_goes_before_the_policy() -> None:
    assert ending(*REFUSED, max_error_count=1).outcome is Outcome.TOO_MANY_ERRORS


def test_an_error_that_the_policy_does_not_retry_ends_the_run() -> None:
    assert ending(*REFUSED) == states.Finished(Outcome.FAILED)


@pytest.mark.parametrize("failure", [RATE_LIMITED, REFUSED], ids=["retried", "given-up"])
def test_a_failed_call_is_an_error_and_no_step(failure: Signals) -> None:
    run, _ = play(*failure)
    assert (run.error_count, run.total_steps) == (1, 0)


def test_the_policys_word_decides_whatever_the_class() -> None:
    arrivals = (FITS, ModelFailed(ErrorClass.AUTH, retryable=True))
    assert state_after(*arrivals) == states.BackingOff()


def test_a_success_does_not_reset_the_error_count() -> None:
    once = (*RATE_LIMITED, WAITED, *TOOLS)
    ended = ending(*once, *once, *RATE_LIMITED, max_error_count=3)
    assert ended.outcome is Outcome.TOO_MANY_ERRORS


def test_a_compaction_does_not_reset_the_error_count() -> None:
    run, _ = play(*RATE_LIMITED, WAITED, OVER, SHRUNK)
    assert run.error_count == 1


@pytest.mark.parametrize(
    "useless",
    [
        pytest.param(EMPTY, id="empty-reply"),
        pytest.param(replied("other", text=False), id="unknown-reason-and-empty"),
        pytest.param(replied("tool-calls"), id="tool-calls-without-calls"),
        pytest.param(replied("interrupted"), id="no-finish"),
        pytest.param(replied("interrupted", calls=True), id="no-finish-but-calls"),
    ],
)
class TestAUselessReply:
    def test_is_an_error_and_a_step(self, useless: Signals) -> None:
        run, _ = play(*useless)
        assert (run.state, run.error_count, run.total_steps) == (states.BackingOff(), 1, 1)

    def test_for_ever_ends_the_run_by_the_error_count(self, useless: Signals) -> None:
        assert ending(*useless, WAITED, *useless, WAITED, *useless).limit == "max_error_count"

    def test_shares_its_count_with_failed_calls(self, useless: Signals) -> None:
        assert ending(*RATE_LIMITED, WAITED, *useless, max_error_count=2).limit == "max_error_count"

    def test_at_the_last_step_ends_the_run_by_the_steps(self, useless: Signals) -> None:
        assert ending(*useless, max_steps=1).limit == "max_steps"

    def test_at_the_last_step_and_the_last_error_ends_by_the_errors(self, useless: Signals) -> None:
        assert ending(*useless, max_steps=1, max_error_count=1).limit == "max_error_count"


# Steps


def test_one_step_under_the_limit_goes_on() -> None:
    assert state_after(*TOOLS, *TOOLS, max_steps=3) == states.Measuring()


def test_the_step_that_reaches_the_limit_ends_the_run() -> None:
    ended = states.Finished(Outcome.MAX_STEPS, "max_steps")
    assert ending(*TOOLS, *TOOLS, *TOOLS, max_steps=3) == ended


def test_a_reply_that_jumps_over_the_limit_ends_the_run() -> None:
    two_steps = replied("tool-calls", calls=True, steps=2)
    assert ending(*two_steps, *two_steps, max_steps=3).limit == "max_steps"


def test_the_calls_of_the_last_step_are_still_run() -> None:
    assert play(*TOOLS[:2], max_steps=1)[1] == (effects.RunTools(),)


def test_an_answer_at_the_last_step_completes_the_run() -> None:
    assert ending(*TOOLS, *ANSWER, max_steps=2) == states.Finished(Outcome.COMPLETED)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_reply_counts_the_steps_that_it_reports(steps: int) -> None:
    run, _ = play(*TOOLS, *replied("tool-calls", calls=True, steps=steps))
    assert run.total_steps == 1 + steps


def test_steps_are_counted_when_the_reply_arrives() -> None:
    run, _ = play(*TOOLS[:2])
    assert run.total_steps == 1


@pytest.mark.parametrize(
    "event",
    [(*RATE_LIMITED, WAITED), (OVER, SHRUNK), (*LENGTH, SHRUNK)],
    ids=["error", "compaction", "length"],
)
def test_nothing_resets_the_steps(event: Signals) -> None:
    before, _ = play(*TOOLS)
    after, _ = play(*TOOLS, *event)
    assert after.total_steps >= before.total_steps == 1


def test_a_reply_of_as_many_steps_as_a_round_may_have_goes_on() -> None:
    reply = replied("tool-calls", calls=True, steps=5)
    assert state_after(*reply, max_steps_per_round=5) == states.Measuring()


def test_a_reply_of_more_steps_than_a_round_may_have_ends_the_run_as_a_burst() -> None:
    reply = replied("tool-calls", calls=True, steps=6)
    ended = states.Finished(Outcome.MAX_STEPS, "max_steps_per_round")
    assert ending(*reply, max_steps_per_round=5) == ended


def test_a_burst_over_both_limits_is_called_a_burst() -> None:
    reply = replied("tool-calls", calls=True, steps=6)
    assert ending(*reply, max_steps_per_round=5, max_steps=6).limit == "max_steps_per_round"


def test_accumulation_is_not_called_a_burst() -> None:
    rounds = replied("tool-calls", calls=True, steps=5) * 2
    assert ending(*rounds, max_steps_per_round=5, max_steps=10).limit == "max_steps"


def test_a_burst_that_answers_completes_the_run() -> None:
    reply = replied("stop", steps=6)
    assert ending(*reply, max_steps_per_round=5).outcome is Outcome.COMPLETED

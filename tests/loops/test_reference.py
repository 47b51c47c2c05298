"""The reference loop: what each counter counts, what each limit ends, and who goes first."""

from typing import get_args

import pytest

from simloop.errors import InternalError, SimloopError
from simloop.kernel import effects, states
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import IllegalSignal, Run, Transition
from simloop.kernel.signals import (
    AbortRequested,
    BackoffElapsed,
    Began,
    CallBlocked,
    ContextCompacted,
    ContextMeasured,
    HookFailed,
    ModelFailed,
    ModelReplied,
    Signal,
    StepClosed,
    ToolsReturned,
    WallClockExpired,
)
from simloop.kernel.states import State
from simloop.loops.reference import ReferenceLoop
from simloop.messages import FinishReason, Outcome

Signals = tuple[Signal, ...]

FITS, OVER = ContextMeasured(over=False), ContextMeasured(over=True)
SHRUNK, NO_GAIN = ContextCompacted(shrunk=True), ContextCompacted(shrunk=False)
WAITED = BackoffElapsed()
RATE_LIMITED: Signals = (FITS, ModelFailed(ErrorClass.RATE_LIMIT, retryable=True))
REFUSED: Signals = (FITS, ModelFailed(ErrorClass.AUTH, retryable=False))
OVERFLOW: Signals = (FITS, ModelFailed(ErrorClass.OVERFLOW, retryable=False))


def replied(finish: str, *, text: bool = True, calls: bool = False, steps: int = 1) -> Signals:
    """Play one whole step."""
    answered = (ToolsReturned(),) if calls else ()
    reply = ModelReplied(FinishReason(finish), text, calls, steps)
    return (FITS, reply, *answered, StepClosed())


TOOLS = replied("tool-calls", calls=True)
ANSWER = replied("stop")
LENGTH = replied("length")
EMPTY = replied("stop", text=False)

# One way into each state, without `Began`.
WAYS: dict[type, Signals] = {
    states.Measuring: (),
    states.Compacting: (OVER,),
    states.CallingModel: (FITS,),
    states.RunningTools: TOOLS[:2],
    states.ClosingStep: TOOLS[:3],
    states.BackingOff: RATE_LIMITED,
}


def play(*arrivals: Signal, **limits: int) -> Transition:
    """Take a run from its beginning through `arrivals`; the last transition."""
    loop = ReferenceLoop(Limits(**limits))
    moved = loop.advance(loop.start(), Began())
    for signal in arrivals:
        moved = loop.advance(moved[0], signal)
    return moved


def ending(*arrivals: Signal, **limits: int) -> states.Finished:
    """Where the run ended, which it must."""
    run, asked = play(*arrivals, **limits)
    assert isinstance(run.state, states.Finished)
    assert asked == (effects.Finish(run.state.outcome),)
    return run.state


def state_after(*arrivals: Signal, **limits: int) -> State:
    return play(*arrivals, **limits)[0].state


# The beginning


def test_a_run_starts_ready_with_nothing_spent() -> None:
    assert ReferenceLoop().start() == Run(states.Ready(), 0, 0, 0)


def test_a_loop_without_limits_has_the_documents_limits() -> None:
    assert ReferenceLoop().limits == Limits()


def test_a_prompt_makes_the_loop_measure_the_context() -> None:
    assert play() == (Run(states.Measuring()), (effects.MeasureContext(),))


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
        (effects.MeasureContext(),),
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


# Compaction


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
        assert (run.state, asked) == (states.Measuring(), (effects.MeasureContext(),))

    def test_for_ever_ends_the_run_by_the_attempts(self, cause: Signals) -> None:
        arrivals = (*cause, SHRUNK, *cause, SHRUNK, *cause)
        assert ending(*arrivals, max_compaction_attempts=2).limit == "max_compaction_attempts"


def test_an_overflow_makes_room_even_if_the_policy_would_retry_it() -> None:
    overflow = ModelFailed(ErrorClass.OVERFLOW, retryable=True)
    assert state_after(FITS, overflow) == states.Compacting(forced=True)


def test_a_compacted_context_is_measured_again() -> None:
    assert play(OVER, SHRUNK) == (
        Run(states.Measuring(), compaction_attempts=1),
        (effects.MeasureContext(),),
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


# Hooks, abort, wall clock


@pytest.mark.parametrize("state", [states.CallingModel, states.RunningTools, states.ClosingStep])
def test_a_hook_that_fails_the_run_ends_it(state: type) -> None:
    assert ending(*WAYS[state], HookFailed()) == states.Finished(Outcome.FAILED)


def test_a_hook_that_fails_the_run_is_no_error_of_the_model() -> None:
    assert play(FITS, HookFailed())[0].error_count == 0


def test_a_call_that_a_hook_forbids_ends_the_run_as_blocked() -> None:
    assert ending(FITS, CallBlocked()) == states.Finished(Outcome.BLOCKED)


def test_every_state_but_the_first_and_the_last_has_a_way_into_it() -> None:
    assert set(WAYS) == set(get_args(State)) - {states.Ready, states.Finished}


@pytest.mark.parametrize("state", WAYS)
def test_the_way_into_a_state_leads_there(state: type) -> None:
    assert isinstance(state_after(*WAYS[state]), state)


@pytest.mark.parametrize("state", WAYS)
def test_an_abort_ends_the_run_in_any_state(state: type) -> None:
    assert ending(*WAYS[state], AbortRequested()) == states.Finished(Outcome.ABORTED)


@pytest.mark.parametrize("state", WAYS)
def test_the_wall_clock_ends_the_run_in_any_state(state: type) -> None:
    ended = states.Finished(Outcome.TIMED_OUT, "max_wall_clock_ms")
    assert ending(*WAYS[state], WallClockExpired()) == ended


@pytest.mark.parametrize(
    ("signal", "outcome"),
    [(AbortRequested(), Outcome.ABORTED), (WallClockExpired(), Outcome.TIMED_OUT)],
    ids=["abort", "wall-clock"],
)
def test_a_run_may_end_before_it_began(signal: Signal, outcome: Outcome) -> None:
    loop = ReferenceLoop()
    run, asked = loop.advance(loop.start(), signal)
    assert isinstance(run.state, states.Finished)
    assert (run.state.outcome, asked) == (outcome, (effects.Finish(outcome),))


@pytest.mark.parametrize("signal", [AbortRequested(), WallClockExpired()], ids=["abort", "clock"])
def test_an_early_end_keeps_what_was_spent(signal: Signal) -> None:
    spent = (*RATE_LIMITED, WAITED, OVER, SHRUNK, *TOOLS)
    run, _ = play(*spent, signal)
    assert (run.error_count, run.total_steps, run.compaction_attempts) == (1, 1, 1)


def test_an_abort_during_a_compaction_does_not_count_it() -> None:
    assert play(OVER, AbortRequested())[0].compaction_attempts == 0


@pytest.mark.parametrize(
    "signal", [AbortRequested(), WallClockExpired(), Began(), FITS, WAITED], ids=str
)
def test_a_finished_run_ends_only_once(signal: Signal) -> None:
    with pytest.raises(IllegalSignal):
        play(*ANSWER, signal)


# A machine is a function


class Lost(ReferenceLoop):
    """A machine that backs off whatever happens."""

    def _decide(self, run: Run, signal: Signal) -> Transition:  # noqa: ARG002
        return Run(states.BackingOff()), ()


def test_a_move_that_is_not_on_the_map_is_an_internal_error() -> None:
    loop = Lost()
    with pytest.raises(InternalError, match=r"Ready\(\) -> BackingOff\(\) on Began\(\)"):
        loop.advance(loop.start(), Began())


def test_a_refused_signal_leaves_the_run_as_it_was() -> None:
    loop = ReferenceLoop()
    run = loop.start()
    with pytest.raises(SimloopError):
        loop.advance(run, WAITED)
    assert run == loop.start()


def test_the_same_signal_leads_the_same_run_to_the_same_place_every_time() -> None:
    loop = ReferenceLoop()
    run, _ = play(*RATE_LIMITED)
    assert loop.advance(run, WAITED) == loop.advance(run, WAITED)


def test_two_loops_with_equal_limits_are_the_same_machine() -> None:
    run, _ = play(*TOOLS[:3], max_steps=1)
    one, other = (ReferenceLoop(Limits(max_steps=1)) for _ in range(2))
    assert one.advance(run, StepClosed()) == other.advance(run, StepClosed())


def test_two_runs_of_one_loop_do_not_touch_each_other() -> None:
    loop = ReferenceLoop(Limits(max_error_count=1))
    run, _ = loop.advance(loop.start(), Began())
    loop.advance(loop.advance(run, FITS)[0], RATE_LIMITED[1])
    assert loop.advance(run, FITS)[0].error_count == 0

"""What the reference loop asks for, spends and comes to, in every run that it can reach."""

from collections.abc import Mapping

import pytest
from exploration import BOTH, MAX_STEPS_PER_ROUND, ROOMY, moves, under_every_limit, visited

from simloop.kernel import effects, signals, states
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Run
from simloop.kernel.signals import Signal
from simloop.messages import FinishReason, Outcome

# Effects


def awaited(run: Run) -> set[Effect]:
    """List what a run in this state may be waiting for."""
    match run.state:
        case states.Measuring():
            return {effects.MeasureContext()}
        case states.Compacting(forced=forced):
            return {effects.Compact(forced)}
        case states.CallingModel():
            return {effects.CallModel()}
        case states.RunningTools(reply=reply):
            return {effects.RunTools(), effects.RefuseTools(reply.finish)}
        case states.ClosingStep():
            return {effects.CloseStep(keep=keep) for keep in BOTH}
        case states.BackingOff():
            return {effects.Backoff(run.error_count)}
        case states.Finished():
            return {effects.EndRun()}
        case _:
            return set()


@under_every_limit
def test_a_run_always_asks_for_what_its_new_state_waits_for(limits: Limits) -> None:
    for _, _, after, asked in moves(limits):
        assert asked[-1] in awaited(after)


@under_every_limit
def test_what_the_user_said_is_taken_up_before_each_measuring_and_never_else(
    limits: Limits,
) -> None:
    for _, _, after, asked in moves(limits):
        assert (effects.TakeQueued() in asked) == isinstance(after.state, states.Measuring)


@pytest.mark.parametrize("finish", ["length", "content-filter", "error", "interrupted"])
def test_the_calls_of_a_reply_that_was_cut_off_are_never_run(finish: str) -> None:
    for _, signal, _, asked in moves(ROOMY):
        if isinstance(signal, signals.ModelReplied) and signal.finish == finish:
            assert effects.RunTools() not in asked


def test_a_reply_without_text_or_calls_never_stays_in_the_context() -> None:
    for _, signal, _, asked in moves(ROOMY):
        if isinstance(signal, signals.ModelReplied) and not (signal.text or signal.calls):
            assert asked == (effects.CloseStep(keep=False),)


def test_a_run_that_goes_on_never_keeps_a_reply_without_calls() -> None:
    """A request must not end with an assistant message: what goes on needs results after it."""
    kept = (effects.CloseStep(keep=True),)
    for _, signal, after, asked in moves(ROOMY):
        if isinstance(signal, signals.ModelReplied) and asked == kept:
            closed, _ = visited(ROOMY)[after][signals.StepClosed()]
            assert isinstance(closed.state, states.Finished)


def test_a_reply_that_was_interrupted_never_stays_in_the_context() -> None:
    for _, _, after, asked in moves(ROOMY):
        if isinstance(after.state, states.ClosingStep):
            broken = after.state.reply.finish is FinishReason.INTERRUPTED
            assert not (broken and effects.CloseStep(keep=True) in asked)


# Budgets


@under_every_limit
def test_no_budget_is_ever_overspent(limits: Limits) -> None:
    for run in visited(limits):
        assert 0 <= run.error_count <= limits.max_error_count
        assert 0 <= run.compaction_attempts <= limits.max_compaction_attempts
        assert 0 <= run.total_steps <= limits.max_steps + MAX_STEPS_PER_ROUND


def is_an_error(run: Run, signal: Signal) -> bool:
    """Say whether `signal` tells of a failed call or closes the step of a useless reply."""
    if isinstance(signal, signals.ModelFailed):
        return signal.error not in {ErrorClass.OVERFLOW, ErrorClass.ABORTED}
    if not (isinstance(signal, signals.StepClosed) and isinstance(run.state, states.ClosingStep)):
        return False
    match run.state.reply:
        case states.ReplyFacts(finish=FinishReason.INTERRUPTED):
            return True
        case states.ReplyFacts(finish=FinishReason.TOOL_CALLS, calls=calls):
            return not calls
        case states.ReplyFacts(
            finish=FinishReason.STOP | FinishReason.OTHER, text=text, calls=calls
        ):
            return not (text or calls)
    return False


@under_every_limit
def test_errors_grow_by_one_per_failed_or_useless_reply_and_by_nothing_else(limits: Limits) -> None:
    for run, signal, after, _ in moves(limits):
        assert after.error_count - run.error_count == is_an_error(run, signal)


# Outcomes


@under_every_limit
def test_every_outcome_can_be_reached(limits: Limits) -> None:
    ended = (run.state for run in visited(limits))
    outcomes = {state.outcome for state in ended if isinstance(state, states.Finished)}
    assert outcomes == set(Outcome)


LIMITS_OF: Mapping[Outcome, set[str]] = {
    Outcome.MAX_STEPS: {"max_steps", "max_steps_per_round"},
    Outcome.TOO_MANY_ERRORS: {"max_error_count"},
    Outcome.CONTEXT_LIMIT: {"max_compaction_attempts", ""},
    Outcome.TIMED_OUT: {"max_wall_clock"},
}


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_names_the_limit_that_ended_the_run_if_one_did(outcome: Outcome) -> None:
    limits = {
        run.state.limit
        for run in visited(ROOMY)
        if isinstance(run.state, states.Finished) and run.state.outcome is outcome
    }
    assert limits == LIMITS_OF.get(outcome, {""})


def test_a_run_completes_only_on_a_reply_with_text() -> None:
    for run, _, after, _ in moves(ROOMY):
        if after.state == states.Finished(Outcome.COMPLETED):
            assert isinstance(run.state, states.ClosingStep)
            assert run.state.reply.text


def test_a_run_completes_only_when_no_call_waits_for_the_model_to_see_its_result() -> None:
    for run, _, after, _ in moves(ROOMY):
        if after.state == states.Finished(Outcome.COMPLETED):
            assert isinstance(run.state, states.ClosingStep)
            assert not run.state.reply.calls

"""The loop of document 004: an outer loop over steps, an inner one over tries of a model call."""

from itertools import product
from typing import Any

import pytest
from exploration import BOTH, WORLD
from incases import in_cases

from simloop import (
    Limits,
    Outcome,
)
from simloop.kernel import effects, states
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import IllegalSignal, Run, Transition, checked_transition
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
from simloop.loops.opencode import (
    GO_ON,
    LEGAL,
    MAX_STEPS,
    OpencodeLoop,
    OpencodeOptions,
    Steps,
    Turning,
)
from simloop.messages import FinishReason
from simloop.prove.alphabet import ENDINGS, answers

SECOND = 10**9
FITS, OVER = ContextMeasured(over=False), ContextMeasured(over=True)
SHRUNK, NO_GAIN = ContextCompacted(shrunk=True), ContextCompacted(shrunk=False)
RATE_LIMITED = ModelFailed(ErrorClass.RATE_LIMIT, retryable=True)
REFUSED = ModelFailed(ErrorClass.AUTH, retryable=False)
TURN: tuple[Effect, ...] = (effects.TakeQueued(), effects.MeasureContext())
CALL_MODEL: tuple[Effect, ...] = (effects.CallModel(polls=True),)
NOTED_CALL: tuple[Effect, ...] = (effects.CallModel(MAX_STEPS, polls=True),)
LAST_CALL: tuple[Effect, ...] = (effects.CallModel(MAX_STEPS, tools=False, polls=True),)
COMPACT: tuple[Effect, ...] = (effects.Compact(forced=False, then_say=GO_ON),)


def replied(finish: str, *, text: bool = True, calls: bool = False) -> ModelReplied:
    return ModelReplied(FinishReason(finish), text, calls)


ANSWER, CALLS = replied("stop"), replied("tool-calls", calls=True)
FIRST: tuple[Signal, ...] = (CALLS, ToolsReturned(), StepClosed())
STEP: tuple[Signal, ...] = (FITS, *FIRST)

ENFORCED: dict[str, Any] = {"steps": Steps.ENFORCE}

# One way into each state, without `Began`.
WAYS: dict[type, tuple[Signal, ...]] = {
    Turning: FIRST,
    states.Compacting: (*FIRST, OVER),
    states.CallingModel: (),
    states.RunningTools: (CALLS,),
    states.ClosingStep: (ANSWER,),
    states.BackingOff: (RATE_LIMITED,),
    states.Halting: (RATE_LIMITED, AbortRequested()),
}
STATES = pytest.mark.parametrize("state", WAYS)


def play(*arrivals: Signal, max_steps: int = 100, **options: Any) -> Transition:
    """Take a run from its beginning through `arrivals`; the last transition."""
    loop = OpencodeLoop(Limits(max_steps=max_steps), OpencodeOptions(**options))
    moved = checked_transition(loop, loop.start(), Began())
    for signal in arrivals:
        moved = checked_transition(loop, moved[0], signal)
    return moved


def ending(*arrivals: Signal, **given: Any) -> tuple[Outcome, str]:
    """How the run ended, which it must, and the limit that ended it."""
    run, asked = play(*arrivals, **given)
    assert isinstance(run.state, states.Finished)
    assert asked == (effects.EndRun(),)
    return run.state.outcome, run.state.limit


def arriving(asked: tuple[Effect, ...]) -> tuple[Signal, ...]:
    """Every signal that can answer what was asked last, and those that end any run."""
    return (*answers(asked[-1], 2), *ENDINGS)


# The machine


def test_every_state_but_the_first_and_the_last_has_a_way_into_it() -> None:
    assert set(WAYS) == set(LEGAL) - {states.Ready, states.Finished}
    assert all(isinstance(play(*way)[0].state, state) for state, way in WAYS.items())


@STATES
def test_a_state_accepts_what_can_answer_it_and_an_early_end_and_nothing_else(state: type) -> None:
    moved, asked = play(*WAYS[state])
    for signal in (accepted := arriving(asked)):
        checked_transition(OpencodeLoop(), moved, signal)
    for signal in WORLD:
        if type(signal) not in {type(one) for one in accepted}:
            with pytest.raises(IllegalSignal):
                checked_transition(OpencodeLoop(), moved, signal)


@STATES
def test_runs_with_as_many_steps_behave_equally_however_they_came_about(state: type) -> None:
    """A reply or a compaction, failures of a step that is over or none: the same run."""
    failed = (RATE_LIMITED, BackoffElapsed(), *FIRST, FITS, *WAYS[state])
    one = play(*failed)
    assert play(*STEP[1:], FITS, *WAYS[state]) == one
    loops = OpencodeLoop(), OpencodeLoop(Limits(max_error_count=1), OpencodeOptions())
    moves = [
        [checked_transition(loop, one[0], signal) for signal in arriving(one[1])] for loop in loops
    ]
    assert moves[0] == moves[1]


LEAVES = ("stop", "length", "content-filter", "error")
GOES_ON = ("tool-calls", "other", "interrupted")
every_reply = in_cases(list(product(map(str, FinishReason), BOTH, BOTH)))


@every_reply
def test_the_outer_loop_ends_by_the_finish_alone_and_not_by_calls(
    reply: tuple[str, bool, bool],
) -> None:
    finish, text, calls = reply
    said: tuple[Signal, ...] = (replied(finish, text=text, calls=calls),)
    returned: tuple[Signal, ...] = (ToolsReturned(),) if calls else ()
    closed = (*said, *returned, StepClosed())
    kept = (effects.CloseStep(keep=text),)
    assert play(*said)[1] == ((effects.RunTools(polls=True),) if calls else kept)
    assert play(*closed)[1] == (TURN[1:] if finish in LEAVES else TURN)
    if finish in LEAVES:
        assert ending(*closed, FITS) == (Outcome.COMPLETED, "")
    else:
        assert finish in GOES_ON
        assert play(*closed, FITS)[1][-1:] == CALL_MODEL


@pytest.mark.parametrize("closed", [StepClosed(steering=True), StepClosed(follow_up=True)], ids=str)
def test_an_answer_is_no_end_when_the_user_has_spoken_since(closed: StepClosed) -> None:
    assert play(ANSWER, closed) == (play(*FIRST)[0].to(Turning(answered=False)), TURN)


def test_the_first_call_is_made_without_measuring_the_context() -> None:
    assert play() == (Run(states.CallingModel()), (effects.TakeQueued(), *CALL_MODEL))


@pytest.mark.parametrize(
    "way", [FIRST, (*FIRST, *STEP), (ANSWER, StepClosed())], ids=["2", "3", "answered"]
)
def test_what_is_too_long_is_compacted_at_the_top_even_after_an_answer(
    way: tuple[Signal, ...],
) -> None:
    assert play(*way, OVER)[1] == COMPACT
    assert play(*way, OVER, SHRUNK)[1][-1:] == CALL_MODEL


def test_a_compaction_that_gains_nothing_stops_the_run() -> None:
    assert ending(*FIRST, OVER, NO_GAIN) == (Outcome.CONTEXT_LIMIT, "")


def test_replies_and_compactions_are_steps_and_failures_are_none() -> None:
    ways = (FIRST, (*FIRST, OVER, SHRUNK), (*FIRST, OVER, NO_GAIN), WAYS[states.BackingOff])
    assert [play(*way)[0].total_steps for way in ways] == [1, 2, 2, 0]


MORE = pytest.mark.parametrize(
    ("way", "steps"),
    [((*FIRST, FITS), 2), ((*FIRST, OVER, SHRUNK), 3)],
    ids=["after-a-reply", "after-a-compaction"],
)


@MORE
def test_from_max_steps_on_each_request_has_the_note_and_nothing_ends(
    way: tuple[Signal, ...], steps: int
) -> None:
    assert play(*way, max_steps=steps)[1][-1:] == NOTED_CALL
    assert play(*way, max_steps=steps + 1)[1][-1:] == CALL_MODEL
    later = play(*way, *FIRST, *STEP * 5, FITS, max_steps=steps)
    assert later[0] == Run(states.CallingModel(), total_steps=steps)
    assert later[1][-1:] == NOTED_CALL


@MORE
def test_an_enforced_last_step_has_the_note_and_no_tools_and_is_the_last(
    way: tuple[Signal, ...], steps: int
) -> None:
    assert play(*way, max_steps=steps, **ENFORCED)[1][-1:] == LAST_CALL
    assert play(*way, max_steps=steps + 1, **ENFORCED)[1][-1:] == CALL_MODEL
    used_up = (Outcome.MAX_STEPS, "max_steps")
    assert ending(*way, *FIRST, FITS, max_steps=steps, **ENFORCED) == used_up
    answered = (*way, ANSWER, StepClosed(), FITS)
    assert ending(*answered, max_steps=steps, **ENFORCED) == (Outcome.COMPLETED, "")


def test_a_run_whose_enforced_steps_are_used_up_is_not_compacted_any_more() -> None:
    used_up = (Outcome.MAX_STEPS, "max_steps")
    assert ending(*FIRST, OVER, max_steps=1, **ENFORCED) == used_up
    assert ending(*FIRST, OVER, SHRUNK, max_steps=2, **ENFORCED) == used_up


def tries(failures: int) -> tuple[Signal, ...]:
    again: tuple[Signal, ...] = (RATE_LIMITED, BackoffElapsed())
    return again * failures


@pytest.mark.parametrize("failures", range(5))
def test_a_failed_call_is_tried_again_after_a_wait_for_that_many_failures(failures: int) -> None:
    run, asked = play(*tries(failures), RATE_LIMITED)
    assert (asked, run.error_count) == ((effects.Backoff(failures + 1),), failures + 1)
    assert play(*tries(failures + 1))[1] == CALL_MODEL


def test_after_the_last_retry_the_run_ends() -> None:
    assert ending(*tries(5), RATE_LIMITED) == (Outcome.TOO_MANY_ERRORS, "max_retries")


def test_the_failures_of_a_step_do_not_count_against_the_next_one() -> None:
    for way in (FIRST, (ANSWER, StepClosed(steering=True))):
        assert play(*tries(5), *way)[0].error_count == 0
        assert play(*tries(5), *way, FITS, *tries(4), RATE_LIMITED)[1] == (effects.Backoff(5),)


def test_what_is_not_worth_a_retry_ends_the_run() -> None:
    assert ending(REFUSED) == (Outcome.FAILED, "")
    assert play(REFUSED)[0].error_count == 1
    assert ending(ModelFailed(ErrorClass.OVERFLOW, retryable=False)) == (Outcome.FAILED, "")


@STATES
def test_an_abort_ends_the_run_but_in_the_wait_makes_one_more_call(state: type) -> None:
    if state is states.BackingOff:
        run, asked = play(*WAYS[state], AbortRequested())
        assert (run.state, asked) == (states.Halting(), (effects.CallModel(aborted=True),))
        back = ModelFailed(ErrorClass.ABORTED, retryable=False)
        assert ending(*WAYS[state], AbortRequested(), back) == (Outcome.ABORTED, "")
    else:
        assert ending(*WAYS[state], AbortRequested()) == (Outcome.ABORTED, "")


@STATES
def test_the_wall_clock_ends_the_run_in_any_state(state: type) -> None:
    assert ending(*WAYS[state], WallClockExpired()) == (Outcome.TIMED_OUT, "max_wall_clock")


@pytest.mark.parametrize("state", [states.CallingModel, states.RunningTools, states.ClosingStep])
def test_a_hook_that_fails_the_run_ends_it(state: type) -> None:
    assert ending(*WAYS[state], HookFailed()) == (Outcome.FAILED, "")


def test_a_model_call_that_a_hook_forbids_ends_the_run_as_blocked() -> None:
    assert ending(CallBlocked()) == (Outcome.BLOCKED, "")

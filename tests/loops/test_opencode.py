"""The loop of document 004: an outer loop over steps, an inner one over tries of a model call."""

from itertools import product
from typing import Any

import pytest
from incases import in_cases

from simloop import (
    Limits,
    Outcome,
)
from simloop.kernel import effects, states
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Bound, Run, Transition, checked_transition
from simloop.kernel.signals import (
    AbortRequested,
    BackoffElapsed,
    Began,
    ContextCompacted,
    ContextMeasured,
    ModelFailed,
    ModelReplied,
    Signal,
    StepClosed,
    ToolsReturned,
)
from simloop.loops.opencode import (
    GO_ON,
    MAX_STEPS,
    OpencodeLoop,
    OpencodeOptions,
    Turning,
)
from simloop.messages import FinishReason

BOTH = (True, False)
FITS, OVER = ContextMeasured(over=False), ContextMeasured(over=True)
SHRUNK, NO_GAIN = ContextCompacted(shrunk=True), ContextCompacted(shrunk=False)
SECOND = 10**9
RATE_LIMITED = ModelFailed(ErrorClass.RATE_LIMIT, retryable=True)
TURN: tuple[Effect, ...] = (effects.TakeQueued(), effects.MeasureContext())
CALL_MODEL: tuple[Effect, ...] = (effects.CallModel(polls=True),)
NOTED_CALL: tuple[Effect, ...] = (effects.CallModel(MAX_STEPS, polls=True),)
LAST_CALL: tuple[Effect, ...] = (effects.CallModel(MAX_STEPS, tools=False, polls=True),)
COMPACT: tuple[Effect, ...] = (effects.Compact(forced=False, then_say=GO_ON),)


def tries(failures: int) -> tuple[Signal, ...]:
    again: tuple[Signal, ...] = (RATE_LIMITED, BackoffElapsed())
    return again * failures


def replied(finish: str, *, text: bool = True, calls: bool = False) -> ModelReplied:
    return ModelReplied(FinishReason(finish), text, calls)


ANSWER, CALLS = replied("stop"), replied("tool-calls", calls=True)
FIRST: tuple[Signal, ...] = (CALLS, ToolsReturned(), StepClosed())
STEP: tuple[Signal, ...] = (FITS, *FIRST)

ENFORCED: dict[str, Any] = {"steps": "enforce"}

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


# The machine


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


@pytest.mark.parametrize(
    "way", [FIRST, (*FIRST, *STEP), (ANSWER, StepClosed())], ids=["2", "3", "answered"]
)
def test_what_is_too_long_is_compacted_at_the_top_even_after_an_answer(
    way: tuple[Signal, ...],
) -> None:
    assert play(*way, OVER)[1] == COMPACT
    assert play(*way, OVER, SHRUNK)[1][-1:] == CALL_MODEL


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


@STATES
def test_an_abort_ends_the_run_but_in_the_wait_makes_one_more_call(state: type) -> None:
    if state is states.BackingOff:
        run, asked = play(*WAYS[state], AbortRequested())
        assert (run.state, asked) == (states.Halting(), (effects.CallModel(aborted=True),))
        back = ModelFailed(ErrorClass.ABORTED, retryable=False)
        assert ending(*WAYS[state], AbortRequested(), back) == (Outcome.ABORTED, "")
    else:
        assert ending(*WAYS[state], AbortRequested()) == (Outcome.ABORTED, "")


# Options

RETRIES = Bound("error_count", 6, resets=True)
STEPS = Bound("total_steps", 100, of_turns=True)


@pytest.mark.parametrize("retries", [0, 1, 5, 9, 32, 50])
def test_max_retries_bounds_the_tries_of_a_call(retries: int) -> None:
    gave_up = (Outcome.TOO_MANY_ERRORS, "max_retries")
    assert ending(*tries(retries), RATE_LIMITED, max_retries=retries) == gave_up
    _, asked = play(*tries(retries), RATE_LIMITED, max_retries=retries + 1)
    assert asked == (effects.Backoff(retries + 1),)


def test_unlimited_steps_are_neither_noted_nor_counted() -> None:
    unlimited: dict[str, Any] = {"max_steps": 2, "steps": "unlimited"}
    call = (effects.CallModel(polls=True),)
    for way in ((*FIRST, FITS), (*FIRST, *STEP, FITS)):
        after, asked = play(*way, **unlimited)
        assert (after.total_steps, asked[-1:]) == (0, call)


def test_an_abort_is_looked_for_or_seen_at_once() -> None:
    for at_once in (False, True):
        ways = ((*FIRST, FITS), (CALLS,))
        asked = [play(*way, abort_at_once=at_once)[1][-1:] for way in ways]
        polls = not at_once
        assert asked == [(effects.CallModel(polls=polls),), (effects.RunTools(polls=polls),)]
    waiting = WAYS[states.BackingOff]
    assert play(*waiting, AbortRequested())[1] == (effects.CallModel(aborted=True),)
    assert ending(*waiting, AbortRequested(), abort_at_once=True) == (Outcome.ABORTED, "")


def test_the_bounds_are_those_that_the_options_leave() -> None:
    enforced = OpencodeLoop(options=OpencodeOptions(steps="enforce"))
    assert OpencodeLoop().bounds == {"max_retries": RETRIES}
    assert enforced.bounds == {"max_retries": RETRIES, "max_steps": STEPS}

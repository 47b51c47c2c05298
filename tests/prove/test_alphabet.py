"""The alphabet: every signal that can answer an effect, with every value that decides."""

from typing import Any, get_args

import pytest
from msgspec import Struct

from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.signals import Signal
from simloop.messages import FinishReason, Queue
from simloop.prove.alphabet import answers

BURST = 3

# What each effect says of itself in its docstring: the types of the signals that answer it.
ANSWERED_BY: list[tuple[Effect, set[type[Struct]]]] = [
    (effects.TakeQueued(), set()),
    (effects.TakeQueued(Queue.STEERING, one=True), set()),
    (effects.MeasureContext(), {signals.ContextMeasured}),
    (effects.Compact(forced=False), {signals.ContextCompacted}),
    (effects.Compact(forced=True, then_say="Go on."), {signals.ContextCompacted}),
    (
        effects.CallModel(),
        {signals.ModelReplied, signals.ModelFailed, signals.HookFailed, signals.CallBlocked},
    ),
    (
        effects.CallModel(note="The last one.", tools=False, polls=True),
        {signals.ModelReplied, signals.ModelFailed, signals.HookFailed, signals.CallBlocked},
    ),
    (effects.CallModel(aborted=True), {signals.ModelFailed}),
    (effects.RunTools(), {signals.ToolsReturned, signals.HookFailed}),
    (effects.RunTools(first_only=True, polls=True), {signals.ToolsReturned, signals.HookFailed}),
    (effects.RefuseTools(FinishReason.LENGTH), {signals.ToolsReturned}),
    (effects.CloseStep(keep=True), {signals.StepClosed, signals.HookFailed}),
    (effects.Backoff(1), {signals.BackoffElapsed}),
    (effects.EndRun(), set()),
]


def kinds(arriving: tuple[Signal, ...]) -> set[type[Struct]]:
    return {type(signal) for signal in arriving}


def of_kind(kind: type[Struct], effect: Effect) -> list[Any]:
    return [signal for signal in answers(effect, BURST) if type(signal) is kind]


def test_every_effect_is_tried_here() -> None:
    assert {type(effect) for effect, _ in ANSWERED_BY} == set(get_args(Effect))


@pytest.mark.parametrize(
    ("effect", "expected"), ANSWERED_BY, ids=[repr(effect) for effect, _ in ANSWERED_BY]
)
def test_an_effect_is_answered_by_the_signals_that_it_names(
    effect: Effect, expected: set[type[Struct]]
) -> None:
    assert kinds(answers(effect, BURST)) == expected


@pytest.mark.parametrize(
    ("effect", "number"),
    [
        (effects.MeasureContext(), 2),
        (effects.Compact(forced=False), 2),
        # Every finish with and without text and calls, twice; every class that may be retried or
        # not, an abort that may not; a hook that fails, a call that is blocked.
        (effects.CallModel(), 2 * 4 * len(FinishReason) + 2 * (len(ErrorClass) - 1) + 1 + 2),
        (effects.RunTools(), 4),
        (effects.CloseStep(keep=True), 5),
    ],
    ids=repr,
)
def test_no_answer_is_named_twice_or_missing(effect: Effect, number: int) -> None:
    given = answers(effect, BURST)
    assert len(given) == len(set(given)) == number


def test_a_reply_has_every_finish_with_and_without_text_and_calls_as_a_step_and_as_a_burst() -> (
    None
):
    given = of_kind(signals.ModelReplied, effects.CallModel())
    ways = {(reply.finish, reply.text, reply.calls) for reply in given}
    assert len(ways) == len(FinishReason) * 4
    assert {(*way, steps) for way in ways for steps in (1, BURST)} == {
        (reply.finish, reply.text, reply.calls, reply.steps) for reply in given
    }


def test_a_call_made_after_an_abort_comes_back_as_aborted_and_any_other_may() -> None:
    aborted = signals.ModelFailed(ErrorClass.ABORTED, retryable=False)
    assert answers(effects.CallModel(aborted=True), BURST) == (aborted,)
    before = of_kind(signals.ModelFailed, effects.CallModel())
    assert [failure for failure in before if failure.error is ErrorClass.ABORTED] == [aborted]

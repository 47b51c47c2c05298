"""The signals that can answer each effect: the alphabet of exploration.

It belongs to the world and not to a machine, so that no machine can forget what may happen to it.
One signal for each combination of values that a machine may decide by.
"""

from itertools import product
from typing import assert_never

from simloop.kernel import effects
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.signals import (
    AbortRequested,
    BackoffElapsed,
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
from simloop.messages import FinishReason

ENDINGS: tuple[Signal, ...] = (AbortRequested(), WallClockExpired())
"""The signals that can end a run from outside in any state."""

# First, so that an example is as plain as it can be.
_USUAL = (
    (FinishReason.STOP, True, False),
    (FinishReason.TOOL_CALLS, True, True),
)
_USUAL_FAILURES = (
    (ErrorClass.RATE_LIMIT, True),
    (ErrorClass.AUTH, False),
    (ErrorClass.OVERFLOW, False),
)
_CALLS_FAIL_WITH = [error for error in ErrorClass if error is not ErrorClass.ABORTED]
_ABORTED = ModelFailed(ErrorClass.ABORTED, retryable=False)
_FAILURES: tuple[Signal, ...] = tuple(
    ModelFailed(error, retryable)
    for error, retryable in dict.fromkeys(
        (
            *_USUAL_FAILURES,
            *product(_CALLS_FAIL_WITH, (True, False)),
            (ErrorClass.ABORTED, False),
        )
    )
)


def replies(steps: int) -> tuple[Signal, ...]:
    """Return a reply of every kind, each of which reports `steps` steps."""
    kinds = dict.fromkeys((*_USUAL, *product(FinishReason, (True, False), (True, False))))
    return tuple(ModelReplied(*kind, steps) for kind in kinds)


def answers(effect: Effect, burst: int) -> tuple[Signal, ...]:
    """Return every signal that can answer `effect`, except those that end a run from outside.

    `burst` is a number of steps that one reply should not report.
    """
    match effect:
        case effects.TakeQueued() | effects.EndRun():
            return ()
        case effects.MeasureContext():
            return (ContextMeasured(over=False), ContextMeasured(over=True))
        case effects.Compact():
            return (ContextCompacted(shrunk=False), ContextCompacted(shrunk=True))
        case effects.CallModel(aborted=True):
            return (_ABORTED,)
        case effects.CallModel():
            return (*replies(1), *replies(burst), *_FAILURES, HookFailed(), CallBlocked())
        case effects.RunTools():
            returned = (ToolsReturned(), ToolsReturned(blocked=True), ToolsReturned(terminate=True))
            return (*returned, HookFailed())
        case effects.RefuseTools():
            return (ToolsReturned(),)
        case effects.CloseStep():
            waiting = ((False, False), (True, False), (False, True), (True, True))
            return (*(StepClosed(*each) for each in waiting), HookFailed())
        case effects.Backoff():
            return (BackoffElapsed(),)
        case _:
            assert_never(effect)

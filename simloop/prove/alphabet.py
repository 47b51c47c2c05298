"""The signals that can answer each effect: the world has them, so no machine can forget one."""

from itertools import product
from typing import assert_never

from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.signals import Signal
from simloop.messages import FinishReason

ENDINGS: tuple[Signal, ...] = (signals.AbortRequested(), signals.WallClockExpired())
"""The signals that can end a run from outside in any state."""

_BOTH = (False, True)
# First, so that an example is as plain as it can be.
_USUAL = ((FinishReason.STOP, True, False), (FinishReason.TOOL_CALLS, True, True))
_ABORTED = signals.ModelFailed(ErrorClass.ABORTED, retryable=False)
_FAILURES = dict.fromkeys((
    signals.ModelFailed(ErrorClass.RATE_LIMIT, retryable=True),
    signals.ModelFailed(ErrorClass.AUTH, retryable=False),
    signals.ModelFailed(ErrorClass.OVERFLOW, retryable=False),
    *(signals.ModelFailed(error, retryable) for error, retryable in product(
        ErrorClass, (True, False)) if error is not ErrorClass.ABORTED),
    _ABORTED,
))  # fmt: skip


def replies(steps: int) -> tuple[Signal, ...]:
    """Return a reply of every kind, each of which reports `steps` steps."""
    kinds = dict.fromkeys((*_USUAL, *product(FinishReason, (True, False), (True, False))))
    return tuple(signals.ModelReplied(*kind, steps) for kind in kinds)


def answers(effect: Effect, burst: int) -> tuple[Signal, ...]:
    """Return every signal that can answer `effect`; `burst` is a number of steps of a reply."""
    match effect:
        case effects.TakeQueued() | effects.EndRun():
            return ()
        case effects.MeasureContext():
            return tuple(map(signals.ContextMeasured, _BOTH))
        case effects.Compact():
            return tuple(map(signals.ContextCompacted, _BOTH))
        case effects.CallModel(aborted=True):
            return (_ABORTED,)
        case effects.CallModel():
            stopped = (signals.HookFailed(), signals.CallBlocked())
            return (*replies(1), *replies(burst), *_FAILURES, *stopped)
        case effects.RunTools():
            asks = signals.ToolsReturned(blocked=True), signals.ToolsReturned(terminate=True)
            return (signals.ToolsReturned(), *asks, signals.HookFailed())
        case effects.RefuseTools():
            return (signals.ToolsReturned(),)
        case effects.CloseStep():
            waiting = (signals.StepClosed(*each[::-1]) for each in product(_BOTH, _BOTH))
            return (*waiting, signals.HookFailed())
        case effects.Backoff():
            return (signals.BackoffElapsed(),)
        case _:
            assert_never(effect)

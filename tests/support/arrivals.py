"""Signals that take a run of the reference loop from place to place."""

from simloop.kernel import effects, states
from simloop.kernel.effects import Effect
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Transition, checked_transition
from simloop.kernel.signals import (
    Began,
    ContextCompacted,
    ContextMeasured,
    ModelFailed,
    ModelReplied,
    Signal,
    StepClosed,
    ToolsReturned,
)
from simloop.loops.reference import ReferenceLoop
from simloop.messages import FinishReason

Signals = tuple[Signal, ...]

FITS, OVER = ContextMeasured(over=False), ContextMeasured(over=True)
SHRUNK, NO_GAIN = ContextCompacted(shrunk=True), ContextCompacted(shrunk=False)


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

# What every round begins with.
MEASURE: tuple[Effect, ...] = (effects.TakeQueued(), effects.MeasureContext())

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
    moved = checked_transition(loop, loop.start(), Began())
    for signal in arrivals:
        moved = checked_transition(loop, moved[0], signal)
    return moved


def ending(*arrivals: Signal, **limits: int) -> states.Finished:
    """Where the run ended, which it must."""
    run, asked = play(*arrivals, **limits)
    assert isinstance(run.state, states.Finished)
    assert asked == (effects.EndRun(),)
    return run.state

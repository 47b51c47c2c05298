"""A fifth loop design, which simloop does not know: two tries to get an answer, and no more.

A reply with text is the answer. Anything else, a failed call too, is the end of a try; before the
second one the model is told so. Its run has a field of its own, and one of its states is its own.
"""

from collections.abc import Mapping
from typing import assert_never

from msgspec import Struct

from simloop.kernel import effects, signals
from simloop.kernel.limits import Limits
from simloop.kernel.machine import (
    END,
    ENDINGS,
    Bound,
    Feature,
    LegalMap,
    Run,
    Transition,
    finish,
    stop,
)
from simloop.kernel.policies import Policies
from simloop.kernel.signals import Signal
from simloop.kernel.states import ClosingStep, Finished, Ready, ReplyFacts, RunningTools
from simloop.messages import FinishReason, Outcome


class Trying(Struct, frozen=True, gc=False):
    """The model is asked, `again` if the first try came to nothing."""

    again: bool


class Tries(Run, frozen=True, gc=False):
    """A run that counts its tries."""

    tries: int = 0


LEGAL: LegalMap = {
    Ready: {signals.Began: frozenset({Trying})},
    Trying: {
        signals.ModelReplied: frozenset({RunningTools, ClosingStep}),
        signals.ModelFailed: frozenset({Trying, Finished}),
        signals.HookFailed: END,
        signals.CallBlocked: END,
        **ENDINGS,
    },
    RunningTools: {signals.ToolsReturned: frozenset({ClosingStep}), **ENDINGS},
    ClosingStep: {
        signals.StepClosed: frozenset({Trying, Finished}),
        signals.HookFailed: END,
        **ENDINGS,
    },
    Finished: {},
}
AGAIN = "That was no answer. This is the last try."
GIVEN_UP = "Two tries, and no answer."


class TwoTries:
    """The machine. It has no tools: calls are refused, and a reply without text is no answer."""

    name = "two-tries"
    legal = LEGAL
    policies = Policies()
    bounds: Mapping[str, Bound] = {}
    deviations: Mapping[str, str] = {"last-message-role": "the last try ends with a note"}
    unsupported: Mapping[Feature, str] = {Feature.COMPACTION: "two tries are never too long"}
    most = 2

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()

    def start(self) -> Tries:
        return Tries(Ready())

    def advance(self, run: Run, signal: Signal) -> Transition:
        assert isinstance(run, Tries)
        match signal:
            case signals.Began() | signals.ModelFailed():
                return self._try(run)
            case signals.ModelReplied(finish=reason, text=text, calls=calls):
                reply = ReplyFacts(reason, text, calls)
                if calls:
                    refuse = effects.RefuseTools(FinishReason.OTHER)
                    return run.to(RunningTools(reply)), (refuse,)
                return run.to(ClosingStep(reply)), (effects.CloseStep(keep=text),)
            case signals.ToolsReturned():
                assert isinstance(run.state, RunningTools)
                return run.to(ClosingStep(run.state.reply)), (effects.CloseStep(keep=True),)
            case signals.StepClosed():
                assert isinstance(run.state, ClosingStep)
                answered = run.state.reply.text
                return finish(run, Outcome.COMPLETED) if answered else self._try(run)
            case (
                signals.AbortRequested()
                | signals.WallClockExpired()
                | signals.HookFailed()
                | signals.CallBlocked()
            ):
                return stop(run, signal)
            case signals.ContextMeasured() | signals.ContextCompacted() | signals.BackoffElapsed():
                raise AssertionError("never asked for, so refused by the map")
            case _:
                assert_never(signal)

    def _try(self, run: Tries) -> Transition:
        if run.tries == self.most:
            return finish(run, Outcome.TOO_MANY_ERRORS, "max_tries", GIVEN_UP)
        again = run.tries > 0
        tried = Tries(Trying(again), tries=run.tries + 1)
        return tried, (effects.CallModel(note=AGAIN if again else ""),)


class Careless(TwoTries):
    """The same, but a first try that came to nothing is forgotten."""

    def _try(self, run: Tries) -> Transition:
        return Tries(Trying(again=False), tries=1), (effects.CallModel(),)


def one_try(limits: Limits) -> TwoTries:
    """What makes the machine from limits may be a function as well."""
    machine = TwoTries(limits)
    machine.most = 1
    return machine


MACHINE = TwoTries()

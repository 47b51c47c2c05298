"""One model call, and a run that is over when it fails."""

from collections.abc import Callable
from typing import Any

from simloop import Callbacks, Limits, Result, Scenario
from simloop.messages import Fault, Finish, FinishReason, Part, Request
from simloop.runs.run import Simulation
from simloop.trace import entries

STOP = Finish(FinishReason.STOP, "stop")


def play(
    model: Callable[[Request], Any], *, callbacks: Callbacks | None = None, **limits: int
) -> Result:
    scenario = Scenario(prompt="Go.", limits=Limits(**{"max_error_count": 1, **limits}))
    return Simulation(scenario, model=model, callbacks=callbacks).run()


def says(*parts: Part) -> Callable[[Request], Any]:
    return lambda _: parts


def classified(result: Result) -> entries.Classified:
    """Return what the retry policy made of the one failed call."""
    (found,) = [e for e in result.trace.entries if isinstance(e, entries.Classified)]
    return found


def fault_of(result: Result) -> Fault:
    """Return the fault of the one failed call: as it arrived, or as the engine found it."""
    arrived = [e.fault for e in result.trace.entries if isinstance(e, entries.Error)]
    found = classified(result).fault
    (fault,) = [*arrived, *([found] if found else [])]
    return fault

"""One model call, and a run that is over when it fails."""

from collections.abc import Callable
from typing import Any

from simloop import Callbacks, Limits, Result, Scenario, Simulation
from simloop.messages import Finish, FinishReason, Part, Request
from simloop.trace import entries

STOP = Finish(FinishReason.STOP, "stop")


def play(
    model: Callable[[Request], Any], *, callbacks: Callbacks | None = None, **limits: int
) -> Result:
    scenario = Scenario(prompt="Go.", limits=Limits(**{"max_error_count": 1, **limits}))
    return Simulation(scenario, model=model, callbacks=callbacks).run()


def says(*parts: Part) -> Callable[[Request], Any]:
    return lambda _: parts


def error_of(result: Result) -> entries.Error:
    (error,) = [entry for entry in result.trace.entries if isinstance(entry, entries.Error)]
    return error

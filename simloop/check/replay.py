"""Running a recorded run again, and running one twice: is it still the same?

Not here: comparing (trace/diff.py). The rule to keep: a trace holds all that its run needs, so a
replay asks nothing of the disk, and a run that needed Python code says so instead of diverging.
"""

from pydantic import ValidationError

from simloop.errors import ReplayDiverged, ScenarioError, SimloopError
from simloop.scenario.schema import Scenario
from simloop.scenario.simulation import Simulation
from simloop.trace.diff import Divergence, first_difference
from simloop.trace.looptrace import LoopTrace


def recorded_scenario(trace: LoopTrace) -> Scenario:
    """The scenario that a trace was recorded from.

    Raises ScenarioError if the run needed Python code, or if this simloop cannot read the scenario.
    """
    if trace.header.python:
        code = ", ".join(trace.header.python)
        raise ScenarioError(
            f"this run needed Python code that a trace does not hold: {code}",
            hint="run it again from Python, and compare with: simloop diff",
        )
    try:
        return Scenario.model_validate_json(bytes(trace.header.scenario))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ScenarioError(
            f"the recorded scenario cannot be read: {first['msg']}", key=place
        ) from error


def replay(trace: LoopTrace) -> Divergence | None:
    """Run the recorded scenario again; where the new run first differs, or None.

    A trace that was cut is compared as far as it goes. Raises as `recorded_scenario`.
    """
    scenario = recorded_scenario(trace)
    again = run_to_the_end(scenario, seed=trace.header.seed, loop=trace.header.loop)
    if trace.footer is None:
        del again.entries[len(trace.entries) :]
    return first_difference(trace, again)


def run_to_the_end(scenario: Scenario, *, seed: int, loop: str) -> LoopTrace:
    """The trace of a run, however it ended: a script that does not fit is no difference."""
    simulation = Simulation(scenario, seed=seed, loop=loop)
    try:
        simulation.run()
    except SimloopError:
        if not simulation.trace.entries:
            raise
    return simulation.trace


def check_determinism(trace: LoopTrace, scenario: Scenario) -> None:
    """Run the scenario of `trace` once more. Raises ReplayDiverged if the runs differ.

    What makes them differ is Python code (a set, a clock, a counter that survives the run), or a
    fault of simloop's own.
    """
    header = trace.header
    again = run_to_the_end(scenario, seed=header.seed, loop=header.loop)
    found = first_difference(trace, again)
    if found is not None:
        raise ReplayDiverged("\n".join(found.lines("first run", "second run")))

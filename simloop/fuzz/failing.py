"""The failure of a scenario: what its run shows that must not be.

Not here: reducing it (shrink.py). The rule to keep: the same failure has the same identity in a
smaller scenario, so that shrinking never ends with another fault than it began with.
"""

from typing import NamedTuple

from simloop.check.invariants.judge import Judge, Violation
from simloop.check.invariants.subject import Subject
from simloop.check.replay import check_determinism
from simloop.errors import (
    CheckFailed,
    InvariantViolated,
    ReplayDiverged,
    ScenarioError,
    ScriptUnused,
    SimloopError,
)
from simloop.escape import escape_lines
from simloop.runs.plan import Plan
from simloop.runs.simulation import Simulation
from simloop.trace.entries import AnyEntry

EXPECTATION = "expectation"
"""The name of the failure of a run that does not end as its scenario expects."""


class Failure(NamedTuple):
    """What is wrong with a run.

    `name` is that of the violated invariant, or of the error, or EXPECTATION. `sentence` says what
    must hold, and is empty where an error says it. `text` says how it does not hold.
    """

    name: str
    text: str
    sentence: str = ""

    @property
    def identity(self) -> str:
        """Return what a smaller scenario must have in common."""
        return self.text if self.name == EXPECTATION else self.name


def failure_of(plan: Plan, *, twice: bool = False) -> Failure | None:
    """Run a scenario once, to its first violation; `twice`: once more if nothing is wrong.

    Raises ScenarioError if it cannot run.
    """
    simulation = Simulation(plan)
    found: list[Violation] = []
    prepared = simulation.prepared
    judge = Judge(Subject.of(prepared))

    def watch(entry: AnyEntry) -> None:
        judge(entry)
        if judge.violations and not found:
            found.append(judge.violations[0])
            prepared.end(InvariantViolated(str(found[0])))

    prepared.listen(watch)
    failure = _failure_at_the_end(simulation)
    if found:
        return Failure(found[0].name, found[0].text, found[0].invariant.sentence)
    if failure is None and twice:
        try:
            check_determinism(simulation.trace, plan)
        except ReplayDiverged as error:
            return Failure(type(error).__name__, error.finding)
    return failure


def _failure_at_the_end(simulation: Simulation) -> Failure | None:
    """Run to the end. Raises ScenarioError if that is impossible."""
    try:
        result = simulation.run()
        if result.mismatches:
            return Failure(EXPECTATION, str(result.mismatches[0]))
    except ScenarioError:
        raise
    except SimloopError as error:
        return _failure_by(simulation, error)
    return None


def _failure_by(simulation: Simulation, error: SimloopError) -> Failure | None:
    """Return the failure that an error is, or the expectation besides the error that fails."""
    try:
        if simulation.expects(error):
            return None
    except SimloopError as unmet:
        return Failure(EXPECTATION, str(unmet).partition("\n")[0])
    if isinstance(error, ScriptUnused) and len(error.others) > 1:  # how it ended, and what that
        return Failure(EXPECTATION, error.others[1])  # should have been, says more
    text = error.finding if isinstance(error, CheckFailed) else escape_lines(str(error))
    return Failure(type(error).__name__, text)

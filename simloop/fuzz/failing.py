"""The failure of a scenario: a violation, an error, or an expectation that does not hold.

Not here: reducing it (shrink.py). The rule to keep: the same failure has the same identity in a
smaller scenario, so that shrinking never ends with a different failure.
"""

import asyncio

from simloop.check.invariants.catalog import all_invariants
from simloop.check.invariants.judge import Judge
from simloop.check.invariants.subject import Subject
from simloop.check.judged import OF_PAIRS
from simloop.check.replay import check_determinism
from simloop.errors import (
    InvariantViolated,
    ReplayDiverged,
    ScenarioError,
    ScriptUnused,
    SimloopError,
)
from simloop.fuzz.play import Failure
from simloop.runs.plan import Plan
from simloop.runs.simulation import Simulation
from simloop.scenario.expect import Expect

EXPECTATION = "expectation"
"""The name of the failure of a run that does not end as its scenario expects."""

_SENTENCE = "A run ends as its scenario expects."


def identity_of(failure: Failure) -> str:
    """Return the text that two failures must share to count as the same failure."""
    return failure.text if failure.name == EXPECTATION else failure.name


def known_violations(expected: Expect) -> frozenset[str]:
    """Return the invariants that a run is expected to violate; such a violation is no failure."""
    return frozenset(expected.violates or ()) | (OF_PAIRS if expected.broken_pairs else frozenset())


def failure_of(plan: Plan, *, twice: bool = False) -> Failure | None:
    """Run a scenario to its first violation, and return its failure.

    With `twice`, a run without a failure is repeated and compared. Raises ScenarioError if the
    scenario cannot run.
    """
    simulation = Simulation(plan)
    prepared = simulation.prepared
    known = known_violations(simulation.expected)
    invariants = [each for each in all_invariants() if each.name not in known]
    judge = Judge(Subject.of(prepared), invariants)
    judge.tell = lambda violation: prepared.end(InvariantViolated(str(violation)))
    prepared.listen(judge)
    failure = _failure_at_the_end(simulation)
    if simulation.trace.footer is not None:
        judge.end()
    judge.tell = None  # break the reference cycle, so that the run is freed at once
    if judge.violations:
        return Failure.of_violation(judge.violations[0])
    if failure is None and twice:
        try:
            check_determinism(simulation.trace, plan)
        except ReplayDiverged as error:
            return Failure.of_error(error)
    return failure


def _failure_at_the_end(simulation: Simulation) -> Failure | None:
    """Run to the end. Raises ScenarioError if that is impossible."""
    try:
        result = simulation.run()
    except ScenarioError as error:
        if error.key != "loop":
            raise
        return Failure.of_error(error)  # the loop passed a wrong value to its world
    except SimloopError as error:
        return _failure_by(simulation, error)
    except (Exception, asyncio.CancelledError, SystemExit) as error:  # noqa: BLE001 - a loop is somebody's code
        return Failure.of_error(error)
    return _unmet(str(result.mismatches[0])) if result.mismatches else None


def _failure_by(simulation: Simulation, error: SimloopError) -> Failure | None:
    """Return the failure for an error, or for an unmet expectation that explains it better."""
    try:
        if simulation.expects(error):
            return None
    except SimloopError as unmet:
        return _unmet(str(unmet).partition("\n")[0])
    if isinstance(error, ScriptUnused) and len(error.others) > 1:
        return _unmet(error.others[1])  # the unmet outcome is more useful than the unused replies
    return Failure.of_error(simulation.prepared.error or error)


def _unmet(expectation: str) -> Failure:
    return Failure(EXPECTATION, expectation, _SENTENCE)

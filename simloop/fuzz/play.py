"""The play of one world: a run with a judge that ends it at the first violation.

Not here: choosing worlds (families.py, search.py). The rule to keep: a violation and an error of a
run both become a Failure, so that the search, the shrinker and a report handle one type.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.judge import Chosen, Judge, Violation, choose
from simloop.check.invariants.subject import Subject
from simloop.errors import (
    CheckFailed,
    InvariantViolated,
    ReplayDiverged,
    RunawayRun,
    ScenarioError,
    SimloopError,
)
from simloop.escape import escape
from simloop.fuzz.settings import MOST_REQUESTS
from simloop.runs.account import printed
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.runs.prepared import PreparedRun
from simloop.scenario.schema import Scenario
from simloop.trace.entries import Compaction
from simloop.world.user_errors import describe

_TAIL = 60
"""The number of entries at the end of a runaway run that are inspected: a few rounds."""

FINISHES = "finishes"
"""The name of the failure of a run that does not end."""
ENDS_ITS_PROCESS = "ends-its-process"
"""The name of the failure of a run whose process died."""

SENTENCES = {
    FINISHES: "A run ends: it does not go on and on without anything new.",
    ENDS_ITS_PROCESS: "A run leaves the process alive in which it is made.",
    "Deadlock": "A run never waits for an event that cannot occur.",
    "ScenarioError": "A loop passes only valid values to its world.",
    "BrokenMachine": "A machine raises no error and takes only transitions of its map.",
    "InternalError": "Simloop raises no internal error.",
    "ReplayDiverged": "Two runs with the same scenario and seed are equal.",
}
"""The properties besides the invariants, by the name of the error that shows the failure."""


class Failure(NamedTuple):
    """The failure of a run: a violated invariant or an error, with its name and a description.

    `sentence` states the property that does not hold. `printed` are the lines that the run printed.
    """

    name: str
    text: str
    sentence: str
    printed: tuple[str, ...] = ()

    @classmethod
    def of_violation(cls, violation: Violation) -> "Failure":
        """Return the failure of a run that violates an invariant."""
        return cls(violation.name, violation.text, violation.invariant.sentence)

    @classmethod
    def of_error(cls, error: BaseException) -> "Failure":
        """Return the failure of a run that raises an error."""
        name = FINISHES if isinstance(error, RunawayRun) else type(error).__name__
        text = error.finding if isinstance(error, CheckFailed) else escape(describe(error))
        return cls(name, text, SENTENCES.get(name, "A run raises no error."))


class PlayedWorld(NamedTuple):
    """A run, and its failure, or None."""

    prepared: PreparedRun
    failure: Failure | None


UNJUDGED = choose(Subject(), ())
"""No invariants: such a run fails only if it raises an error."""


def play(plan: Plan, invariants: Chosen, seed: int | None = None) -> PlayedWorld:
    """Play a world, and end its run at the first violation of an invariant.

    Raises ScenarioError for a world that cannot be played.
    """
    prepared = PreparedRun(plan, seed)
    prepared.is_searched = plan.source.max_transitions == MOST_REQUESTS
    judge = Judge(Subject.of(prepared), invariants)
    judge.tell = lambda violation: prepared.end(InvariantViolated(str(violation)))
    if invariants.judged:
        prepared.listen(judge)
    error: BaseException | None = None
    try:
        prepared.on_clock(prepared.converse())
    except ScenarioError as raised:
        if raised.key != "loop":
            raise
        error = raised  # the loop passed a wrong value to the world, which itself is valid
    except (SimloopError, Exception, asyncio.CancelledError, SystemExit) as raised:  # noqa: BLE001 - a loop is somebody's code
        error = raised
    else:
        judge.end()
    judge.tell = None  # break the reference cycle, so that the run is freed at once
    failure = _failure(judge.violations, prepared, error)
    if failure is not None:
        failure = failure._replace(printed=tuple(printed(prepared.output)))
    return PlayedWorld(prepared, failure)


def _failure(
    found: list[Violation], prepared: PreparedRun, error: BaseException | None
) -> Failure | None:
    if found:
        return Failure.of_violation(found[0])
    cause = prepared.error or error
    if cause is None or (isinstance(cause, RunawayRun) and _compacts_by_design(prepared)):
        return None
    return Failure.of_error(cause)


def _compacts_by_design(prepared: PreparedRun) -> bool:
    """Return whether a run repeats compactions that its machine does not bound.

    Some loops do so by design, even if the model answers without faults: bug B1.
    """
    machine = prepared.loop.machine
    if machine is None or "max_compaction_attempts" in machine.bounds:
        return False
    return any(type(entry) is Compaction for entry in prepared.trace.entries[-_TAIL:])


def chosen_for(plan: Plan, invariants: Sequence[Invariant] | None = None) -> Chosen:
    """Return the invariants that are judged in the runs of a plan."""
    return choose(Subject.of(PreparedRun(plan)), invariants)


def failure_in(
    scenario: Scenario, given: RunOptions, invariants: Any = None, *, twice: bool = False
) -> Failure | None:
    """Return the failure of a scenario on the loop of `given`, or None.

    With `twice`, a run without a failure is repeated and compared. Raises ScenarioError for a
    scenario that the loop cannot run.
    """
    return judged(Plan(scenario, given), invariants, twice=twice)


def judged(plan: Plan, invariants: Any = None, *, twice: bool = False) -> Failure | None:
    """Return the failure of a plan as `failure_in` does."""
    played = play(plan, chosen_for(plan, invariants))
    return difference(plan, played) if twice and played.failure is None else played.failure


def difference(plan: Plan, played: PlayedWorld) -> Failure | None:
    """Run a plan again, and return the failure of a loop whose two runs differ."""
    record, again = (each.prepared.trace.entries for each in (played, play(plan, UNJUDGED)))
    if record == again:
        return None
    seq = next((n for n, pair in enumerate(zip(record, again, strict=False)) if pair[0] != pair[1]),
               min(len(record), len(again)))  # fmt: skip
    error = ReplayDiverged(f"a second run differs from the first one at entry {seq}")
    return Failure.of_error(error)

"""The play of one world: a run with a judge that ends it at the first violation.

Not here: choosing worlds (families.py, search.py). The rule to keep: every way in which a run can
go wrong becomes one Breach, so that the search, the shrinker and a report speak of one thing.
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
    RunawayRun,
    ScenarioError,
    SimloopError,
)
from simloop.escape import escape
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.runs.prepared import PreparedRun
from simloop.scenario.schema import Scenario
from simloop.trace.entries import Compaction
from simloop.world.user_errors import describe

_TAIL = 60
"""The last entries of a runaway, which show what it does: some rounds."""

FINISHES = "finishes"
"""The name of the rule that a run comes to an end once the faults have stopped."""

SENTENCES = {
    FINISHES: "A run comes to an end once the model answers well again.",
    "Deadlock": "A run never waits for something that cannot come.",
    "ScenarioError": "A loop gives its world nothing but what a world takes.",
    "BrokenMachine": "A machine raises nothing and stays on its map.",
    "InternalError": "Simloop itself does not fail.",
    "ReplayDiverged": "Two runs of one scenario and one seed are equal.",
}
"""The rules besides the invariants, each broken by an error of the run."""


class Breach(NamedTuple):
    """A rule that a run broke: the name of an invariant, or of an error; and how it broke it."""

    name: str
    text: str
    sentence: str

    @classmethod
    def of_violation(cls, violation: Violation) -> "Breach":
        """Return the breach of an invariant."""
        return cls(violation.name, violation.text, violation.invariant.sentence)

    @classmethod
    def of_error(cls, error: BaseException) -> "Breach":
        """Return the breach that an error tells of."""
        name = FINISHES if isinstance(error, RunawayRun) else type(error).__name__
        text = error.finding if isinstance(error, CheckFailed) else escape(describe(error))
        return cls(name, text, SENTENCES.get(name, "A run raises no error."))


class PlayedWorld(NamedTuple):
    """A run that was made, and the breach that it showed."""

    prepared: PreparedRun
    breach: Breach | None


UNJUDGED = choose(Subject(), ())
"""No invariants: such a run shows only the errors that it raises."""


def play(plan: Plan, invariants: Chosen, seed: int | None = None) -> PlayedWorld:
    """Play a world, and end its run at the first violation of an invariant.

    Raises ScenarioError for a world that cannot be played.
    """
    prepared = PreparedRun(plan, seed)
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
        error = raised  # what the loop gave to its world is wrong, and not the world
    except (SimloopError, Exception, asyncio.CancelledError, SystemExit) as raised:  # noqa: BLE001 - a loop is somebody's code
        error = raised
    else:
        judge.end()
    judge.tell = None  # so that nothing of the run refers to itself
    return PlayedWorld(prepared, _breach(judge.violations, prepared, error))


def _breach(
    found: list[Violation], prepared: PreparedRun, error: BaseException | None
) -> Breach | None:
    if found:
        return Breach.of_violation(found[0])
    cause = prepared.error or error
    if cause is None or (isinstance(cause, RunawayRun) and _compacts_by_design(prepared)):
        return None
    return Breach.of_error(cause)


def _compacts_by_design(prepared: PreparedRun) -> bool:
    """Return whether a run only shortens its context again and again, and nothing bounds that.

    Some loops do so by design, however well the model answers: bug B1.
    """
    machine = prepared.loop.design.declared.machine
    if machine is None or "max_compaction_attempts" in machine.bounds:
        return False
    return any(type(entry) is Compaction for entry in prepared.trace.entries[-_TAIL:])


def chosen_for(plan: Plan, invariants: Sequence[Invariant] | None = None) -> Chosen:
    """Return the invariants that are judged in the runs of a plan."""
    return choose(Subject.of(PreparedRun(plan)), invariants)


def breach_of(scenario: Scenario, given: RunOptions, invariants: Any = None) -> Breach | None:
    """Return the breach of a scenario on the loop of `given`; None if its run is right.

    Raises ScenarioError for a scenario that the loop cannot run.
    """
    plan = Plan(scenario, given)
    return play(plan, chosen_for(plan, invariants)).breach

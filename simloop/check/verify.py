"""Running a scenario and judging the run: its expectations, all invariants and its determinism.

Not here: the text of a verdict (cli/report.py). The rule to keep: every result and every error of a
scenario is stored in its verdict, so that one bad file never keeps the others from being checked.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from msgspec import Struct, field

from simloop.check.invariants.subject import Subject
from simloop.check.judged import check_invariants
from simloop.check.pairing import check_pairing
from simloop.check.replay import check_determinism, reproduce
from simloop.errors import (
    CannotExpress,
    InternalError,
    InvariantViolated,
    ScenarioError,
    SimloopError,
)
from simloop.runs.mismatch import Mismatch, in_trace
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.runs.prepared import PreparedRun
from simloop.runs.result import Result
from simloop.runs.simulation import Simulation
from simloop.scenario.expect import Expect
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Scenario
from simloop.trace.looptrace import LoopTrace
from simloop.virtual.border.output import Output
from simloop.world.user_errors import UserError


class Verdict(Struct):
    """One scenario and the stage that it reached: read, run, judged, run again.

    `errors` are the errors that prevented the next stage, or that it found. `ended_by` is the error
    that the scenario expects in the place of an outcome, with the expectations `unmet` all the
    same. `raised` are the exceptions of the user's code, and `output` has
    what it printed. `expected` are the expectations of the
    loop that was run. `deterministic` is None if there was no second run. `given` holds the
    caller's arguments besides the scenario. `watch` gets the run before it begins.
    """

    scenario: Scenario | None = None
    trace: LoopTrace | None = None
    result: Result | None = None
    deterministic: bool | None = None
    errors: list[SimloopError] = []
    ended_by: SimloopError | None = None
    unmet: tuple[Mismatch, ...] = ()
    raised: tuple[UserError, ...] = ()
    output: Output = field(default_factory=Output)
    given: RunOptions = field(default_factory=RunOptions)
    plan: Plan | None = None
    watch: Callable[[PreparedRun], object] | None = None
    subject: Subject | None = None
    expected: Expect = field(default_factory=Expect)

    @property
    def mismatches(self) -> tuple[Mismatch, ...]:
        """Return the expectations that do not hold."""
        return self.result.mismatches if self.result else self.unmet

    @property
    def failures(self) -> tuple[str, ...]:
        """Return the expectations that do not hold, one line each."""
        return tuple(map(str, self.mismatches))

    @property
    def worst(self) -> SimloopError | None:
        """Return the most severe error: of equally severe ones the first."""
        return max(self.errors, key=lambda error: error.exit_code, default=None)

    @property
    def cannot(self) -> str:
        """Return why the loop cannot express the scenario, or an empty string."""
        found = (error for error in self.errors if isinstance(error, CannotExpress))
        return next(("; ".join(error.reasons) for error in found), "")

    @property
    def exit_code(self) -> int:
        """Return the worst exit code of the errors and the failures."""
        return max([1 if self.failures else 0, *(error.exit_code for error in self.errors)])

    def play(self, source: Scenario | Path, **given: Unpack[RunOptions]) -> None:
        """Read and run a scenario; keep the partial trace if anything ends it, even Ctrl-C."""
        self.given = given
        try:
            self.scenario = load_scenario(source) if isinstance(source, Path) else source
            self.plan = Plan(self.scenario, given)
            simulation = Simulation(self.plan)
            self.trace = simulation.trace
            self.expected = simulation.expected
            self.subject = Subject.of(simulation.prepared)
            if self.watch is not None:
                self.watch(simulation.prepared)
            try:
                self.result = simulation.run()
            finally:
                self.raised = simulation.exceptions
                self.output = simulation.prepared.output
        except SimloopError as error:
            if isinstance(error, ScenarioError) and error.path is None:
                error.path = source if isinstance(source, Path) else source.path or None
            self._judge(error)
        if self.scenario is not None and self.trace is not None:
            self._judge_invariants(self.scenario, self.trace)

    def _judge_invariants(self, scenario: Scenario, trace: LoopTrace) -> None:
        """Check what every run must have, however this one ended."""
        found: list[SimloopError] = []
        try:
            check_pairing(trace, self.expected.broken_pairs)
        except InvariantViolated as error:
            found.append(error)
        if self.subject is not None and not self._is_broken:
            try:
                check_invariants(
                    self.subject,
                    trace.entries,
                    self.expected.violates or {},
                    pairs_are_broken=bool(found),
                )
            except (InvariantViolated, ScenarioError) as error:
                found.append(error)
        for each in found:
            if isinstance(each, InvariantViolated):
                each.reproduce = reproduce(scenario, trace.header.seed, self.given)
            elif isinstance(each, ScenarioError):
                each.path = each.path or scenario.path or None
        self.errors += found

    @property
    def _is_broken(self) -> bool:
        """Return whether simloop is at fault, which is reported once, or nothing was run."""
        faults = any(isinstance(error, InternalError) for error in self.errors)
        return faults or self.trace is None or not self.trace.entries

    def _judge(self, error: SimloopError) -> None:
        """Judge the run; an error that the scenario expects is a success."""
        if self.scenario is not None and self.trace is not None:
            expect = self.expected
            if expect.error == type(error).__name__:
                self.ended_by = error
                self.unmet = tuple(in_trace(expect, self.trace))
                return
        self.errors.append(error)

    def play_again(self) -> None:
        """Run the scenario once more and compare the runs."""
        if self.plan is None or self.trace is None or not self.trace.entries:
            return
        if any(isinstance(error, InternalError) for error in self.errors):
            return  # a fault of simloop is reported once
        try:
            check_determinism(self.trace, self.plan)
        except SimloopError as error:
            self.deterministic = False
            self.errors.append(error)
        else:
            self.deterministic = True


def verify(
    source: Scenario | Path,
    watch: Callable[[PreparedRun], object] | None = None,
    **given: Unpack[RunOptions],
) -> Verdict:
    """Read and run a scenario, judge the run, and run it again to compare the runs.

    The run is judged by its expectations and by all invariants. `watch` gets the first run before
    it begins.

    `given` holds arguments of `simloop.run`, and both runs get it. A machine that is given as an
    object is driven twice, so that one that carries something into its next run is found; a class
    or a function makes a machine for each run. Raises nothing for errors of the scenario or the
    loop: see `Verdict.errors`.
    """
    verdict = Verdict(watch=watch)
    verdict.play(source, **given)
    verdict.play_again()
    return verdict

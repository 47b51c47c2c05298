"""The search: it draws worlds, plays them, and collects the failures.

Each world has a number, from 1. Ten worlds in a row are a *family*: they share their settings, so
that making a plan costs less than playing. The choices of a family come from the seed of the search
and the number of the family alone, so a world is a pure function of the seed and its number, and
any process can play any range of a search. Steering the choices by the coverage of earlier runs was
tried and left out: it found no fault of tests/loopbench sooner.
"""

import contextlib
import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simloop.check.invariants.invariant import Invariant
from simloop.check.trial import Failure, Rules, Until, failure_of, run_again, trial
from simloop.errors import ReplayDiverged, ScenarioError
from simloop.fuzz import worlds
from simloop.fuzz.alphabet import Abilities, settings_of
from simloop.fuzz.choices import SeededChoices
from simloop.fuzz.failures import FoundFailure, FoundFailures
from simloop.fuzz.goals import GOALS, Goals
from simloop.fuzz.processes import Twin, failure_alone
from simloop.fuzz.worlds import base_of, varied
from simloop.kernel.limits import Limits
from simloop.runs.loop import is_made, kept_limits, loop_of
from simloop.runs.options import GivenLoop, RunOptions
from simloop.runs.plan import Plan
from simloop.scenario.schema import Scenario
from simloop.virtual.border.exchange import kept_border

_RUNS_OF_FAMILY = 10
"""The worlds of a family: making a family takes as long as a run, and covers more than ten."""
_TWICE = 20
"""One run in this many is repeated, and the two runs are compared."""
_ELSEWHERE = 100
"""One run in this many is repeated in another process, if the search has one."""
_LOOKED_AT = 4
"""Goals are counted in one run of this many."""
_OBJECTS = 50_000


@dataclass(frozen=True, slots=True)
class FuzzReport:
    """The results of a search so far. `goals` are counted in `looked_at` of its runs."""

    loop: str
    seed: int
    runs: int
    cpu_s: float
    virtual_s: float
    goals: Mapping[str, int]
    looked_at: int
    failures: tuple[FoundFailure, ...]


class Search:
    """A search for worlds in which a loop fails.

        search = Search("mypackage:agent", seed=1)
        for found in search.run(seconds=60):
            print(found.name, found.failure.text)

    `runs` and `cpu_s` count the runs and the processor time so far. A further call of `run`
    continues the search. `number` is the number of the newest world; a caller that sets it to n
    continues with world n + 1. With `scenarios`, each world is a variation of one of them.
    `invariants` replace the catalogue. Raises ScenarioError if `loop` is not a loop, or if it
    cannot run one of the scenarios.
    """

    def __init__(
        self,
        loop: GivenLoop,
        *,
        seed: int = 0,
        scenarios: Sequence[Scenario] = (),
        invariants: Sequence[Invariant] | None = None,
        **given: Any,
    ) -> None:
        self.loop, self.seed = loop, seed
        self._given: RunOptions = {"loop": loop, **given}  # type: ignore[typeddict-item]
        self._invariants = invariants
        self._named = loop if isinstance(loop, str) else "reference"
        chosen = loop_of(_with_limits_of(loop), self._given)
        self.name = chosen.name
        chosen.check()  # one error, and not one for each run
        machine = chosen.machine
        self._kept: dict[str, Any] = kept_limits(machine) if is_made(loop) and machine else {}
        self._abilities = Abilities.of(chosen)
        self._bases = [base_of(each, self._abilities, self._named) for each in scenarios]
        for base in self._bases:
            Plan(base, self._given)  # raises ScenarioError for what the loop cannot run
        self.failures = FoundFailures()
        self.twin: Twin | None = None
        """The process that repeats runs, or None."""
        self.alone = self._failure_alone
        """The function that runs a failing scenario by itself and returns its failure."""
        self.goals = Goals(GOALS, self._abilities)
        self.number = 0
        self.runs = 0
        self.cpu_s = 0.0
        self.virtual_ns = 0
        self._family: tuple[int, Iterator[tuple[Plan, Rules]]] = 0, iter(())

    def run(
        self, *, runs: int | None = None, seconds: float | None = None
    ) -> Iterator[FoundFailure]:
        """Search for `runs` further runs or for `seconds`, and yield each new failure."""
        for found in self.steps(runs=runs, seconds=seconds):
            if found is not None:
                yield found

    def steps(
        self, *, runs: int | None = None, seconds: float | None = None
    ) -> Iterator[FoundFailure | None]:
        """Search as `run` does, and yield after each run its failure if it is new, or None."""
        until = None if runs is None else self.runs + runs
        end_s = None if seconds is None else time.monotonic() + seconds
        with kept_border(), _rare_collections():
            while (until is None or self.runs < until) and (
                end_s is None or time.monotonic() < end_s
            ):
                yield self._next()

    def report(self) -> FuzzReport:
        """Return the report on the runs so far."""
        return FuzzReport(
            loop=self.name,
            seed=self.seed,
            runs=self.runs,
            cpu_s=self.cpu_s,
            virtual_s=self.virtual_ns / 1e9,
            goals=self.goals.counts,
            looked_at=self.goals.looked_at,
            failures=tuple(self.failures),
        )

    def worlds(self, number: int) -> Iterator[tuple[Plan, Rules]]:
        """Yield the worlds from `number` to the end of its family, each with its rules."""
        family, place = divmod(number - 1, _RUNS_OF_FAMILY)
        choices = SeededChoices(self.seed, f"family {family}")
        drawn: Iterator[Scenario]
        while True:
            with contextlib.suppress(ScenarioError):  # settings that contradict each other
                weights = worlds.weights_of_family(choices, self._abilities)
                if self._bases:
                    base = self._bases[family % len(self._bases)]
                    drawn = (varied(choices, base, weights) for _ in range(_RUNS_OF_FAMILY))
                else:
                    base = settings_of(choices, self._abilities, self._named)
                    limits = replace(base.limits, **self._kept)  # a machine object has its own
                    base = base.model_copy(update={"limits": limits})
                    drawn = (
                        worlds.world_for(choices, base, weights) for _ in range(_RUNS_OF_FAMILY)
                    )
                plan = Plan(base, self._given)
                rules = Rules(self._invariants, expectations=False)
                break
        for index, world in enumerate(drawn):
            if index >= place:
                yield plan.playing(world), rules

    def world(self, number: int) -> Scenario:
        """Return the world with this number, counted from 1."""
        return next(self.worlds(number))[0].by_itself()

    def _next_world(self) -> tuple[Plan, Rules]:
        """Return the world with the next number."""
        due, family = self._family
        self.number += 1
        if due != self.number or (found := next(family, None)) is None:
            family = self.worlds(self.number)
            found = next(family)
        self._family = self.number + 1, family
        return found

    def _next(self) -> FoundFailure | None:
        """Make one run, and return its failure if it is new."""
        start_s = time.process_time()
        plan, rules = self._next_world()
        world = plan.source
        verdict = trial(plan, rules, Until.VIOLATION)
        self.runs += 1
        record = verdict.entries
        failure, elsewhere = verdict.failure(), None
        if record:
            self.virtual_ns += record[-1].at_ns
        if failure is None and self.number % _TWICE == 0:
            run_again(verdict)
            failure = verdict.failure()
            if self.twin is not None and self.number % _ELSEWHERE == 0:
                elsewhere = self._found_elsewhere(self.twin.send(self.number, world, record))
        if self.number % _LOOKED_AT == 0:
            self.goals.add(record)
        self.cpu_s += time.process_time() - start_s
        if failure is None:
            return elsewhere
        found = self.failures.add(failure, world, self.number, self.cpu_s)
        if found is not None:
            self.confirm(found)
        return found

    def confirm(self, found: FoundFailure) -> None:
        """Set `reproduced` by a run of the scenario by itself."""
        again = self.alone(found.scenario, found.name)
        found.reproduced = again is not None and again.name == found.name

    def answer_elsewhere(self) -> FoundFailure | None:
        """Wait for the last run in the other process; return its failure if it is new."""
        return None if self.twin is None else self._found_elsewhere(self.twin.answer())

    def _found_elsewhere(self, differed: tuple[int, Scenario] | None) -> FoundFailure | None:
        """Add the failure of a run that differs in another process; return it if it is new."""
        if differed is None:
            return None
        number, world = differed
        error = ReplayDiverged("a run in another process, with another PYTHONHASHSEED, differs")
        return self.failures.add(Failure.of_error(error), world, number, self.cpu_s)

    def _failure_alone(self, world: Scenario, name: str) -> Failure | None:
        """Run a scenario in a new process; in this one if it needs objects of the caller."""
        twice = name == ReplayDiverged.__name__
        plan = Plan(world, self._given)
        if self._invariants is not None or not plan.has_file:
            rules = Rules(self._invariants, expectations=False)
            return failure_of(Plan(world, self._given), rules, twice=twice)
        return failure_alone(plan.by_itself(), "search twice" if twice else "search")


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often: the many objects of a run are freed without the collector."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _with_limits_of(loop: GivenLoop) -> Scenario:
    """Return a scenario that a loop can run; a machine object keeps its own limits."""
    limits: dict[str, Any] = kept_limits(loop) if is_made(loop) else {}  # type: ignore[arg-type]
    return Scenario(prompt="Do the work.", limits=Limits(**limits))

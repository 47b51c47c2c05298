"""The search: it draws worlds, plays them, and varies those that increase the coverage.

Not here: the choices (replies.py, settings.py) and the text of a report (cli). The rule to keep: a
search is a pure function of its seed, its arm and the number of its runs; only `seconds` depends on
a clock.
"""

import contextlib
import gc
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from simloop.check.invariants.invariant import Invariant
from simloop.errors import ReplayDiverged, ScenarioError
from simloop.fuzz.choices import Choices, SeededChoices
from simloop.fuzz.coverage import Coverage
from simloop.fuzz.difference import difference_of
from simloop.fuzz.failures import FoundFailure, FoundFailures
from simloop.fuzz.families import Family, new_settings
from simloop.fuzz.goal_list import GOALS
from simloop.fuzz.goals import Goals
from simloop.fuzz.library import bundled_scenarios, world_of
from simloop.fuzz.long_runs import LongRuns
from simloop.fuzz.paths import worlds_of_paths
from simloop.fuzz.play import UNJUDGED, Failure, PlayedWorld, chosen_for, play
from simloop.fuzz.scripts import Weights, weights_of_family
from simloop.fuzz.settings import Abilities, with_one_changed
from simloop.fuzz.swarm import Arm
from simloop.fuzz.twin import Twin
from simloop.kernel.limits import Limits
from simloop.runs.chosen_loop import choose_loop
from simloop.runs.options import RunOptions
from simloop.runs.own_loop import GivenLoop, is_made, kept_limits
from simloop.runs.plan import Plan
from simloop.scenario.schema import Scenario
from simloop.virtual.border import kept_border

_RUNS_OF_FAMILY = 10
"""The runs of a new family: making a family takes as long as a run, and covers more than ten."""
_FAMILIES = 3
"""The new families in a round. With one, two faults of LoopBench were missed in some trials."""
_RUNS_OF_CHANGED = 6
_CHANGES_OF_GIVEN = 2
_CHANGED = 8
_PATHS, _GIVEN = 15, 3
"""The number of paths and scenarios that are played in a round.

Reading a scenario takes as long as ten runs.
"""
_TWICE = 20
"""One run in this many is repeated, and the two runs are compared."""
_LOOKED_AT = 8
"""Goals are counted in each run that increases the coverage, and in one of this many other runs."""
_OBJECTS = 50_000
_ELSEWHERE = 100
"""One run in this many is repeated in another process, if the search has one."""
_CORPUS = 400
"""The largest number of worlds that are kept because they increased the coverage."""


@dataclass(frozen=True, slots=True)
class FuzzReport:
    """The results of a search so far. `goals` are counted in `looked_at` of its runs."""

    loop: str
    seed: int
    arm: Arm
    runs: int
    cpu_s: float
    virtual_s: float
    edges: int
    reached: int
    goals: Mapping[str, int]
    looked_at: int
    failures: tuple[FoundFailure, ...]


class Search:
    """A search for worlds in which a loop fails.

        search = Search("mypackage:agent", seed=1)
        for found in search.run(seconds=60):
            print(found.name, found.failure.text)

    `runs` and `cpu_s` count the runs and the processor time so far. A further call of `run`
    continues the search. `scenarios` replace the bundled ones, which are played and varied too.
    `invariants` replace the catalogue. `against` is another loop: a world in which the two loops
    differ is a failure too. Raises ScenarioError if one of them is not a loop.
    """

    def __init__(
        self,
        loop: GivenLoop,
        *,
        seed: int = 0,
        arm: Arm | str = Arm.STEERED,
        scenarios: Iterable[Scenario] | None = None,
        invariants: Sequence[Invariant] | None = None,
        against: GivenLoop | None = None,
        **given: Any,
    ) -> None:
        self.loop, self.seed, self.arm = loop, seed, Arm(arm)
        self._given: RunOptions = {"loop": loop, **given}  # type: ignore[typeddict-item]
        self._invariants = invariants
        self._against: RunOptions = {**self._given, "loop": against}
        self._scenarios = scenarios
        self._named = loop if isinstance(loop, str) else "reference"
        chosen = choose_loop(_with_limits_of(loop), self._given)
        self.name = chosen.name
        machine = chosen.design.declared.machine
        self._kept: dict[str, Any] = kept_limits(machine) if is_made(loop) and machine else {}
        self._abilities = Abilities.of(chosen.design)
        if against is not None:  # both loops play each world
            other = choose_loop(_with_limits_of(against), self._against).design
            lacks = frozenset((*self._abilities.lacks, *other.unsupported))
            self._abilities = self._abilities._replace(lacks=lacks)
        self._choices: Choices = SeededChoices(seed)
        self.coverage = Coverage(has_engine=self._abilities.has_engine)
        self.failures = FoundFailures()
        self.twin: Twin | None = None
        """The process that repeats runs, or None; `finish` ends it."""
        self.goals = Goals(GOALS, self._abilities)
        self.runs = 0
        self.cpu_s = 0.0
        self.virtual_ns = 0
        self._corpus: list[tuple[Family, Scenario]] = []
        self._long_runs = LongRuns(self._abilities)
        self._worlds = self._all_worlds()

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
            arm=self.arm,
            runs=self.runs,
            cpu_s=self.cpu_s,
            virtual_s=self.virtual_ns / 1e9,
            edges=len(self.coverage.edges),
            reached=len(self.coverage.reached),
            goals=self.goals.counts,
            looked_at=self.goals.looked_at,
            failures=tuple(self.failures),
        )

    def _next(self) -> FoundFailure | None:
        """Make one run, and return its failure if it is new."""
        start_s = time.process_time()
        family, world = next(self._worlds)
        self.runs += 1
        plan = family.plan.playing(world)
        played = play(plan, family.chosen)
        record = played.prepared.trace.entries
        failure, elsewhere = played.failure, None
        if record:
            self.virtual_ns += record[-1].at_ns
        if failure is None and self.runs % _TWICE == 0:
            failure = _difference(record, play(plan, UNJUDGED).prepared.trace.entries)
            if self.twin is not None and self.runs % _ELSEWHERE == 0:
                elsewhere = self._found_elsewhere(self.twin.send(world, record))
        if failure is None and family.against is not None:
            failure = difference_of(played, family.against.playing(world))
        is_new = self.coverage.add(record)
        if is_new or self.runs % _LOOKED_AT == 0:
            self.goals.add(record)
        if failure is None and self.arm is Arm.STEERED and _has_ended(played):
            self._long_runs.add(family, world, record)
            if is_new:
                self._keep(family, world)
        self.cpu_s += time.process_time() - start_s
        if failure is None:
            return elsewhere
        found = self.failures.add(failure, world, self.runs, self.cpu_s)
        if found is not None:
            self._confirm(found)
        return found

    def finish(self) -> Iterator[FoundFailure]:
        """End the other process; yield the failures of its last run."""
        if self.twin is not None:
            found = self._found_elsewhere(self.twin.finish())
            if found is not None:
                yield found

    def _found_elsewhere(self, world: Scenario | None) -> FoundFailure | None:
        """Add the failure of a run that differs in another process; return it if it is new."""
        if world is None:
            return None
        error = ReplayDiverged("a run in another process, with another PYTHONHASHSEED, differs")
        return self.failures.add(Failure.of_error(error), world, self.runs, self.cpu_s)

    def _confirm(self, found: FoundFailure) -> None:
        """Set `reproduced` by a run of the scenario alone."""
        plan = Plan(found.scenario, self._given)
        played = play(plan, chosen_for(plan, self._invariants))
        again = played.failure
        if again is None and self._against["loop"] is not None:
            again = difference_of(played, Plan(found.scenario, self._against))
        found.reproduced = again is not None and again.name == found.name

    def _keep(self, family: Family, world: Scenario) -> None:
        self._corpus.append((family, world))
        if len(self._corpus) > _CORPUS:
            del self._corpus[self._choices.integer(0, _CORPUS // 2)]

    def _all_worlds(self) -> Iterator[tuple[Family, Scenario]]:
        """Yield worlds without end: new ones and, in the steered arm, changed ones."""
        paths = self._given_worlds(self._ways())
        library = self._given_worlds(
            bundled_scenarios() if self._scenarios is None else self._scenarios
        )
        while True:
            for _ in range(_FAMILIES):
                yield from self._worlds_of(self._new_family())
            if self.arm is Arm.STEERED:
                yield from islice(paths, _PATHS)
                yield from islice(library, _GIVEN)
                yield from self._changed_worlds()
                changed = self._long_runs.changed(self._choices)
                if changed is not None:
                    yield changed

    def _ways(self) -> Iterator[Scenario]:
        """Yield worlds for the paths through the explored graph, if there is one."""
        if self._abilities.has_engine:
            yield from worlds_of_paths(self.loop, self._given)

    def _worlds_of(self, family: Family) -> Iterator[tuple[Family, Scenario]]:
        for _ in range(_RUNS_OF_FAMILY):
            yield family, family.world(self._choices)

    def _changed_worlds(self) -> Iterator[tuple[Family, Scenario]]:
        """Yield worlds of the corpus with changed scripts, and some with changed settings too."""
        choices = self._choices
        for _ in range(_CHANGED):
            if not self._corpus:
                return
            family, world = self._from_corpus()
            yield family, family.changed(choices, world, self._from_corpus()[1])
        family, world = self._from_corpus()
        settings = with_one_changed(choices, self._abilities, world)
        with contextlib.suppress(ScenarioError):
            family = self._family(settings, family.weights)
            world = family.settings
            for _ in range(_RUNS_OF_CHANGED):
                yield family, world
                world = family.changed(choices, family.settings, self._from_corpus()[1])

    def _from_corpus(self) -> tuple[Family, Scenario]:
        """Return a world of the corpus; newer ones are more probable."""
        choices, last = self._choices, len(self._corpus) - 1
        return self._corpus[max(choices.integer(0, last), choices.integer(0, last))]

    def _given_worlds(self, scenarios: Iterable[Scenario]) -> Iterator[tuple[Family, Scenario]]:
        """Yield each given scenario as a world, and then changed versions of it."""
        for scenario in scenarios:
            world = world_of(scenario, self._abilities, self._named)
            if world is None:
                continue
            weights = weights_of_family(self._choices, self._abilities, self.arm)
            with contextlib.suppress(ScenarioError):
                family = self._family(world, weights)
                world = family.settings
                yield family, world
                for _ in range(_CHANGES_OF_GIVEN):
                    yield family, family.changed(self._choices, world, world)

    def _new_family(self) -> Family:
        while True:
            settings, weights = new_settings(self._choices, self._abilities, self.arm, self._named)
            with contextlib.suppress(ScenarioError):
                return self._family(settings, weights)

    def _family(self, settings: Scenario, weights: Weights) -> Family:
        if self._kept:  # a machine object has its limits already
            limits = replace(settings.limits, **self._kept)
            settings = settings.model_copy(update={"limits": limits})
        plan = Plan(settings, self._given)
        against = None if self._against["loop"] is None else Plan(settings, self._against)
        return Family(settings, weights, plan, chosen_for(plan, self._invariants), against)


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


def _has_ended(played: PlayedWorld) -> bool:
    """Return whether a run ended; variations of a runaway run would be runaway runs too."""
    return len(played.prepared.endings) > len(played.prepared.scenario.then)


def _difference(record: Sequence[Any], again: Sequence[Any]) -> Failure | None:
    """Return the failure of a loop whose two runs of one world differ."""
    if record == again:
        return None
    seq = next((n for n, pair in enumerate(zip(record, again, strict=False)) if pair[0] != pair[1]),
               min(len(record), len(again)))  # fmt: skip
    error = ReplayDiverged(f"a second run differs from the first one at entry {seq}")
    return Failure.of_error(error)

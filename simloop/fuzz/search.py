"""The search: it draws worlds, plays them, and follows those that reach something new.

Not here: the alphabets (replies.py, settings.py) and the text of a report (cli). The rules to keep:
a search is a pure function of its seed, its arm and the number of its runs; only `seconds` ends it
by a clock.
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
from simloop.fuzz.failures import Finding, Findings
from simloop.fuzz.families import Family, new_settings
from simloop.fuzz.goal_list import GOALS
from simloop.fuzz.goals import Goals
from simloop.fuzz.library import bundled_scenarios, world_of
from simloop.fuzz.paths import worlds_of_paths
from simloop.fuzz.play import UNJUDGED, Breach, PlayedWorld, chosen_for, play
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
"""Of a new family: it costs as much as one run, and brings more that is new than ten runs."""
_RUNS_OF_CHANGED = 6
_CHANGES_OF_GIVEN = 2
_CHANGED = 8
_PATHS, _GIVEN = 15, 3
"""The worlds between two new families: of ways through the graph, and of given scenarios.

To read a scenario takes as long as ten runs.
"""
_TWICE = 20
"""One run in so many is made twice, and the runs compared."""
_LOOKED_AT = 8
"""Goals are counted in each run that reached something new, and in one of so many others."""
_OBJECTS = 50_000
_ELSEWHERE = 100
"""One run in so many is made in another process as well, if the search is given one."""
_CORPUS = 400
"""The worlds that are kept because they reached something new."""


@dataclass(frozen=True, slots=True)
class FuzzReport:
    """What a search has done so far. `goals` are counted in `looked_at` of its runs."""

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
    findings: tuple[Finding, ...]


class Search:
    """A search for worlds in which a loop breaks a rule.

        search = Search("mypackage:agent", seed=1)
        for finding in search.run(seconds=60):
            print(finding.name, finding.breach.text)

    `runs` and `cpu_s` say how much has been done so far. `run` may be called again, and goes on.
    `scenarios` replace the bundled ones, whose worlds are played and changed, too. `invariants`
    replace those of the catalogue. `against` is another loop: a world in which both do not do the
    same is a finding, too. Raises ScenarioError for a loop that is none.
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
        self._choices: Choices = SeededChoices(seed)
        self.coverage = Coverage(has_engine=self._abilities.has_engine)
        self.findings = Findings()
        self.twin: Twin | None = None
        """Another process for the worlds, or None; `finish` ends it."""
        self.goals = Goals(GOALS, self._abilities)
        self.runs = 0
        self.cpu_s = 0.0
        self.virtual_ns = 0
        self._corpus: list[tuple[Family, Scenario]] = []
        self._worlds = self._all_worlds()

    def run(self, *, runs: int | None = None, seconds: float | None = None) -> Iterator[Finding]:
        """Make so many runs more, or search for so long, and yield each new finding."""
        for finding in self.steps(runs=runs, seconds=seconds):
            if finding is not None:
                yield finding

    def steps(
        self, *, runs: int | None = None, seconds: float | None = None
    ) -> Iterator[Finding | None]:
        """Search as `run` does; yield after each run the new finding, or None."""
        until = None if runs is None else self.runs + runs
        end_s = None if seconds is None else time.monotonic() + seconds
        with kept_border(), _rare_collections():
            while (until is None or self.runs < until) and (
                end_s is None or time.monotonic() < end_s
            ):
                yield self._next()

    def report(self) -> FuzzReport:
        """Return what has been done so far."""
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
            findings=tuple(self.findings),
        )

    def _next(self) -> Finding | None:
        """Make one run, and return a new finding."""
        start_s = time.process_time()
        family, world = next(self._worlds)
        self.runs += 1
        plan = family.plan.playing(world)
        played = play(plan, family.chosen)
        record = played.prepared.trace.entries
        breach, elsewhere = played.breach, None
        if record:
            self.virtual_ns += record[-1].at_ns
        if breach is None and self.runs % _TWICE == 0:
            breach = _difference(record, play(plan, UNJUDGED).prepared.trace.entries)
            if self.twin is not None and self.runs % _ELSEWHERE == 0:
                elsewhere = self._found_elsewhere(self.twin.send(world, record))
        if breach is None and family.against is not None:
            breach = difference_of(played, family.against.playing(world))
        is_new = self.coverage.add(record)
        if is_new or self.runs % _LOOKED_AT == 0:
            self.goals.add(record)
        if is_new and breach is None and self.arm is Arm.STEERED and _has_ended(played):
            self._keep(family, world)
        self.cpu_s += time.process_time() - start_s
        if breach is None:
            return elsewhere
        finding = self.findings.add(breach, world, self.runs, self.cpu_s)
        if finding is not None:
            self._confirm(finding)
        return finding

    def finish(self) -> Iterator[Finding]:
        """End the other process; yield the findings of its last run."""
        if self.twin is not None:
            finding = self._found_elsewhere(self.twin.finish())
            if finding is not None:
                yield finding

    def _found_elsewhere(self, world: Scenario | None) -> Finding | None:
        """Add the finding of a run that differs in another process; return it if it is new."""
        if world is None:
            return None
        error = ReplayDiverged("a run in another process, with another PYTHONHASHSEED, differs")
        return self.findings.add(Breach.of_error(error), world, self.runs, self.cpu_s)

    def _confirm(self, finding: Finding) -> None:
        """Run the scenario of a finding alone, as its file will be."""
        plan = Plan(finding.scenario, self._given)
        played = play(plan, chosen_for(plan, self._invariants))
        again = played.breach
        if again is None and self._against["loop"] is not None:
            again = difference_of(played, Plan(finding.scenario, self._against))
        finding.reproduced = again is not None and again.name == finding.name

    def _keep(self, family: Family, world: Scenario) -> None:
        self._corpus.append((family, world))
        if len(self._corpus) > _CORPUS:
            del self._corpus[self._choices.integer(0, _CORPUS // 2)]

    def _all_worlds(self) -> Iterator[tuple[Family, Scenario]]:
        """Yield worlds without an end: new ones, and in the steered arm changed ones in turn."""
        paths = self._given_worlds(self._ways())
        library = self._given_worlds(
            bundled_scenarios() if self._scenarios is None else self._scenarios
        )
        while True:
            yield from self._worlds_of(self._new_family())
            if self.arm is Arm.STEERED:
                yield from islice(paths, _PATHS)
                yield from islice(library, _GIVEN)
                yield from self._changed_worlds()

    def _ways(self) -> Iterator[Scenario]:
        """Yield the ways through the explored graph, if there is one."""
        if self._abilities.has_engine:
            yield from worlds_of_paths(self.loop, self._given)

    def _worlds_of(self, family: Family) -> Iterator[tuple[Family, Scenario]]:
        for _ in range(_RUNS_OF_FAMILY):
            yield family, family.world(self._choices)

    def _changed_worlds(self) -> Iterator[tuple[Family, Scenario]]:
        """Yield worlds of the corpus with changes, and some in settings that are changed, too."""
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
        """Return a world that reached something new; newer ones are more probable."""
        choices, last = self._choices, len(self._corpus) - 1
        return self._corpus[max(choices.integer(0, last), choices.integer(0, last))]

    def _given_worlds(self, scenarios: Iterable[Scenario]) -> Iterator[tuple[Family, Scenario]]:
        """Yield each scenario as a world, and then with changes."""
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
        if self._kept:  # of a machine that is made already: it takes no others
            limits = replace(settings.limits, **self._kept)
            settings = settings.model_copy(update={"limits": limits})
        plan = Plan(settings, self._given)
        against = None if self._against["loop"] is None else Plan(settings, self._against)
        return Family(settings, weights, plan, chosen_for(plan, self._invariants), against)


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often: a run makes many objects, which are gone when it has ended."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _with_limits_of(loop: GivenLoop) -> Scenario:
    """Return a scenario that a loop can run: with the limits of a machine that is made already."""
    limits: dict[str, Any] = kept_limits(loop) if is_made(loop) else {}  # type: ignore[arg-type]
    return Scenario(prompt="Do the work.", limits=Limits(**limits))


def _has_ended(played: PlayedWorld) -> bool:
    """Return whether a run came to its end; to follow a runaway only makes more of them."""
    return len(played.prepared.endings) > len(played.prepared.scenario.then)


def _difference(record: Sequence[Any], again: Sequence[Any]) -> Breach | None:
    """Return the breach of two runs of one world that differ."""
    if record == again:
        return None
    seq = next((n for n, pair in enumerate(zip(record, again, strict=False)) if pair[0] != pair[1]),
               min(len(record), len(again)))  # fmt: skip
    error = ReplayDiverged(f"a second run differs from the first one at entry {seq}")
    return Breach.of_error(error)

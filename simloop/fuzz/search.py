"""The search: it draws worlds, plays them, and collects the failures in groups of one cause.

A world is settings (limits, policies, tools, hooks) and a script (replies, faults, an abort, queued
messages, further prompts). After the faults of a script the model answers every request without a
fault, and the loop must end: a run that does not is the failure `finishes`.

Each world has a number, from 1. Ten worlds in a row are a *family*: they share their settings, so
that making a plan costs less than playing. The choices of a family come from the seed of the search
and the number of the family alone, so a world is a pure function of the seed and its number, and
any process can play any range of a search. Steering by coverage found no fault sooner.
"""

import contextlib
import gc
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from typing import Any, NamedTuple

from simloop.check import trial as trials
from simloop.check.invariants.invariant import Invariant
from simloop.check.trial import FINISHES, UNLIKE, Failure, Rules, Until, only, trial
from simloop.errors import ReplayDiverged, ScenarioError
from simloop.fuzz.alphabet import Abilities, settings_of
from simloop.fuzz.choices import SeededChoices
from simloop.fuzz.course import AgentCourse, plain_scenario
from simloop.fuzz.goals import GOALS, Goals
from simloop.fuzz.processes import Twin, cpu_s, failure_alone
from simloop.fuzz.worlds import base_of, varied, weights_of_family, world_for
from simloop.kernel.limits import Limits
from simloop.prove.likeness import first_difference
from simloop.runs.loop import found, is_made, kept_limits, loop_of, machine_for
from simloop.runs.options import GivenLoop, RunOptions
from simloop.runs.plan import Plan
from simloop.scenario.people import Then
from simloop.scenario.schema import Declared, Scenario
from simloop.trace.entries import AnyEntry, ProgramStarted, Request, ServiceRequest, ToolCall
from simloop.virtual.border.seal import kept_border

# A quote behind a letter is an apostrophe.
_QUOTED = re.compile(r"(?<!\w)'.*?'(?!\w)|\"[^\"]*\"|`[^`]*`")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SHAPE_CHARS = 160


class Group(NamedTuple):
    """The name of the failures of a group, and of an error the shape of its texts.

    The violations of one invariant are one group: their texts have other ids and finish reasons.
    """

    name: str
    shape: str

    @classmethod
    def of(cls, name: str, text: str) -> "Group":
        if name in trials.SPLIT:
            return cls(name, trials.cause_of(text))
        if only(name) or name == FINISHES:
            return cls(name, "")
        line = text.partition("\n")[0]
        return cls(name, _NUMBER.sub("0", _QUOTED.sub("''", line))[:_SHAPE_CHARS])


@dataclass(slots=True)
class FoundFailure:
    """The first failure of a group, its scenario, and the number of its run.

    `reproduced` says whether the scenario fails in a new process as well, or is None if that was
    not tried: if it does not, the loop keeps state.
    """

    failure: Failure
    scenario: Scenario
    run: int
    reproduced: bool | None = None

    rule: Sequence[Invariant] | None = None
    """The one invariant that a smaller scenario must violate: an agent may violate several."""

    @property
    def name(self) -> str:
        return self.failure.name


class FoundFailures:
    """The failures of a search, in the order in which they were found.

    Failures of the groups in `known` are counted only. `counts` are the failing runs by group.
    """

    def __init__(self, known: Iterable[Group] = ()) -> None:
        self._known = frozenset(known)
        self._groups: dict[Group, FoundFailure] = {}
        self.counts: dict[Group, int] = {}

    def __iter__(self) -> Iterator[FoundFailure]:
        return iter(self._groups.values())

    def has(self, name: str) -> bool:
        return any(group.name == name for group in (*self._groups, *self._known))

    def add(
        self, failure: Failure, scenario: Scenario, run: int, *, alone: bool = False
    ) -> FoundFailure | None:
        """Add a failure; return its group if the group is new.

        `alone` says that other rules may be violated as well.
        """
        group = Group.of(failure.name, failure.text)
        self.counts[group] = self.counts.get(group, 0) + 1
        if group in self._groups or group in self._known:
            return None
        rule = only(failure.name) if alone else None
        return self._groups.setdefault(group, FoundFailure(failure, scenario, run, rule=rule))


_RUNS_OF_FAMILY = 10
"""The worlds of a family: making a family takes as long as a run, and covers more than ten."""
_TWICE = 20  # one run in this many is repeated, and the two runs are compared
_ELSEWHERE = 100  # one run in this many is repeated in another process, if the search has one
_LOOKED_AT = 8  # goals are counted in one run of this many
_OBJECTS = 50_000
_ELSEWHERE_DIFFERS = (
    "a run in another process differs: by the order of a set, or by a value that was drawn while a "
    "module was imported"
)
_SENT = "request #"
_USERS = 5  # a difference of two runs that the model sees
_SLOW_S = 0.5
_SEEDS = 1_000  # those that a world may draw


class Search:
    """A search for worlds in which a loop fails.

        search = Search("mypackage:agent", seed=1)
        for found in search.run(seconds=60):
            print(found.name, found.failure.text)

    `runs`, `cpu_s` and `virtual_ns` are those so far. A further call of `run` continues the search.
    `number` is the number of the newest world; a caller that sets it to n continues with world
    n + 1. With `scenarios`, each world is a variation of one of them. `invariants` replace the
    catalogue. `twin` is the process that repeats runs. An agent is first played in small worlds, in
    which one circumstance disturbs its course; with `breaches` also in those of a provider that
    breaks the contract of its API. With `isolate`, each run is made in a process of its own. Raises
    ScenarioError if `loop` is not a loop, or if it cannot run one of the scenarios.
    """

    def __init__(
        self, loop: GivenLoop, *, seed: int = 0, scenarios: Sequence[Scenario] = (),
        invariants: Sequence[Invariant] | None = None, isolate: bool = False,
        breaches: bool = False, declares: Declared | None = None, **given: Any,
    ) -> None:  # fmt: skip
        self.loop, self.seed = loop, seed
        self._given: RunOptions = {"loop": loop, **given}  # type: ignore[typeddict-item]
        self._invariants = invariants
        self._named = loop if isinstance(loop, str) else "reference"
        self._shared: dict[str, Any] = {} if declares is None else {"declares": declares}
        chosen = loop_of(_with_limits_of(loop, self._shared), self._given)
        chosen.check()  # one error, and not one for each run
        if chosen.program is not None:
            type(chosen.program).imports_here = True
        machine = chosen.machine
        self.isolates = isolate
        self._kept: dict[str, Any] = kept_limits(machine) if is_made(loop) and machine else {}
        self._abilities = Abilities.of(chosen)._replace(breaches=breaches or machine is not None)
        self.bases = [
            base_of(each, self._abilities, self._named).model_copy(update=self._shared)
            for each in scenarios
        ]
        for base in self.bases:
            Plan(base, self._given)  # raises ScenarioError for what the loop cannot run
        self._course: AgentCourse | None = None
        if machine is None:
            bases = self.bases or [plain_scenario(self._named, **self._shared)]
            self._course = AgentCourse.of(bases, self._given, self._abilities)
            self._abilities = self._course.abilities(self._abilities)
            self._shared |= self._course.typed
            self.bases = self._course.scripted if self.bases else []
        self.failures = FoundFailures()
        self.twin: Twin | None = None
        self._chosen = chosen
        self.goals = Goals(GOALS, self._abilities)
        self.number = 0
        self.runs = self.requests = 0
        self.calls: dict[str, int] = {}
        """The calls of the tools that an agent offers, and of the services and programs of its
        scenarios, by their names."""
        self.cpu_s = 0.0
        self.virtual_ns = 0
        self._family: tuple[int, Iterator[tuple[Plan, Rules]]] = 0, iter(())

    @property
    def is_of_agent(self) -> bool:
        return self._course is not None

    @property
    def unseen(self) -> Sequence[str]:
        """Return the tools of an agent whose runs no trace shows."""
        return self._abilities.tools.unseen

    @property
    def is_slow(self) -> bool:
        """Return whether the first runs of an agent took long: an SDK does much for each."""
        return self._course is not None and self._course.took_s > _SLOW_S

    @property
    def undisturbed(self) -> Sequence[Scenario]:
        """Return the scenarios that are varied, or the plain course of an agent."""
        course = self._course
        return self.bases or ([world for _, world in course.small[:1]] if course else ())

    def run(
        self, *, runs: int | None = None, seconds: float | None = None
    ) -> Iterator[FoundFailure]:
        """Search for `runs` further runs or for `seconds`, and yield each new failure."""
        for each in self.steps(runs=runs, seconds=seconds):
            yield from each

    def steps(
        self, *, runs: int | None = None, seconds: float | None = None
    ) -> Iterator[list[FoundFailure]]:
        """Search as `run` does, for a run at least, and yield after each its new failures."""
        until = inf if runs is None else self.runs + runs
        end_s = inf if seconds is None else time.monotonic() + seconds
        with kept_border(), _rare_collections():
            while self.runs < until:
                yield self._next()
                if time.monotonic() >= end_s:
                    return

    def worlds(self, number: int) -> Iterator[tuple[Plan, Rules]]:
        """Yield the worlds from `number` to the end of its family, each with its rules."""
        for place, (plan, rules) in enumerate(self._worlds(number), number):
            source = plan.source
            if self._course is not None and place > 1:  # it may keep things under a random id
                source = source.model_copy(update={"seed": source.seed + place * _SEEDS})
            yield (plan if source is plan.source else plan.playing(source)), rules

    def _worlds(self, number: int) -> Iterator[tuple[Plan, Rules]]:
        if (course := self._course) is not None:
            if number <= len(course.small):
                yield from course.small_from(number, self._invariants)
                return
            number -= len(course.small)
        family, place = divmod(number - 1, _RUNS_OF_FAMILY)
        if course is not None and family % 2 == 0:
            first = family // 2 * _RUNS_OF_FAMILY
            drawn = course.together(self.seed, first, _RUNS_OF_FAMILY, self._invariants)
            yield from islice(drawn, place, None)
            return
        choices = SeededChoices(self.seed, f"family {family}")
        while True:
            with contextlib.suppress(ScenarioError):  # settings that contradict each other
                weights = weights_of_family(choices, self._abilities)
                if self.bases:
                    draw, base = varied, self.bases[family % len(self.bases)]
                else:
                    draw, base = world_for, settings_of(choices, self._abilities, self._named)
                    limits = replace(base.limits, **self._kept)  # a machine object has its own
                    base = base.model_copy(update={"limits": limits, **self._shared})
                plan = Plan(base, self._given)
                break
        rules = Rules(self._invariants, expectations=False)
        for index in range(_RUNS_OF_FAMILY):
            world = draw(choices, base, weights)
            if index >= place:
                yield plan.playing(world), rules

    def world(self, number: int) -> Scenario:
        return next(self.worlds(number))[0].by_itself()

    def _next_world(self) -> tuple[Plan, Rules]:
        due, family = self._family
        self.number += 1
        if due != self.number or (found := next(family, None)) is None:
            family = self.worlds(self.number)
            found = next(family)
        self._family = self.number + 1, family
        return found

    def _next(self) -> list[FoundFailure]:
        start_s = cpu_s()
        plan, rules = self._next_world()
        world = plan.source
        # The first violation of an agent hides the others, and may be one that its author accepts.
        until = Until.VIOLATION if self._course is None else Until.END
        verdict = trial(plan.isolated() if self.isolates else plan, rules, until)
        self.runs += 1
        record = verdict.entries
        failures, found = verdict.every_failure(), list[FoundFailure]()
        if self.number == 1:
            found += self._unlike() if self._course is None else self._carries_over(world, record)
        if record:
            self.virtual_ns += record[-1].at_ns
        if not failures and self.number % _TWICE == 0:
            trials.run_again(verdict)
            failures = verdict.every_failure()
            if self.twin is not None and self.number % _ELSEWHERE == 0:
                isolates = self.isolates or self._course is not None
                found += self.answer_elsewhere()
                self.twin.send(self.number, world, record, isolates=isolates)
        if self._course is not None or self.number % _LOOKED_AT == 0:
            self.goals.add(record)
        if self._course is not None:
            self._count_calls(record)
        self.cpu_s += cpu_s() - start_s
        for failure in failures:
            new = self.failures.add(failure, world, self.number, alone=len(failures) > 1)
            if new is not None:
                new.reproduced = self._fails_alone(world, new.name)
                if not new.reproduced and self._course is not None:
                    both = _of_user(world, record, 2, restart=True)
                    with contextlib.suppress(ScenarioError):  # an object cannot restart
                        if self._fails_alone(both, new.name):
                            new.scenario, new.reproduced = both, True
                found.append(new)
        return found

    def _fails_alone(self, world: Scenario, name: str) -> bool:
        failure = self.alone(world, name)
        return failure is not None and failure.name == name

    def _unlike(self) -> list[FoundFailure]:
        """Compare an own machine with the design that it declares, in all its runs."""
        chosen, name = self._chosen, self._chosen.judge_as
        if not (chosen.is_own and chosen.machine and name) or UNLIKE in chosen.deviations:
            return []
        own = found(self.loop)
        limits = Limits(**(kept_limits(own) if is_made(own) else _FEW))
        machine = loop_of(_with_limits_of(self.loop, {"limits": limits}), self._given).machine
        assert machine is not None
        design: Any = machine_for(name, limits)
        if isinstance(machine, type(design)) and "@" not in name:
            design = type(design)(limits, machine.options)
        if not (what := first_difference(machine, design, limits)):
            return []
        return self._new(Failure.named(UNLIKE, what), _with_limits_of(self.loop, {}), self.number)

    def _carries_over(self, world: Scenario, record: Iterable[AnyEntry]) -> list[FoundFailure]:
        """Play the course of an agent twice in a new process: two users must not meet.

        Then play it several times twice, for what is used up, and without its further prompts, for
        what these take back. An agent may keep what no request shows, such as a cache or the time
        of its last call.
        """
        worlds = [world, _of_user(world, record, _USERS, restart=False)]
        worlds += [_left_early(world)] if world.then else []
        return [] if self.isolates else self._met((1, each) for each in worlds)

    def left(self, first: int, runs: int) -> list[FoundFailure]:
        """Return the first of these worlds that leaves something for another user of the agent.

        What its tools see may be the world's, so the first request must differ.
        """
        worlds = ((each, self.world(each)) for each in range(first, first + runs))
        return self._met(worlds, f"told something else in {_SENT}1\n")

    def _met(self, worlds: Iterable[tuple[int, Scenario]], said: str = "") -> list[FoundFailure]:
        for number, each in worlds:
            failure = self.alone(each, ReplayDiverged.__name__)
            if failure is not None and _is_shown(failure) and said in f"{failure.text}\n":
                return self._new(failure, each, number, reproduced=True)
        return []

    def _new(
        self, failure: Failure, world: Scenario, run: int, *, reproduced: bool | None = None
    ) -> list[FoundFailure]:
        if (found := self.failures.add(failure, world, run)) is not None:
            found.reproduced = reproduced
        return [] if found is None else [found]

    def _count_calls(self, record: Iterable[AnyEntry]) -> None:
        if not self.calls:
            names = [*self._abilities.tools.names]
            for base in self.bases:
                commands = [key.split()[0] for key in base.programs if not key.startswith("*")]
                names += [*base.services, *(f"program {each}" for each in commands)]
            self.calls = dict.fromkeys(names, 0)
        for entry in record:
            self.requests += type(entry) is Request
            name = entry.name if type(entry) is ToolCall else ""
            if type(entry) is ServiceRequest:
                name = entry.service
            elif type(entry) is ProgramStarted:
                name = f"program {entry.args[0]}"
            if name in self.calls:
                self.calls[name] += 1

    def answer_elsewhere(self) -> list[FoundFailure]:
        """Wait for the last run in the other process; return its failure if it is new."""
        differed = None if self.twin is None else self.twin.answer()
        if differed is None or self.failures.has(ReplayDiverged.__name__):
            return []
        error = ReplayDiverged(_ELSEWHERE_DIFFERS)
        return self._new(Failure.of_error(error), differed[1], differed[0])

    def alone(self, world: Scenario, name: str) -> Failure | None:
        """Run a scenario in a new process; in this one if it needs objects of the caller.

        Of an agent, the one rule of that name is judged.
        """
        twice = name == ReplayDiverged.__name__
        plan = Plan(world, self._given)
        if self._invariants is not None or not plan.has_file:
            known = [each for each in self._invariants or () if each.name == name]
            rules = Rules(known or only(name), expectations=False)
            return trials.failure_of(plan, rules, twice=twice, name=name)
        return failure_alone(plan.by_itself(), name, alone=self._course is not None, twice=twice)


def _is_shown(failure: Failure) -> bool:
    """Return whether two runs differ in what the model is asked, or in how they end."""
    if failure.name != ReplayDiverged.__name__:
        return False
    first = next((x for x in failure.text.splitlines() if x.strip()[:2] == "- "), "")
    said = ", ended.", f", {_SENT}", f"told something else in {_SENT}"
    return _SENT in first or any(each in failure.text for each in said)


def _of_user(world: Scenario, record: Iterable[AnyEntry], times: int, *, restart: bool) -> Scenario:
    """Return a world played several times in a process: an agent may keep something of a time."""
    rules = [each for each in world.model if each.when is not None]
    *course, last = (each for each in world.model if each.when is None)
    used = sum(type(entry) is Request and entry.purpose == "main" for entry in record)
    more = used - sum(each.times if isinstance(each.times, int) else 1 for each in course)
    end = [last.model_copy(update={"times": more})] if more > 0 else []
    then = [*world.then, *[Then(say=world.prompt, restart=restart), *world.then] * (times - 1)]
    replies = [*rules, *[*course, *end] * (times - 1), *course, last]
    return world.model_copy(update={"model": replies, "then": then})


def _left_early(world: Scenario) -> Scenario:
    ends = (n for n, each in enumerate(world.model) if not (each.call or each.when))
    model = [*world.model[: next(ends, 0)], world.model[-1]]
    return world.model_copy(update={"then": [], "model": model})


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often: the many objects of a run are freed without the collector."""
    before, set_threshold = gc.get_threshold(), gc.set_threshold  # `gc` is gone at exit
    set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        set_threshold(*before)


_FEW = {"max_steps": 3, "max_error_count": 3, "max_compaction_attempts": 1}
"""The limits under which two machines are compared: with these, every decision is reached."""


def _with_limits_of(loop: GivenLoop, more: Mapping[str, Any]) -> Scenario:
    limits: dict[str, Any] = kept_limits(loop) if is_made(loop) else {}  # type: ignore[arg-type]
    return Scenario(**{"prompt": "Do the work.", "limits": Limits(**limits), **more})

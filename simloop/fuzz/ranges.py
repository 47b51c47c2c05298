"""Ranges of a search: worlds with consecutive numbers, played in any process and put in order.

A world depends on the seed and its number alone, so a search in many processes finds exactly what
one process finds. A range ends with the first failure of a new group, which is told at once.
"""

import heapq
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from msgspec import Struct

from simloop.check.invariants.catalog import add_invariants
from simloop.check.trial import FINISHES, Failure
from simloop.errors import ScenarioError
from simloop.fuzz.failures import FoundFailure, FoundFailures, Group
from simloop.fuzz.processes import Twin
from simloop.fuzz.search import Search
from simloop.fuzz.shrink import smallest
from simloop.fuzz.watch import Overdue, RunWatch
from simloop.scenario.loader import parse_scenario
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import scenario_text
from simloop.virtual.border.output import captured

_SLICE_S = 0.5
"""The real seconds after which a range ends: results are stored and shown that often."""
TWIN, WATCH = Twin(), RunWatch()
"""Those of this process."""


class SearchSettings(Struct, frozen=True, tag_field="line", tag="search"):
    """The inputs of a search: equal settings give equal worlds.

    `scenarios` are the texts of those that are varied, `code` is a digest of the code under test.
    `invariants` are the names of those that were added.
    """

    loop: str
    seed: int = 0
    scenarios: tuple[str, ...] = ()
    code: str = ""
    invariants: tuple[str, ...] = ()

    def search(self) -> Search:
        """Return a search with these settings, before its first world. Raises ScenarioError."""
        add_invariants(*self.invariants)  # in another process
        varied = [parse_scenario(text) for text in self.scenarios]
        return Search(self.loop, seed=self.seed, scenarios=varied)


class SearchFinding(Struct, frozen=True, tag_field="line", tag="failure"):
    """The first failure of a group; `run` is the number of its world.

    `reproduced` is that of `FoundFailure`. `scenario` is the text of the smallest scenario, or
    empty if no file can hold it, and `shown` the text of that scenario's failure. `printed` are
    the lines that the failing run printed.
    """

    name: str
    text: str
    sentence: str
    run: int
    reproduced: bool | None
    scenario: str
    shown: str
    printed: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: FoundFailure, loop: str, *, shrinks: bool) -> "SearchFinding":
        """Return a failure as a finding, with a shrunk scenario if `shrinks`."""
        scenario, failure = found.scenario, found.failure
        if shrinks:
            scenario, failure = smallest(found, {"loop": loop})
        text = ""
        with suppress(ScenarioError):  # text with half a surrogate pair
            text = scenario_text(scenario)
        name, said, sentence, printed = found.failure
        return cls(name, said, sentence, found.run, found.reproduced, text, failure.text, printed)


class Range(Struct, frozen=True):
    """The task to play `runs` worlds from the world `first`, for at most `seconds`.

    A failure of the groups in `known` is counted, and does not end the range. `left_s` are the
    seconds until the search must end, or None. `shrinks` says whether to shrink a failure.
    """

    first: int
    runs: int
    seconds: float = _SLICE_S
    left_s: float | None = None
    known: tuple[Group, ...] = ()
    shrinks: bool = False


class RangeResult(Struct, frozen=True, tag_field="line", tag="range"):
    """The result of `runs` worlds from the world `first`; `counts` are the failing runs by group.

    `ended` says that the search must end.
    """

    first: int
    runs: int
    cpu_s: float = 0.0
    virtual_ns: int = 0
    goals: dict[str, int] = {}
    looked_at: int = 0
    counts: tuple[tuple[Group, int], ...] = ()
    finding: SearchFinding | None = None
    ended: bool = False


def play_range(
    settings: SearchSettings, due: Range, begins: Callable[[int], object] = lambda _: None
) -> RangeResult:
    """Play a range in this process. `begins` is called with the number of each world."""
    with captured():  # a worker is in no command that captures
        return _played(settings, due, begins)


def _played(settings: SearchSettings, due: Range, begins: Callable[[int], object]) -> RangeResult:
    search = settings.search()
    search.twin, search.number, search.failures = TWIN, due.first - 1, FoundFailures(due.known)
    alone = search.alone

    def unwatched(world: Scenario, name: str) -> Failure | None:
        WATCH.begins(0)  # a new process takes a while
        return alone(world, name)

    search.alone = unwatched
    found, finding, ended = None, None, False
    with WATCH.over(f"of seed {settings.seed}", due.left_s):
        try:
            steps = search.steps(runs=due.runs, seconds=due.seconds)
            going = True
            while found is None and going:
                begins(search.number + 1)
                WATCH.begins(search.number + 1)
                found, going = next(((each, True) for each in steps), (None, False))
            WATCH.begins(0)
            found = found or search.answer_elsewhere()
            if found is not None:
                finding = SearchFinding.of(found, settings.loop, shrinks=due.shrinks)
        except Overdue as overdue:
            ended = True
            search.runs += 1
            failure = Failure.named(FINISHES, str(overdue))
            search.failures.add(failure, search.world(search.number), search.number, 0.0)
        except KeyboardInterrupt:
            ended = True
    if finding is None and len(search.failures):  # broken off before it was run again, or shrunk
        finding = SearchFinding.of(next(iter(search.failures)), settings.loop, shrinks=False)
    goals = {name: count for name, count in search.goals.counts.items() if count}
    counts = tuple(search.failures.counts.items())
    return RangeResult(due.first, search.runs, search.cpu_s, search.virtual_ns, goals,
                       search.goals.looked_at, counts, finding, ended)  # fmt: skip


def lost_run(settings: SearchSettings, number: int, failure: Failure) -> RangeResult:
    """Return the result of a run that has ended its process."""
    search = settings.search()
    found = search.failures.add(failure, search.world(number), number, 0.0)
    assert found is not None
    search.confirm(found)
    finding = SearchFinding.of(found, settings.loop, shrinks=False)
    return RangeResult(number, 1, counts=tuple(search.failures.counts.items()), finding=finding)


class Ranges:
    """The ranges of a search that are still to play, and the results in the order of their worlds.

    The search makes `runs` runs, or goes on for `seconds`; a range has at most `most` runs. `store`
    gets each result as it comes. If `stopped` is true, no further range is begun.
    """

    def __init__(
        self,
        runs: int | None,
        seconds: float | None,
        *,
        most: int,
        shrinks: bool = False,
        store: Callable[[RangeResult], object] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs, self._most, self._shrinks = runs, most, shrinks
        self._store, self._now = store, now
        self._end_s = None if seconds is None else now() + seconds
        self._left: list[tuple[int, int]] = []
        self._next = self._due = 1
        self._results: dict[int, RangeResult] = {}
        self._found: dict[Group, int] = {}
        self.stopped = False

    def take(self) -> Range | None:
        """Return the next range to play, or None."""
        left_s = None if self._end_s is None else self._end_s - self._now()
        if self.stopped or (left_s is not None and left_s <= 0):
            return None
        if not self._left:
            self.put_back(self._next, self._most if self._runs is None else self._runs)
        first, runs = heapq.heappop(self._left) if self._left else (self._next, 0)
        self.put_back(first + self._most, runs - self._most)
        known = tuple(group for group, run in self._found.items() if run < first)
        seconds = _SLICE_S if left_s is None else min(_SLICE_S, left_s)
        runs = min(runs, self._most)
        return Range(first, runs, seconds, left_s, known, self._shrinks) if runs else None

    def put_back(self, first: int, runs: int) -> None:
        """Have `runs` worlds from `first` played, if that is any."""
        runs = runs if self._runs is None else min(runs, self._runs + 1 - first)
        if runs > 0:
            heapq.heappush(self._left, (first, runs))
            self._next = max(self._next, first + runs)

    def add(self, result: RangeResult, due: Range | None = None) -> Iterator[RangeResult]:
        """Add the result of a range; yield those that have become the next in order.

        The worlds of the range `due` that have not been played are put back. Without it, the result
        is of an earlier search; those are added in order.
        """
        after = result.first + result.runs
        if due is None:
            self.put_back(self._next, result.first - self._next)
            self._next = after
        else:
            self.put_back(after, due.first + due.runs - after)
            self._store(result)
        if result.runs:
            self._results[result.first] = result
        if (finding := result.finding) is not None:
            group = Group.of(finding.name, finding.text)
            self._found[group] = min(finding.run, self._found.get(group, finding.run))
        while (released := self._results.pop(self._due, None)) is not None:
            self._due += released.runs
            yield released

    def rest(self) -> Iterator[RangeResult]:
        """Yield the other results in order, when the search has ended."""
        yield from (self._results[first] for first in sorted(self._results))

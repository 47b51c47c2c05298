"""The execution of a search: ranges of worlds, played here or in other processes.

A world depends on the seed and its number alone, so a search in many processes finds exactly what
one process finds. A range ends with the first failure of a new group, which is told at once.
"""

import heapq
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from simloop.check.invariants.judge import add_invariants
from simloop.check.trial import FINISHES, UNJUDGED, UNLIKE, Failure, trial
from simloop.errors import CheckFailed, ReplayDiverged, ScenarioError
from simloop.fuzz import processes
from simloop.fuzz.search import FoundFailure, FoundFailures, Group, Search
from simloop.fuzz.shrink import smallest
from simloop.fuzz.words import changes_in_words, world_in_words
from simloop.runs.folders import begin_in_own_folder, can_bind
from simloop.runs.isolation import can_isolate, isolated
from simloop.runs.patience import OVERDUE, Overdue, patience
from simloop.runs.plan import Plan
from simloop.scenario.designs import is_program, names_own
from simloop.scenario.loader import parse_scenario
from simloop.scenario.schema import Declared, Scenario
from simloop.scenario.writing import scenario_text
from simloop.virtual.border.output import captured

T = TypeVar("T")
_SLICE_S, MOST_OF_WORKER = 2.0, 50
"""The real seconds after which a range ends, since results are shown then, and its most runs in
another process, since the results of later ones wait for it."""
TWIN = processes.Twin()
DIVERGED = ReplayDiverged.__name__


class SearchSettings(Struct, frozen=True):
    """The inputs of a search: equal settings give equal worlds.

    `scenarios` are the texts of those that are varied.
    """

    loop: str
    seed: int = 0
    scenarios: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ()
    isolate: bool | None = None
    breaches: bool = False
    declares: str = ""

    def search(self) -> Search:
        """Return a search with these settings, before its first world. Raises ScenarioError."""
        add_invariants(*self.invariants)  # in another process
        varied = [parse_scenario(text) for text in self.scenarios]
        return Search(
            self.loop, seed=self.seed, scenarios=varied, isolate=bool(self.isolate),
            breaches=self.breaches,
            declares=Declared.model_validate_json(self.declares) if self.declares else None,
        )  # fmt: skip


class SearchFinding(Struct, frozen=True):
    """The first failure of a group, and the number of its run.

    `scenario` is the text of the smallest scenario, or empty if no file can hold it, and `shown`
    the text of that scenario's failure. `world` is that scenario in one line.
    """

    name: str
    text: str
    sentence: str
    run: int
    reproduced: bool | None
    scenario: str
    shown: str
    world: str = ""
    printed: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, found: FoundFailure, loop: str, bases: Sequence[Scenario] = (), *, shrinks: bool,
        isolate: bool = False,
    ) -> "SearchFinding":  # fmt: skip
        """Return a failure as a finding, with a shrunk scenario if `shrinks`.

        Its words are those of the changes if it varies one of `bases`, or of the whole world.
        """
        scenario, failure = found.scenario, found.failure
        if shrinks:
            scenario, failure = smallest(found, {"loop": loop, "isolate": isolate})
        varied = (base for base in bases if len(base.model) > 1 or base.models)
        changes = [changes_in_words(scenario, base) for base in varied]
        text, world = "", min(changes, key=len, default=world_in_words(scenario))
        scenario = scenario.model_copy(update={"about": world})
        with suppress(ScenarioError):  # text with half a surrogate pair
            text = "" if found.name == UNLIKE else scenario_text(scenario)
        name, said, sentence, printed = found.failure
        return cls(name, said, sentence, found.run, found.reproduced, text, failure.text, world,
                   printed)  # fmt: skip


class Range(Struct, frozen=True):
    """The task to play the worlds from `first` to before `end`; failures in `known` are counted."""

    first: int
    end: int
    seconds: float = _SLICE_S
    known: tuple[Group, ...] = ()
    shrinks: bool = False


class RangeResult(Struct, frozen=True):
    """The result of `runs` worlds from `first`; `ended` says that the search must end."""

    first: int
    runs: int
    cpu_s: float = 0.0
    virtual_ns: int = 0
    goals: dict[str, int] = {}
    looked_at: int = 0
    counts: tuple[tuple[Group, int], ...] = ()
    findings: tuple[SearchFinding, ...] = ()
    ended: bool = False
    calls: dict[str, int] = {}
    requests: int = 0

    @classmethod
    def of(
        cls, search: Search, due: Range, took_s: float, findings: Iterable[SearchFinding] = (),
        *, ended: bool = False,
    ) -> "RangeResult":  # fmt: skip
        """Return what a search has made of a range, in so many seconds of computing."""
        goals = {name: count for name, count in search.goals.counts.items() if count}
        return cls(due.first, search.runs, took_s, search.virtual_ns, goals,
                   search.goals.looked_at, tuple(search.failures.counts.items()),
                   tuple(findings), ended, search.calls, search.requests)  # fmt: skip


def play_range(settings: SearchSettings, due: Range) -> RangeResult:
    """Play a range, one of an agent of the user's own in a fork of this process.

    So a run finds nothing of the ranges before. An agent that keeps more than that, so that its
    plain course becomes another one, gets a process for each run.
    """
    start_s = processes.cpu_s()
    forks = names_own(settings.loop) and can_isolate()
    # The runs of a program are forks, and let this process import its libraries.
    search = settings.search() if is_program(settings.loop) else None
    if forks and not processes.NURSERIES:
        processes.NURSERIES.append(processes.Nursery())  # before the first run of this process
    of_program, search = search is not None, search or settings.search()
    search.number, search.failures = due.first - 1, FoundFailures(due.known)
    search.twin = TWIN
    if forks and search.is_of_agent and not of_program and settings.isolate is None:
        if settings not in _KEEPING and (played := _played_in_fork(settings, due, search)):
            if any(each.name == DIVERGED for each in played.findings):
                _KEEPING.add(settings)
            return played
        _KEEPING.add(settings)
        search.isolates = True
    return _played(settings, due, search, start_s)


_APART = 1  # a seed below those of the worlds of an agent, but the first: of courses compared
_COURSES: dict[SearchSettings, str] = {}
"""The digests of the plain courses of agents before any range."""
_WARM: set[SearchSettings] = set()
_KEEPING: set[SearchSettings] = set()
"""The searches of agents that keep something of a run for the next one."""


def _played_in_fork(settings: SearchSettings, due: Range, search: Search) -> RangeResult | None:
    """Return the result, or None if the agent keeps something of its runs."""
    start_s = time.process_time()
    can_bind()  # it is tried once, and not in each fork

    def in_own_folder(function: Callable[[], T]) -> T:
        begin_in_own_folder()
        return function()

    def course(number: int = 1, seed: int = _APART) -> str:
        with captured(), suppress(Overdue), patience() as begins:
            begins()
            run = trial(next(search.worlds(number))[0], UNJUDGED, seed=seed)
            return processes.digest_of(run.entries)
        return ""

    if settings not in _COURSES:
        _COURSES[settings] = isolated(partial(in_own_folder, course))
    elif settings not in _WARM:  # an agent that keeps something from run to run is known by now
        _WARM.add(settings)  # imports what the agent imports late, for each fork
        all(course(each, _APART + each) for each in range(1, 5))
    if due.first == 1:
        search.twin = None
    else:
        TWIN.start()  # a fork could not leave it to the next one
    told: list[RangeResult | None] = []

    def played() -> RangeResult | None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)  # the parent asks for the result so far
        result = _played(settings, due, search, begun_s := processes.cpu_s())
        if result.ended or any(each.name == DIVERGED and each.run == 1 for each in result.findings):
            return result  # what its first run keeps is told
        if any(each.reproduced is False or each.name == DIVERGED for each in result.findings):
            return None
        digest = course()
        result = replace(result, cpu_s=processes.cpu_s() - begun_s)
        if digest == _COURSES[settings]:
            return result
        if digest and (left := search.left(due.first, result.runs)):
            new = _told(settings, due, search, left)
            return RangeResult.of(search, due, result.cpu_s, [*result.findings, *new])
        return None

    try:
        result: RangeResult | None = isolated(
            partial(in_own_folder, played),
            so_far=lambda: RangeResult.of(search, due, processes.cpu_s()),
            take=told.append,
        )
    except CheckFailed:  # a run has ended the process
        return None
    except KeyboardInterrupt:
        result = replace(next(filter(None, told), RangeResult(due.first, 0)), ended=True)
    return result and replace(result, cpu_s=result.cpu_s + time.process_time() - start_s)


def _played(settings: SearchSettings, due: Range, search: Search, start_s: float) -> RangeResult:
    findings: list[SearchFinding] = []
    found, ended = list[FoundFailure](), False
    with captured(), patience() as begins:
        try:
            begins()
            for found in search.steps(runs=due.end - due.first, seconds=due.seconds):
                if found:
                    break
                begins()
            # In a fork, nobody else reads what the twin answers.
            new = [*found, *search.answer_elsewhere()]
            begins()  # a smaller scenario may not end either
            findings = _told(settings, due, search, new)
        except KeyboardInterrupt as error:
            ended = not (found and isinstance(error, Overdue))
            if ended and isinstance(error, Overdue):
                search.runs += 1
                failure = Failure.named(FINISHES, OVERDUE)
                search.failures.add(failure, search.world(search.number), search.number)
    if not findings and (new := [*search.failures][:1]):  # broken off before it was rerun or shrunk
        findings = _told(settings, replace(due, shrinks=False), search, new)
    return RangeResult.of(search, due, processes.cpu_s() - start_s, findings, ended=ended)


def _told(
    settings: SearchSettings, due: Range, search: Search, found: Sequence[FoundFailure]
) -> list[SearchFinding]:
    bases, asked = search.bases if due.shrinks else search.undisturbed, {"shrinks": due.shrinks}
    apart = [search.isolates or (due.shrinks and _is_kept(search, each.scenario)) for each in found]
    return [
        SearchFinding.of(each, settings.loop, bases, **asked, isolate=one)
        for each, one in zip(found, apart, strict=True)
    ]


def _is_kept(search: Search, failing: Scenario) -> bool:
    """Return whether a failing world leaves something for a run with its random numbers."""
    if not (search.is_of_agent and processes.NURSERIES):
        return False
    course = search.world(1).model_copy(update={"seed": failing.seed})
    here = processes.digest_of(trial(Plan(course, {}), UNJUDGED).entries)
    return bool(processes.NURSERIES[-1].answer(course, isolates=False) != here)


class Ranges:
    """The ranges of a search that are still to play, and the results in the order of their worlds.

    A range has at most `most` runs. `seconds` are of computing, of all processes together. If
    `stopped` is true, no further range is begun.
    """

    def __init__(
        self, runs: int | None, seconds: float | None, *, most: int = sys.maxsize,
        shrinks: bool = False,
    ) -> None:  # fmt: skip
        self._end = sys.maxsize if runs is None else runs + 1
        self._most, self._shrinks = most, shrinks
        self._left_s = inf if seconds is None else seconds
        self._left = [(1, sys.maxsize)]  # a heap of the gaps between results
        self._due = 1
        self.waiting: dict[int, RangeResult] = {}
        self._found: dict[Group, int] = {}
        self.stopped = False

    def take(self) -> Range | None:
        if self.stopped or self._left_s <= 0 or not self._left:
            return None
        first, end = heapq.heappop(self._left)
        self._put_back(first + self._most, end)
        end = min(end, first + self._most, self._end)
        if first >= end:
            return None
        known = tuple(group for group, run in self._found.items() if run < first)
        return Range(first, end, min(_SLICE_S, self._left_s), known, self._shrinks)

    def _put_back(self, first: int, end: int) -> None:
        if first < end:
            heapq.heappush(self._left, (first, end))

    def add(self, result: RangeResult, due: Range) -> Iterator[RangeResult]:
        """Add the result of `due`; yield those that are next in order."""
        self._left_s -= result.cpu_s
        self.stopped |= result.ended
        self._put_back(result.first + result.runs, due.end)
        if result.runs:
            self.waiting[result.first] = result
        for finding in result.findings:
            group = Group.of(finding.name, finding.text)
            self._found[group] = min(finding.run, self._found.get(group, finding.run))
        while (released := self.waiting.pop(self._due, None)) is not None:
            self._due += released.runs
            yield released


class _Here(Executor):
    def submit(self, function: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments))
        return future


@contextmanager
def workers(jobs: int, *, forked: bool = False) -> Iterator[Executor]:
    """Provide so many processes, which an error or Ctrl-C kills.

    Forked ones need not import an agent again.
    """
    # By default no `fork`: it copies the virtual clock of a program that fuzzes in a simulation.
    start = multiprocessing.get_context("fork" if forked else "spawn")
    begin = processes.begin_worker, (os.getpid(),)
    with _Here() if jobs == 1 else ProcessPoolExecutor(jobs, start, *begin) as pool:
        try:
            yield pool
        except BaseException:
            for child in multiprocessing.active_children() if jobs > 1 else ():
                child.kill()
            raise
        finally:
            processes.end_nurseries()  # first: a nursery has the pipe of the twin
            TWIN.end()


def results_of(
    executor: Executor, jobs: int, settings: SearchSettings, ranges: Ranges
) -> Iterator[RangeResult]:
    """Yield the results in the order of their worlds. Raises CheckFailed if a worker dies."""
    running: dict[Future[RangeResult], Range] = {}
    while True:
        while len(running) < jobs and (due := ranges.take()) is not None:
            running[executor.submit(play_range, settings, due)] = due
        if not running:
            yield from (ranges.waiting[first] for first in sorted(ranges.waiting))
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            due = running.pop(future)
            if isinstance(future.exception(), BrokenProcessPool):
                hint = "the loop under test ends its process, or takes all memory; try --jobs 1"
                raise CheckFailed(f"a worker died in runs {due.first} to {due.end - 1}", hint=hint)
            yield from ranges.add(future.result(), due)

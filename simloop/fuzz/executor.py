"""The execution of a search: ranges of worlds, played here, in other processes or on a cluster.

A world depends on the seed and its number alone, so a search in many processes finds exactly what
one process finds. A range ends with the first failure of a new group, which is told at once. With a
folder, each result is a line of a file, from which a repeated command resumes.
"""

import hashlib
import heapq
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from simloop import __version__
from simloop.check.invariants.catalog import add_invariants
from simloop.check.trial import FINISHES, Failure
from simloop.errors import CheckFailed, ScenarioError, install_hint
from simloop.fuzz.failures import FoundFailure, FoundFailures, Group
from simloop.fuzz.processes import Twin, end_with, ended_with
from simloop.fuzz.search import Search
from simloop.fuzz.shrink import smallest
from simloop.scenario.loader import parse_scenario
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import scenario_text
from simloop.virtual.border.output import captured

LONG_S = 10.0
"""The real seconds after which a run is named; then again after twice the time."""
TICK_S = 1.0
_CAN_TICK = hasattr(signal, "setitimer")


class Overdue(KeyboardInterrupt):
    """A run had not ended when the search had to end. It unwinds a run as Ctrl-C does."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - a worker has no terminal of its own


class RunWatch:
    """Watches the runs of a process; `over` begins and ends a watch.

    A loop that computes for ever gives no sign by itself. So a timer of the operating system ticks
    every second in the main thread. There is no such timer on Windows, and none in other threads.
    """

    def __init__(
        self, say: Callable[[str], None] = _say, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._now = say, now
        self._which = ""
        self._number = 0
        self._end_s: float | None = None
        self._start_s = 0.0
        self._long_s = LONG_S

    @contextmanager
    def over(self, which: str, left_s: float | None) -> Iterator[None]:
        """Watch the runs that begin in the block. `which` follows a number: `run 7 of seed 1`.

        `left_s` are the seconds until the search must end, or None. Then a run that has taken
        `LONG_S` is ended by `Overdue`.
        """
        self._which, self._number = which, 0
        self._end_s = None if left_s is None else self._now() + left_s
        if not _CAN_TICK or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGALRM, lambda *_: self.tick())
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def begins(self, number: int) -> None:
        """Watch the run of this number from now on; 0 stands for none."""
        self._number, self._start_s, self._long_s = number, self._now(), LONG_S

    def tick(self) -> None:
        """Name the run if it is long. Raises Overdue."""
        if not self._number:
            return
        now_s = self._now()
        taken_s = now_s - self._start_s
        run = f"run {self._number} {self._which}"
        if self._end_s is not None and now_s >= self._end_s and taken_s >= LONG_S:
            self._number = 0
            raise Overdue(f"{run} had not ended after {taken_s:.0f} s of real time")
        if taken_s >= self._long_s:
            self._long_s *= 2
            self._say(f"{run} has taken {taken_s:.0f} s of real time: does the loop spin?")


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


NAME = "search.jsonl"
_LINE = msgspec.json.Decoder(SearchSettings | SearchFinding | RangeResult)
_ENCODE = msgspec.json.Encoder(order="deterministic").encode


def code_digest() -> str:
    """Return a digest of the loaded modules that are not installed, and simloop's version."""
    installed = {sys.prefix, sys.base_prefix, sys.exec_prefix}
    digest = hashlib.blake2b(__version__.encode(), digest_size=16)
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        own = file.endswith(".py") and not any(file.startswith(each) for each in installed)
        if own and name != "__main__" and name.partition(".")[0] != "simloop":
            digest.update(name.encode())
            digest.update(Path(file).read_bytes() if Path(file).is_file() else b"")
    return digest.hexdigest()


class Journal:
    """The file of a search in `folder`. `results` are those that it has for these settings.

    Raises ScenarioError if the file cannot be read or written, or is no such file.
    """

    def __init__(self, folder: Path, settings: SearchSettings) -> None:
        self.path = folder / NAME
        self.results: list[RangeResult] = []
        try:
            data = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror}") from error
        whole = data[: data.rfind(b"\n") + 1]
        known = self._read(whole)
        if len(whole) < len(data):
            try:
                os.truncate(self.path, len(whole))
            except OSError as error:
                raise self._unusable(f"cannot be written: {error.strerror}") from error
        self.results.sort(key=lambda each: each.first)
        if known != settings:
            self.results = []
            self._append(_ENCODE(settings) + b"\n")

    def _read(self, whole: bytes) -> SearchSettings | None:
        """Read the results behind the newest settings, and return those."""
        settings: SearchSettings | None = None
        finding: SearchFinding | None = None
        try:
            for line in map(_LINE.decode, whole.splitlines()):
                if isinstance(line, SearchSettings):
                    settings, finding, self.results = line, None, []
                elif isinstance(line, SearchFinding):
                    finding = line
                else:
                    self.results.append(msgspec.structs.replace(line, finding=finding))
                    finding = None
        except msgspec.DecodeError as error:
            raise self._unusable(f"this is no file of a search: {error}") from error
        return settings

    def append(self, result: RangeResult) -> None:
        """Store a result."""
        lines = [] if result.finding is None else [_ENCODE(result.finding)]
        lines.append(_ENCODE(msgspec.structs.replace(result, finding=None, ended=False)))
        self._append(b"".join(line + b"\n" for line in lines))

    def _append(self, data: bytes) -> None:
        try:
            with self.path.open("ab") as file:
                file.write(data)
        except OSError as error:
            raise self._unusable(f"cannot be written: {error.strerror}") from error

    def _unusable(self, message: str) -> ScenarioError:
        hint = "name a folder that may be written to, or one without such a file"
        return ScenarioError(message, path=self.path, hint=hint)


_LOOK_S = 2.0
"""The real seconds without any result after which a search that must end kills its workers."""
_DEATHS = {"BrokenProcessPool", "KilledWorker"}
"""The errors of a Future whose worker died: that of processes, and Dask's."""

_current: Any = None
"""The shared number of the world that this worker process plays."""


class Worker:
    """A process that plays one range at a time, or a thread of `cluster`."""

    def __init__(self, cluster: Executor | None = None) -> None:
        self._cluster = cluster
        self._process: Any = None
        if cluster is None:
            # `fork` was rejected: it copies the virtual clock of a program that fuzzes in a
            # simulation. A spawned process gets `sys.path`, so it finds what its parent finds.
            spawn = multiprocessing.get_context("spawn")
            self._current = spawn.Value("q", 0, lock=False)
            given = self._current, os.getpid()
            self._executor: Executor = ProcessPoolExecutor(1, spawn, _begin_worker, given)

    def submit(self, settings: SearchSettings, due: Range) -> Future[RangeResult]:
        """Begin to play a range."""
        if self._cluster is not None:
            return self._cluster.submit(play_range, settings, due)
        before = multiprocessing.active_children()
        future = self._executor.submit(_play_in_worker, settings, due)
        new = (each for each in multiprocessing.active_children() if each not in before)
        self._process = next(new, self._process)
        return future

    def died(self, settings: SearchSettings, due: Range, ranges: Ranges) -> RangeResult:
        """Start again, and return the result of the run in which the worker died.

        The worlds before it are played again. Raises CheckFailed if the run is not known.
        """
        number = code = 0
        if self._cluster is None:
            self.stop()  # first: the executor's thread asks for the exit code, which is told once
            number, code = self._current.value, self._process.exitcode
            self.__init__()  # type: ignore[misc]
        if not number:
            runs = f"runs {due.first} to {due.first + due.runs - 1} of seed {settings.seed}"
            hint = "the loop under test ends its process, or takes all memory; try --jobs 1"
            raise CheckFailed(f"a worker died in the {runs}", hint=hint)
        ranges.put_back(due.first, number - due.first)
        return lost_run(settings, number, ended_with(code))

    def break_off(self) -> None:
        """Let the process end its range at once, with the results so far."""
        if self._process is not None:
            self._process.terminate()

    def stop(self, *, kill: bool = False) -> None:
        """End the process after its range, or at once."""
        if self._cluster is None:
            if kill and self._process is not None:
                self._process.kill()
            self._executor.shutdown(wait=True, cancel_futures=True)


def _begin_worker(current: Any, parent: int) -> None:
    global _current  # noqa: PLW0603 - the initializer of a process has no other place
    _current = current
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    end_with(parent)


def _play_in_worker(settings: SearchSettings, due: Range) -> RangeResult:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return play_range(settings, due, lambda number: setattr(_current, "value", number))
    finally:
        signal.signal(signal.SIGTERM, before)


def results_of(
    workers: Sequence[Worker], settings: SearchSettings, ranges: Ranges
) -> Generator[RangeResult, None, None]:
    """Yield the results of the ranges in the order of their worlds; without workers, from here."""
    running: dict[Future[RangeResult], tuple[Worker, Range]] = {}
    idle, told = list(workers), False
    try:
        while not workers and (due := ranges.take()) is not None:
            yield from _added(ranges, play_range(settings, due), due)
        while workers:
            while idle and (due := ranges.take()) is not None:
                worker = idle.pop(0)
                running[worker.submit(settings, due)] = worker, due
            done = wait(running, timeout=_LOOK_S, return_when=FIRST_COMPLETED).done
            if not running or (told and not done):
                break
            if ranges.stopped and not told:
                told = True
                for worker, _ in running.values():
                    worker.break_off()
            for future in done:
                worker, due = running.pop(future)
                idle.append(worker)
                if type(future.exception()).__name__ not in _DEATHS:
                    yield from _added(ranges, future.result(), due)
                elif not ranges.stopped:  # a signal that ends the search may end the workers too
                    yield from _added(ranges, worker.died(settings, due, ranges), due)
    finally:
        for future in running:
            future.cancel()
        for worker in workers:
            worker.stop(kill=bool(running))


def _added(ranges: Ranges, result: RangeResult, due: Range) -> Iterator[RangeResult]:
    ranges.stopped |= result.ended
    return ranges.add(result, due)


@contextmanager
def dask_cluster(address: str) -> Iterator[list[Worker]]:
    """Provide a worker for each thread of a Dask cluster.

    Raises ScenarioError without the extra `dask`, or if no scheduler answers at `address`.
    """
    try:
        from distributed import Client  # noqa: PLC0415 - an extra, which takes a second to import
    except ImportError as error:
        message, hint = "--dask needs the extra `dask`", install_hint("dask")
        raise ScenarioError(message, key="--dask", hint=hint) from error
    try:
        client = Client(address, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        message = f"no Dask scheduler answers at {address}: {error}"
        hint = "start one with `dask scheduler`, and name its address"
        raise ScenarioError(message, key="--dask", hint=hint) from error
    with client:
        executor = client.get_executor(pure=False)
        try:
            yield [Worker(executor) for _ in range(max(1, sum(client.nthreads().values())))]
        finally:
            executor.shutdown(wait=False)

"""The workers of a search: processes of this machine, or the threads of a Dask cluster.

Both are executors of `concurrent.futures`. Each process has an executor of its own, so the death of
one says which run it was making, and stops no other.
"""

import multiprocessing
import os
import signal
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from simloop.errors import CheckFailed, ScenarioError, install_hint
from simloop.fuzz.processes import end_with, ended_with
from simloop.fuzz.ranges import Range, RangeResult, Ranges, SearchSettings, lost_run, play_range

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

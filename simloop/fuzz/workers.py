"""Playing the chunks of a campaign: in this process, in several, or on a cluster.

All three use the interface of `concurrent.futures.Executor`. Not here: the search of a chunk
(chunks.py) and the file of the results (campaign.py). The rule to keep: a worker receives only the
settings and the number of a chunk, so its result depends on nothing else.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice

from simloop.errors import ScenarioError, SimloopError
from simloop.fuzz.campaign import CampaignSettings, ChunkResult

Play = Callable[[CampaignSettings, int], ChunkResult]

_AHEAD = 2
"""The chunks that are queued for each worker, so that no worker idles while results are stored."""


def play_here(
    play: Play, settings: CampaignSettings, numbers: Iterable[int]
) -> Iterator[ChunkResult]:
    """Yield the results of the chunks, one after the other, from this process."""
    return (play(settings, number) for number in numbers)


def play_on(
    executor: Executor, jobs: int, play: Play, settings: CampaignSettings, numbers: Iterable[int]
) -> Iterator[ChunkResult]:
    """Yield the results of the chunks as they are finished, in any order.

    When the caller closes the generator, chunks that have not begun are cancelled. Raises
    SimloopError if a worker process dies.
    """
    waiting = iter(numbers)
    running: set[Future[ChunkResult]] = set()
    try:
        while True:
            for number in islice(waiting, max(0, _AHEAD * jobs - len(running))):
                running.add(executor.submit(play, settings, number))
            if not running:
                return
            done = wait(running, return_when=FIRST_COMPLETED).done
            running -= done
            for future in done:
                yield future.result()
    except BrokenProcessPool as error:
        raise SimloopError(
            "a worker process died: the loop under test may have ended it, or used all memory; "
            "the finished chunks are stored, and a run with --jobs 1 shows the place"
        ) from error
    finally:
        for future in running:
            future.cancel()


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def processes(jobs: int) -> Iterator[Executor]:
    """Provide `jobs` worker processes; the exit waits for their current chunks."""
    # `fork` was rejected: it copies the virtual clock of a program that fuzzes in a simulation. A
    # spawned process gets the `sys.path` of its parent, so it finds a loop that the parent finds.
    executor = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_leave_interrupts_to_the_parent,
    )
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def dask_cluster(address: str) -> Iterator[tuple[Executor, int]]:
    """Provide the workers of a Dask cluster, and their number.

    Raises ScenarioError without the extra `dask`, or if no scheduler answers at `address`.
    """
    try:
        from distributed import Client  # noqa: PLC0415 - an extra, which takes a second to import
    except ImportError as error:
        raise ScenarioError(
            "--dask needs the extra `dask`",
            key="--dask",
            hint="pip install 'agent-simloop[dask]'",
        ) from error
    try:
        client = Client(address, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        raise ScenarioError(
            f"no Dask scheduler answers at {address}: {error}",
            key="--dask",
            hint="start one with `dask scheduler`, and name its address",
        ) from error
    with client:
        executor = client.get_executor(pure=False)
        try:
            yield executor, max(1, sum(client.nthreads().values()))
        except CancelledError as error:
            raise SimloopError("the Dask cluster cancelled a chunk; run again to resume") from error
        finally:
            executor.shutdown(wait=False)

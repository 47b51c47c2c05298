"""The search of `simloop fuzz` in several processes, on a cluster, or into a file.

Not here: the options (fuzz.py) and the play of a chunk (fuzz/chunks.py). The rule to keep: each
finished chunk is stored before the next result is taken, so that Ctrl-C and a kill lose no chunk.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from simloop.cli.fuzz_report import progress_line
from simloop.cli.progress import StatusLine
from simloop.cli.terminal import note
from simloop.fuzz.campaign import Campaign, CampaignSettings, ChunkResult, Totals, totals
from simloop.fuzz.chunks import play_chunk, report_of
from simloop.fuzz.search import FuzzReport
from simloop.fuzz.workers import dask_cluster, play_here, play_on, processes


class Jobs(NamedTuple):
    """The place where chunks are played: `jobs` processes, or the Dask cluster at `dask`.

    `file` stores the results. `shard` of `shards` is the share of this machine, counted from 0.
    """

    jobs: int = 1
    dask: str = ""
    file: Path | None = None
    shard: int = 0
    shards: int = 1

    @property
    def are_asked_for(self) -> bool:
        """Return whether the search must be divided into chunks."""
        return self != Jobs()


def search_in_chunks(
    settings: CampaignSettings, jobs: Jobs, runs: int | None, seconds: float | None
) -> FuzzReport:
    """Play chunks for `runs` runs or for `seconds`, and return the report on all chunks.

    `runs` is rounded up to whole chunks, and includes the runs in the file. After Ctrl-C the report
    covers the chunks so far.
    """
    sums = Totals()
    results: dict[int, ChunkResult] = {}
    with ExitStack() as stack:
        campaign: Campaign | None = None
        numbers: Iterator[int] = count(jobs.shard, jobs.shards)
        if jobs.file is not None:
            campaign = stack.enter_context(Campaign.create(jobs.file, settings))
            for result in campaign.results():
                results[result.number] = result
                sums.add(result)
            numbers = campaign.unfinished(jobs.shard, jobs.shards)
        if runs is not None:
            left = max(0, runs - sums.runs)
            numbers = islice(numbers, -(-left // settings.runs_per_chunk))
        status = stack.enter_context(StatusLine(sys.stderr))
        end_s = None if seconds is None else time.monotonic() + seconds
        try:
            for result in _results(stack, settings, jobs, numbers):
                if campaign is not None:
                    campaign.store(result)
                results[result.number] = result
                sums.add(result)
                status.say(progress_line(report_of(settings, sums)))
                if end_s is not None and time.monotonic() >= end_s:
                    break
        except KeyboardInterrupt:
            status.clear()
            note("interrupted: the report covers the runs so far")
    # Ordered by number, so that the report does not depend on the speed of the workers.
    return report_of(settings, totals(results[number] for number in sorted(results)))


def _results(
    stack: ExitStack, settings: CampaignSettings, jobs: Jobs, numbers: Iterator[int]
) -> Iterator[ChunkResult]:
    if jobs.dask:
        executor, workers = stack.enter_context(dask_cluster(jobs.dask))
        return play_on(executor, workers, play_chunk, settings, numbers)
    if jobs.jobs > 1:
        executor = stack.enter_context(processes(jobs.jobs))
        return play_on(executor, jobs.jobs, play_chunk, settings, numbers)
    return play_here(play_chunk, settings, numbers)

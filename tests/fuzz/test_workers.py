import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from simloop.errors import ScenarioError, SimloopError
from simloop.fuzz.campaign import CampaignSettings, ChunkResult
from simloop.fuzz.workers import dask_cluster, play_here, play_on, processes

SETTINGS = CampaignSettings("reference", seed=3)


def play(settings: CampaignSettings, number: int) -> ChunkResult:
    return ChunkResult(number, settings.seed, 0, 0)


def die(settings: CampaignSettings, number: int) -> ChunkResult:
    os._exit(1)


def taken(results: Iterator[ChunkResult], most: int) -> list[int]:
    return sorted(result.number for result, _ in zip(results, range(most), strict=False))


def test_chunks_are_played_here_one_after_the_other() -> None:
    played = play_here(play, SETTINGS, range(4))
    assert [result.number for result in played] == [0, 1, 2, 3]


def test_every_chunk_is_played_once_by_an_executor() -> None:
    with ThreadPoolExecutor(2) as executor:
        assert taken(play_on(executor, 2, play, SETTINGS, range(9)), 99) == list(range(9))


def test_no_more_chunks_are_begun_than_the_workers_need() -> None:
    begun: list[int] = []

    def numbers() -> Iterator[int]:
        for number in count():
            begun.append(number)
            yield number

    with ThreadPoolExecutor(1) as executor:
        results = play_on(executor, 1, play, SETTINGS, numbers())
        next(results)
        results.close()  # type: ignore[attr-defined]
    assert len(begun) <= 3


@pytest.mark.slow
def test_every_chunk_is_played_once_in_processes() -> None:
    with processes(2) as executor:
        assert taken(play_on(executor, 2, play, SETTINGS, range(5)), 99) == list(range(5))


@pytest.mark.slow
def test_a_worker_that_dies_is_reported() -> None:
    with processes(1) as executor, pytest.raises(SimloopError, match="a worker process died"):
        next(play_on(executor, 1, die, SETTINGS, range(1)))


@pytest.mark.slow
def test_every_chunk_is_played_once_on_a_dask_cluster() -> None:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": None}
    with (
        distributed.LocalCluster(processes=True, **options) as cluster,
        dask_cluster(cluster.scheduler_address) as (executor, jobs),
    ):
        assert jobs == 2
        assert taken(play_on(executor, jobs, play, SETTINGS, range(5)), 99) == list(range(5))


@pytest.mark.slow
def test_an_address_without_a_scheduler_is_refused() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(ScenarioError, match="no Dask scheduler answers"), dask_cluster("tcp://:1"):
        pass

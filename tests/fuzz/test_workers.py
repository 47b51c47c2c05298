import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Semaphore

import pytest

from simloop.errors import ScenarioError, SimloopError
from simloop.fuzz.campaign import CampaignSettings, ChunkResult
from simloop.fuzz.workers import dask_cluster, play_here, play_on, processes

SETTINGS = CampaignSettings("reference", seed=3)


def play(settings: CampaignSettings, number: int) -> ChunkResult:
    return ChunkResult(number, settings.seed, 0, 0)


def die(settings: CampaignSettings, number: int) -> ChunkResult:
    os._exit(1)


def ignores_interrupts(settings: CampaignSettings, number: int) -> ChunkResult:
    return ChunkResult(number, int(signal.getsignal(signal.SIGINT) is signal.SIG_IGN), 0, 0)


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
    allowed = Semaphore(0)

    def numbers() -> Iterator[int]:
        for number in count():
            begun.append(number)
            yield number

    def play_when_allowed(settings: CampaignSettings, number: int) -> ChunkResult:
        allowed.acquire()
        return play(settings, number)

    submitted: list[int] = []
    with ThreadPoolExecutor(1) as executor:
        results = play_on(executor, 1, play_when_allowed, SETTINGS, numbers())
        for _ in range(5):
            allowed.release()
            next(results)
            submitted.append(len(begun))
        allowed.release(99)
        results.close()  # type: ignore[attr-defined]
    assert submitted == [2, 3, 4, 5, 6]
    assert len(begun) == 6


def test_chunks_that_have_not_begun_are_cancelled() -> None:
    allowed, played = Semaphore(1), list[int]()

    def play_when_allowed(settings: CampaignSettings, number: int) -> ChunkResult:
        allowed.acquire()
        played.append(number)
        return play(settings, number)

    with ThreadPoolExecutor(1) as executor:
        results = play_on(executor, 2, play_when_allowed, SETTINGS, count())
        next(results)
        results.close()  # type: ignore[attr-defined]
        allowed.release(99)
    assert played in ([0], [0, 1])  # the second chunk may be under way


@pytest.mark.slow
def test_every_chunk_is_played_once_in_processes() -> None:
    with processes(2) as executor:
        assert taken(play_on(executor, 2, play, SETTINGS, range(5)), 99) == list(range(5))


@pytest.mark.slow
def test_the_exit_cancels_the_chunks_that_no_process_has_begun() -> None:
    with processes(1) as executor:
        submitted = [executor.submit(play, SETTINGS, number) for number in range(50)]
    assert [each.cancelled() for each in submitted[-40:]] == [True] * 40


@pytest.mark.slow
def test_a_process_leaves_interrupts_to_its_parent() -> None:
    with processes(1) as executor:
        (result,) = play_on(executor, 1, ignores_interrupts, SETTINGS, range(1))
    assert result.runs == 1


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

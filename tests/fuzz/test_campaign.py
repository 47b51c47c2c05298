import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from simloop.errors import ScenarioError
from simloop.fuzz.campaign import (
    Campaign,
    CampaignSettings,
    ChunkResult,
    FailureGroup,
    totals,
)

SETTINGS = CampaignSettings("reference", seed=7)


def chunk(number: int, *failures: FailureGroup) -> ChunkResult:
    return ChunkResult(number, 10, 1_000, 5_000, {"compacts": 2}, 5, ("a > b",), failures=failures)


def failure(scenario: str = "prompt: Go.", run: int = 4, name: str = "pairing") -> FailureGroup:
    return FailureGroup(name, "call N", "call 3", "Pairs.", scenario, seed=1, run=run, cpu_ns=100)


def test_a_campaign_is_resumed_with_its_finished_chunks(tmp_path: Path) -> None:
    path = tmp_path / "campaign.sqlite"
    with Campaign.create(path, SETTINGS) as campaign:
        campaign.store(chunk(0))
        campaign.store(chunk(2))
    with Campaign.create(path, SETTINGS) as again:
        unfinished = again.unfinished()
        assert [next(unfinished) for _ in range(3)] == [1, 3, 4]
        assert list(again.results()) == [chunk(0), chunk(2)]


def test_shards_share_the_chunks(tmp_path: Path) -> None:
    with Campaign.create(tmp_path / "c.sqlite", SETTINGS) as campaign:
        campaign.store(chunk(2))
        shards = [campaign.unfinished(shard, 2) for shard in range(2)]
        assert [[next(shard) for _ in range(3)] for shard in shards] == [[0, 4, 6], [1, 3, 5]]


def test_a_stored_chunk_stays_as_it_is(tmp_path: Path) -> None:
    with Campaign.create(tmp_path / "c.sqlite", SETTINGS) as campaign:
        campaign.store(chunk(0))
        campaign.store(chunk(0, failure()))
        assert list(campaign.results()) == [chunk(0)]


def test_a_campaign_of_other_settings_is_refused(tmp_path: Path) -> None:
    Campaign.create(tmp_path / "c.sqlite", SETTINGS).close()
    with pytest.raises(ScenarioError, match="the results of other settings"):
        Campaign.create(tmp_path / "c.sqlite", CampaignSettings("pi"))


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + b"x" * 90])
def test_a_file_that_is_no_campaign_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match="is not the file of a campaign"):
        Campaign.create(path, SETTINGS)
    assert path.read_bytes() == content


def test_a_campaign_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    Campaign.create(path, SETTINGS).close()
    data = sqlite3.connect(path)
    with data:
        data.execute("UPDATE settings SET format = 99")
    data.close()
    with pytest.raises(ScenarioError, match="has format 99"):
        Campaign.open(path)


def test_a_start_that_was_killed_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.touch()
    Campaign.create(path, SETTINGS).close()


def test_files_of_one_campaign_are_merged(tmp_path: Path) -> None:
    with (
        Campaign.create(tmp_path / "a", SETTINGS) as one,
        Campaign.create(tmp_path / "b", SETTINGS) as other,
        Campaign.create(tmp_path / "c", CampaignSettings("pi")) as third,
    ):
        one.store(chunk(0))
        other.store(chunk(0))
        other.store(chunk(1))
        one.merge(other)
        assert list(one.results()) == [chunk(0), chunk(1)]
        with pytest.raises(ScenarioError, match="merge files of one campaign"):
            one.merge(third)


def test_totals_keep_the_smallest_scenario_of_a_group_and_its_first_run() -> None:
    small, large = failure("prompt: A", run=9), failure("prompt: ABC", run=2)
    other = failure(name="progress")
    sums = totals(iter([chunk(0), chunk(1, large), chunk(2, small, other)]))
    assert (sums.runs, sums.cpu_ns, sums.virtual_ns) == (30, 3_000, 15_000)
    assert (sums.goals, sums.edges) == ({"compacts": 6}, {"a > b": 3})
    kept = sums.failures["pairing", "call N"]
    assert (kept.scenario, kept.count) == ("prompt: A", 2)
    assert sums.first["pairing", "call N"] == (12, 1_100)
    assert list(sums.failures) == [("pairing", "call N"), ("progress", "call N")]


KILLED = """
import os, sys
from pathlib import Path
from simloop.fuzz.campaign import Campaign, CampaignSettings, ChunkResult
campaign = Campaign.create(Path(sys.argv[1]), CampaignSettings("reference", seed=7))
for number in range(1_000_000):
    campaign.store(ChunkResult(number, 1, 1, 1))
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_killed_campaign_keeps_every_chunk_that_it_had_stored(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        stored = [int(child.stdout.readline()) for _ in range(20)]
        child.kill()
    with Campaign.create(path, SETTINGS) as campaign:
        assert campaign.finished.issuperset(stored)
        assert next(campaign.unfinished()) == len(campaign.finished)

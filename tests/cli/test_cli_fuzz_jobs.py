import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from simloop.cli import main
from simloop.cli.fuzz_jobs import Jobs, search_in_chunks
from simloop.fuzz.campaign import Campaign, CampaignSettings
from simloop.fuzz.chunks import play_chunk, seed_of
from simloop.messages import UserMessage
from simloop.scenario.loader import load_scenario
from simloop.world.model_port import ModelCallFailed
from simloop.world.world import World

HERE = "test_cli_fuzz_jobs"


async def spins(prompt: str, world: World) -> str:
    """Ask again, at once, whenever a call fails."""
    while True:
        try:
            return (await world.model.reply([UserMessage(prompt)])).message.text
        except ModelCallFailed:
            continue


SETTINGS = CampaignSettings(f"{HERE}:spins", seed=3, runs_per_chunk=40)


def fuzz(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["fuzz", *map(str, arguments)])


def found_in(settings: CampaignSettings, number: int = 1) -> object:
    """Return the results of a chunk that do not depend on the speed of the machine."""
    result = play_chunk(settings, number)
    failures = [(each.name, each.shape, each.run, each.scenario) for each in result.failures]
    return failures, result.goals, result.situations


def test_a_chunk_finds_the_same_each_time_but_for_its_times() -> None:
    assert found_in(SETTINGS, 1) == found_in(SETTINGS, 1)
    assert found_in(SETTINGS, 1) != found_in(SETTINGS, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 4},
        {"arm": "uniform"},
        {"corpus": ("prompt: An odd one.\nmodel: [{http: {status: 500}}, {say: Done.}]",)},
        {"against": "react"},
    ],
)
def test_each_setting_of_a_campaign_holds_for_its_chunks(changed: dict[str, Any]) -> None:
    assert found_in(msgspec.structs.replace(SETTINGS, **changed)) != found_in(SETTINGS)


def test_a_chunk_reports_its_seed_and_its_counts() -> None:
    result = play_chunk(SETTINGS, 1)
    assert {each.seed for each in result.failures} == {seed_of(SETTINGS, 1)}
    assert all(each.reproduced and each.shape for each in result.failures)
    assert max(each.count for each in result.failures) > 1
    assert (result.runs, result.edges) == (40, ())
    assert 40 >= result.looked_at >= max(result.goals.values()) > 0


@pytest.mark.slow
def test_a_search_is_resumed_where_it_ended(tmp_path: Path) -> None:
    jobs = Jobs(file=tmp_path / "c.sqlite")
    first = search_in_chunks(SETTINGS, jobs, 40, None)
    assert first.runs == 40
    both = search_in_chunks(SETTINGS, jobs, 80, None)
    assert both.runs == 80
    assert search_in_chunks(SETTINGS, jobs, 80, None) == both
    at_once = search_in_chunks(SETTINGS, Jobs(file=tmp_path / "d.sqlite"), 80, None)
    assert [each.failure for each in at_once.failures] == [each.failure for each in both.failures]
    with Campaign.open(tmp_path / "c.sqlite") as campaign:
        assert campaign.finished == {0, 1}


def test_the_failures_of_chunks_are_written_with_the_command_that_finds_them(
    tmp_path: Path,
) -> None:
    (found, *_) = search_in_chunks(SETTINGS, Jobs(), 40, None).failures
    command = ["--loop", SETTINGS.loop, "--seed", str(found.seed), "--runs", str(found.run)]
    shown = fuzz(*command, "--out", tmp_path, "--format", "json")
    assert found.name in [each["name"] for each in json.loads(shown.stdout)["failures"]]
    assert [load_scenario(path) for path in tmp_path.glob("*.yaml")]


@pytest.mark.parametrize("share", ["2", "0/2", "3/2", "a/b", "1/0"])
def test_a_share_that_is_none_is_refused(share: str) -> None:
    shown = fuzz("--shard", share, "--runs", "1")
    assert shown.exit_code == 2
    assert "write 1/2 for the first of two" in shown.stderr


@pytest.mark.slow
def test_processes_find_what_one_process_finds() -> None:
    def found(jobs: int) -> object:
        report = search_in_chunks(SETTINGS, Jobs(jobs), 160, None)
        return report.runs, report.goals, [(each.failure, each.run) for each in report.failures]

    assert found(1) == found(2)


@pytest.mark.slow
def test_the_options_of_a_search_in_chunks_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "search.sqlite"
    options = ("--loop", SETTINGS.loop, "--seconds", "0.01", "--format", "json")
    shown = fuzz(*options, "--campaign", file, "--shard", "2/3")
    assert (shown.exit_code, json.loads(shown.stdout)["runs"]) == (1, 1_000)
    with Campaign.open(file) as campaign:
        assert campaign.finished == {1}

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simloop.cli import main
from simloop.fuzz.campaign import Campaign, CampaignSettings, ChunkResult, FailureGroup

SETTINGS = CampaignSettings("reference", seed=7)
FAILURE = FailureGroup(
    name="pairing",
    shape="call N has no result",
    text="call \x1b[2J3 has no result",
    sentence="Every call has one result.",
    scenario="prompt: <script>",
    seed=1,
    run=4,
    cpu_ns=250_000_000,
)
RUNS = (
    "reference, seed 7, steered: 200 runs in 2 chunks, 2.0 s of processor time, 5.6 h of virtual "
    "time"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "search.sqlite"
    with Campaign.create(path, SETTINGS) as campaign:
        campaign.store(ChunkResult(0, 100, 10**9, 10**13, {"compacts": 3, "waits": 0}, 9, ("a",)))
        campaign.store(ChunkResult(1, 100, 10**9, 10**13, failures=(FAILURE,)))
    return path


def campaign(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["campaign", *map(str, arguments)])


def test_the_runs_the_goals_and_the_failures_are_shown(file: Path) -> None:
    shown = campaign("show", file)
    assert shown.exit_code == 1
    assert shown.stdout.splitlines() == [
        RUNS,
        "coverage: 1 pairs",
        "goals: 1 of 2 reached",
        "  not reached: waits",
        "failures: 1",
        "  pairing: call \\x1b[2J3 has no result (1 run, first after 104 runs and 1.25 s)",
    ]


def test_a_campaign_without_failures_succeeds(tmp_path: Path) -> None:
    Campaign.create(tmp_path / "c", SETTINGS).close()
    assert campaign("show", tmp_path / "c").exit_code == 0


def test_json_has_the_scenario_of_each_failure(file: Path) -> None:
    shown = json.loads(campaign("show", file, "--format", "json").stdout)
    assert shown["runs"] == 200
    assert [each["scenario"] for each in shown["failures"]] == ["prompt: <script>"]


@pytest.mark.slow
def test_the_page_has_plots_and_is_equal_each_time(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        assert campaign("show", file, "--format", "html", "-o", page).exit_code == 1
    text = pages[0].read_text("ascii")
    assert text == pages[1].read_text("ascii")
    assert text.count("<svg") == 4
    assert "&lt;script&gt;" in text
    assert "<script" not in text
    assert "\x1b" not in text
    assert "not reached" in text


def test_the_output_does_not_replace_the_campaign(file: Path) -> None:
    before = file.read_bytes()
    shown = campaign("show", file, "-o", file)
    assert (shown.exit_code, file.read_bytes()) == (2, before)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    shown = campaign("show", tmp_path / "nothing")
    assert shown.exit_code == 2
    assert "there is no file" in shown.stderr


def test_the_chunks_of_another_file_are_added(file: Path, tmp_path: Path) -> None:
    with Campaign.create(tmp_path / "other", SETTINGS) as other:
        other.store(ChunkResult(1, 5, 1, 1))
        other.store(ChunkResult(2, 5, 1, 1))
    merged = campaign("merge", file, tmp_path / "other")
    assert (merged.exit_code, merged.stderr.count("1 chunk added")) == (0, 1)
    with Campaign.open(file) as again:
        assert again.finished == {0, 1, 2}

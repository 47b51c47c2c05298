"""Recordings of others, which are not in the repository: SIMLOOP_SAMPLES names their folder."""

import os
from pathlib import Path

import pytest

from simloop.errors import ScenarioError
from simloop.recordings.formats import read_recording
from simloop.recordings.scenarios import scenario_of
from simloop.scenario.loader import parse_scenario
from simloop.scenario.writing import scenario_text

SAMPLES = Path(os.environ.get("SIMLOOP_SAMPLES", "nowhere"))


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="SIMLOOP_SAMPLES names no folder of recordings")
def test_each_is_a_scenario_or_is_refused_with_the_reason() -> None:
    files = sorted(each for each in SAMPLES.rglob("*") if each.is_file())
    made, hints = 0, list[str]()
    for file in files:
        try:
            scenario, comment = scenario_of(read_recording(file))
        except ScenarioError as error:
            hints.append(error.hint)
            continue
        assert parse_scenario(scenario_text(scenario, comment)) == scenario
        made += 1
    assert made
    assert all(hints)

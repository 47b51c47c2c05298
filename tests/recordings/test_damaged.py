"""A stranger's file, however it is damaged, is refused with a reason, or is a scenario.

The environment variable SIMLOOP_DAMAGED says how many files there are: 20,000 take a minute or two.
"""

import os
from pathlib import Path
from random import Random

import pytest
from damage import damaged
from recordedfiles import FILES

from simloop.errors import ScenarioError
from simloop.recordings.formats import read_recording
from simloop.recordings.scenarios import scenario_of
from simloop.scenario.loader import parse_scenario
from simloop.scenario.writing import scenario_text

NAMES = list(FILES)
MOST = int(os.environ.get("SIMLOOP_DAMAGED", "600"))


def imports(name: str, seed: int, path: Path) -> bool:
    """Import a damaged recording; return whether it has become a scenario that a file can have."""
    path.write_bytes(damaged(FILES[name], Random(seed)))
    try:
        scenario, comment = scenario_of(read_recording(path), emails=bool(seed % 2))
        text = scenario_text(scenario, comment)
    except ScenarioError:
        return False
    assert parse_scenario(text) == scenario
    return True


def check(seeds: range, tmp_path: Path) -> None:
    made = [imports(NAMES[seed % len(NAMES)], seed, tmp_path / "recording") for seed in seeds]
    assert any(made)
    assert not all(made)


def test_damage_is_refused_or_becomes_a_scenario(tmp_path: Path) -> None:
    check(range(60), tmp_path)


@pytest.mark.slow
def test_no_damage_crashes_or_hangs(tmp_path: Path) -> None:
    check(range(60, MOST), tmp_path)


def test_two_imports_of_the_same_bytes_are_equal(tmp_path: Path) -> None:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
        first, again = (scenario_of(read_recording(tmp_path / name)) for _ in range(2))
        assert first == again

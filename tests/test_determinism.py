"""The same bytes in another process, with another hash seed, on another Python."""

import subprocess
import sys
from pathlib import Path

import pytest
from environments import RECORDED, digests_of_bundled, with_lowest_versions


@pytest.mark.slow
def test_another_hash_seed_changes_no_byte_of_a_recorded_trace() -> None:
    """`test_snapshots.py` runs the scenarios with a hash seed of its own, which is drawn."""
    assert digests_of_bundled(sys.executable, hash_seed="1") == RECORDED
    assert len(RECORDED) > 200


@pytest.mark.versions
def test_the_lowest_versions_that_the_package_allows_pass_every_scenario(tmp_path: Path) -> None:
    command = [str(with_lowest_versions()), "-m", "simloop", "check", "all"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, " passed" in run.stdout) == (0, True), run.stdout + run.stderr

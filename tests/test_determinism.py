"""The same bytes in another process, with another hash seed, on another Python."""

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from environments import RECORDED, digests_of_bundled

TOP = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_another_hash_seed_changes_no_byte_of_a_recorded_trace() -> None:
    """`test_snapshots.py` runs the scenarios with a hash seed of its own, which is drawn."""
    assert digests_of_bundled(sys.executable, hash_seed="1") == RECORDED
    assert len(RECORDED) > 200


@pytest.mark.versions
def test_the_lowest_versions_that_the_package_allows_pass_every_scenario(tmp_path: Path) -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    lowest = [each.replace(">=", "==") for each in project["dependencies"]]
    venv.create(tmp_path / "venv", with_pip=True)
    inside = tmp_path / "venv" / "bin"
    install = [str(inside / "python"), "-m", "pip", "install", "-q", "--no-compile"]
    subprocess.run([*install, str(TOP), *lowest], check=True)
    check = [str(inside / "simloop"), "check", "all"]
    run = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, " passed" in run.stdout) == (0, True), run.stdout + run.stderr

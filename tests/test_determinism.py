"""The same bytes in another process, with another hash seed, on another Python."""

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from environments import BUNDLED

TOP = Path(__file__).resolve().parent.parent


def digests(python: str | Path, hash_seed: str) -> list[str]:
    """The name and digest of every bundled scenario's trace, as that interpreter makes them."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [str(python), "-c", BUNDLED]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return run.stdout.splitlines()


@pytest.mark.slow
def test_the_hash_seed_changes_no_byte() -> None:
    first = digests(sys.executable, "1")
    assert len(first) >= 15
    assert first == digests(sys.executable, "2")


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

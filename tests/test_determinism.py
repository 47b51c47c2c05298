"""The same bytes in another process, with another hash seed, on another Python."""

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from environments import THIS, interpreter

TOP = Path(__file__).resolve().parent.parent
VERSIONS = [version for version in ("3.11", "3.12", "3.13", "3.14") if version != THIS]

DIGESTS = """
from contextlib import suppress
from simloop import RunawayRun, load_scenario
from simloop.runs.simulation import Simulation
from simloop.scenario.catalog import bundled
from simloop.trace.codec import digest, encode
for listed in bundled():
    simulation = Simulation(load_scenario(listed.path))
    with suppress(RunawayRun):
        simulation.run()
    print(listed.name, digest(encode(simulation.trace)))
"""


def digests(python: str | Path, hash_seed: str) -> list[str]:
    """The name and digest of every bundled scenario's trace, as that interpreter makes them."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [str(python), "-c", DIGESTS]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return run.stdout.splitlines()


@pytest.mark.slow
def test_the_hash_seed_changes_no_byte() -> None:
    first = digests(sys.executable, "1")
    assert len(first) >= 15
    assert first == digests(sys.executable, "2")


@pytest.mark.versions
@pytest.mark.parametrize("version", VERSIONS)
def test_another_python_changes_no_byte(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip("it is not installed")
    subprocess.run([str(python), "-m", "venv", tmp_path / "venv"], check=True)
    inside = tmp_path / "venv" / "bin" / "python"
    constraints = str(TOP / "constraints.txt")
    install = [str(inside), "-m", "pip", "install", "-q", "--no-compile", "-c"]
    subprocess.run([*install, constraints, str(TOP)], check=True)
    assert digests(inside, "3") == digests(sys.executable, "4")


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

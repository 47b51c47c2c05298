"""Environments for the tests marked `sdks`, which need real SDKs and frameworks.

The packages exclude each other, so that each environment has a file of pinned versions in
tests/adapters/environments. A test marked `frameworks` builds one, and runs tests inside it.
"""

import os
import subprocess
import sys
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
PINNED = TOP / "tests" / "adapters" / "environments"


def built(name: str, folder: Path) -> Path:
    """Build the environment of `name`.txt in `folder`, with this simloop; return its Python.

    SIMLOOP_TEST_ENVIRONMENTS, a folder with environments that are built already, saves the time.
    """
    kept = os.environ.get("SIMLOOP_TEST_ENVIRONMENTS")
    if kept:
        return Path(kept) / name / "bin" / "python"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "-r",
        str(PINNED / f"{name}.txt"),
        str(TOP),
    ]
    done = subprocess.run(install, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return python


def run_inside(python: Path, files: Iterable[str]) -> None:
    """Run the tests marked `sdks` of `files`, paths from tests/adapters; all must pass."""
    paths = [f"tests/adapters/{file}" for file in files]
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-m",
        "sdks",
        *paths,
    ]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, check=False, cwd=TOP, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout


RECIPES = PINNED.parent / "recipes"


def check_recipe(loop: str, folder: str) -> None:
    """Check each scenario of `folder`, twice, on an agent: its expectations and the invariants.

    In a process of its own: a framework may have a module with the name of one of these tests.
    """
    command = [sys.executable, "-m", "simloop", "check", folder, "--loop", loop]
    done = _in_recipes(command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout, done.stdout


def digests_of(runs: Sequence[tuple[str, str]], hash_seed: str) -> list[str]:
    """Return the digest of each run, of an agent and a scenario, with that hash seed."""
    script = f"""
from simloop import load_scenario, run
from simloop.trace.codec import digest, encode
for loop, scenario in {runs!r}:
    print("digest", digest(encode(run(load_scenario(scenario), loop=loop).trace)))
"""
    printed = printed_by(script, PYTHONHASHSEED=hash_seed)
    found = [line for line in printed.splitlines() if line.startswith("digest")]
    assert len(found) == len(runs)
    return found


def printed_by(script: str, **environment: str) -> str:
    """Run a program beside the recipes to its end, and return what it prints."""
    done = _in_recipes([sys.executable, "-c", script], **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _in_recipes(command: list[str], **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(TOP), **more}
    environment.pop("OPENAI_API_KEY", None)  # no recipe needs a key
    environment.pop("ANTHROPIC_API_KEY", None)
    return subprocess.run(
        command, check=False, cwd=RECIPES, env=environment, capture_output=True, text=True
    )

"""Environments for the tests marked `sdks`, which need real SDKs and frameworks.

The packages exclude each other, so that each environment has a file of pinned versions in
tests/adapters/environments. A test marked `frameworks` builds one, and runs tests inside it.
"""

import os
import subprocess
import venv
from collections.abc import Iterable
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

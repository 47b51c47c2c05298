"""Environments for the tests marked `sdks`, which need real SDKs and frameworks.

The packages exclude each other, so that each environment has a file of pinned versions in
tests/adapters/environments. A test marked `frameworks` builds one, and runs tests inside it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
PINNED = TOP / "tests" / "adapters" / "environments"


THIS = f"{sys.version_info.major}.{sys.version_info.minor}"


def interpreter(version: str) -> Path | None:
    """A working Python of that version: this one, one on the path, or one kept by pyenv."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    here = sys.executable if version == THIS else None
    found = [here, shutil.which(name), *sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"))]
    for candidate in found:
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True).returncode == 0:  # noqa: PLW1510
            return Path(candidate)
    return None


def built(name: str, folder: Path, version: str = THIS) -> Path:
    """Build the environment of `name`.txt in `folder`, with this simloop; return its Python.

    SIMLOOP_TEST_ENVIRONMENTS, a folder with environments that are built already, saves the time.
    Those of other versions of Python have names like `frameworks-3.12`.
    """
    kept = os.environ.get("SIMLOOP_TEST_ENVIRONMENTS")
    if kept:
        folder = Path(kept) / (name if version == THIS else f"{name}-{version}")
        return folder / "bin" / "python"
    outer = interpreter(version)
    assert outer is not None, f"there is no Python {version}"
    subprocess.run([outer, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q"]
    # The pip that comes with a Python takes twice the time of a new one for the rest.
    subprocess.run([*install, "pip>=26"], check=True)
    # Most of the modules are never imported.
    given = ["--no-compile", "-r", str(PINNED / f"{name}.txt"), str(TOP)]
    done = subprocess.run([*install, *given], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return python


def run_inside(python: Path, paths: Iterable[str], marked: str = "sdks") -> None:
    """Run the tests of `paths` that are `marked`; all must pass.

    Properties have few examples there, also in CI: the run that is under way has the many.
    """
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-m",
        marked,
        *paths,
    ]
    environment = {**os.environ, "PYTEST_ADDOPTS": "", "CI": ""}
    done = subprocess.run(
        command, check=False, cwd=TOP, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout


RECIPES = PINNED.parent / "recipes"


def scenarios_of(recipes: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return each agent of pairs of an agent and a folder with each scenario of the folder."""
    return [
        (loop, f"{folder}/{path.name}")
        for loop, folder in recipes
        for path in sorted((RECIPES / folder).glob("*.simloop.yaml"))
    ]


def check_recipe(loop: str, folder: str) -> None:
    """Check each scenario of `folder`, twice, on an agent: its expectations and the invariants.

    In a process of its own: a framework may have a module with the name of one of these tests.
    """
    command = [sys.executable, "-m", "simloop", "check", folder, "--loop", loop]
    done = _in_recipes(command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout, done.stdout


def digests_of(
    runs: Sequence[tuple[str, str]], hash_seed: str, python: str | Path = sys.executable
) -> list[str]:
    """Return each run, of an agent and a scenario, with the digest of its trace.

    They run in one process of `python`, with that hash seed.
    """
    script = f"""
from contextlib import suppress
from simloop import Deadlock, load_scenario
from simloop.runs.simulation import Simulation
from simloop.trace.codec import digest, encode
for loop, scenario in {runs!r}:
    simulation = Simulation(load_scenario(scenario), loop=loop)
    with suppress(Deadlock):
        simulation.run()
    print("digest", loop, scenario, digest(encode(simulation.trace)))
"""
    printed = printed_by(script, python, PYTHONHASHSEED=hash_seed)
    found = [line for line in printed.splitlines() if line.startswith("digest")]
    assert len(found) == len(runs)
    return found


def printed_by(script: str, python: str | Path = sys.executable, **environment: str) -> str:
    """Run a program beside the recipes to its end, and return what it prints."""
    done = _in_recipes([str(python), "-c", script], **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _in_recipes(command: list[str], **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(TOP), **more}
    environment.pop("OPENAI_API_KEY", None)  # no recipe needs a key
    environment.pop("ANTHROPIC_API_KEY", None)
    return subprocess.run(
        command, check=False, cwd=RECIPES, env=environment, capture_output=True, text=True
    )

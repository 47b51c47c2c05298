"""Environments for the tests marked `sdks`, which need real SDKs and frameworks.

The packages exclude each other, so that each environment has a file of pinned versions in
tests/wire/environments. A test marked `frameworks` builds one, and runs tests inside it.
"""

import atexit
import contextlib
import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from importlib.metadata import files
from pathlib import Path
from typing import NamedTuple

from simloop.trace.codec import digest

TOP = Path(__file__).resolve().parent.parent.parent
PINNED = TOP / "tests" / "wire" / "environments"
PYTHONS = ("3.11", "3.12", "3.13")
"""The Pythons for which all pinned packages have wheels."""
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


def built(name: str, version: str = THIS) -> Path:
    """Return the Python of an environment with the packages of `name`.txt and this checkout.

    The packages are installed once for each set of pins, in a folder of the user's cache.
    """
    return _with_checkout(_packages(name, version))


def with_lowest_versions() -> Path:
    """Return the Python of an environment with the lowest versions that the package allows."""
    return _with_checkout(_lowest())


def _lowest() -> Path:
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
    lowest = [each.replace(">=", "==") for each in project["dependencies"]]
    return _kept("lowest", THIS, "\n".join(lowest))


@functools.cache
def _with_checkout(python: Path) -> Path:
    """Return the Python of a fresh environment, which sees those packages and this checkout.

    The packages stay as they are: another checkout can use them at the same time.
    """
    folder = Path(tempfile.mkdtemp(prefix="simloop-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    (kept,) = python.parent.parent.glob("lib/python*/site-packages")
    (fresh,) = folder.glob("lib/python*/site-packages")
    (fresh / "simloop.pth").write_text(f"{TOP}\n{TOP / 'tui'}\n{kept}\n", "utf-8")
    for file in files("agent-simloop") or ():  # pytest finds the plugin in the metadata
        if file.parts[0].endswith(".dist-info"):
            (fresh / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), fresh / file)
    return folder / "bin" / "python"


def _packages(name: str, version: str) -> Path:
    """Return the Python of an environment with the pinned packages, and no simloop yet."""
    return _kept(name, version, (PINNED / f"{name}.txt").read_text("utf-8"))


def _kept(name: str, version: str, pins: str) -> Path:
    outer = interpreter(version)
    assert outer is not None, f"there is no Python {version}"
    folder = KEPT / f"{name}-{version}-{sha256(pins.encode()).hexdigest()[:12]}"
    with _alone(folder):
        python = folder / "bin" / "python"
        if not (folder / "complete").exists():
            subprocess.run([outer, "-m", "venv", "--clear", folder], check=True)
            _install(python, *pins.split())
            (folder / "complete").touch()
    return python


KEPT = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "simloop-tests"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep the other workers from building the same environment."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(python: Path, *what: str) -> None:
    """Install packages: with uv, if it is here, because pip takes five times longer."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    pip: tuple[str | Path, ...] = (python, "-m", "pip", "install")
    command = (uv, "pip", "install", "-p", python) if uv else pip
    done = subprocess.run([*command, "-q", *what], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def run_inside(python: Path, paths: Iterable[str], marked: str = "sdks") -> None:
    """Run the tests of `paths` that are `marked`; all must pass.

    Properties have few examples there, also in CI: the run that is under way has the many.
    """
    options = ("-q", "-rs", "-p", "no:cacheprovider", "-m", marked)
    command = [str(python), "-m", "pytest", *options, *paths]
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


class Told(NamedTuple):
    """What one process beside the recipes has printed.

    Each command of simloop has its exit code and its output, and each run of an agent and a
    scenario a line with the digest of its trace.
    """

    commands: list[tuple[int, str]]
    digests: list[str]


def told_by(
    *commands: Sequence[str],
    runs: Sequence[tuple[str, str]] = (),
    then: str = "",
    hash_seed: str = "1",
    python: str | Path = sys.executable,
) -> Told:
    """Run commands of simloop beside the recipes, agents in scenarios, `then`, in one process.

    To import the frameworks takes seconds. It is not this process: a framework may have a module
    with the name of one of these tests.
    """
    script = f"""
import json
from contextlib import suppress
from click.testing import CliRunner
from simloop import Deadlock, load_scenario
from simloop.cli import main
from simloop.runs.run import Simulation
from simloop.trace.codec import digest, encode
done = [CliRunner().invoke(main, command) for command in {commands!r}]
digests = []
for loop, scenario in {runs!r}:
    simulation = Simulation(load_scenario(scenario), loop=loop)
    with suppress(Deadlock):
        simulation.run()
    digests.append(f"{{loop}} {{scenario}} {{digest(encode(simulation.trace))}}")
{then}
print(json.dumps([[(each.exit_code, each.output) for each in done], digests]))
"""
    printed = printed_by(script, python, PYTHONHASHSEED=hash_seed)
    return Told(*json.loads(printed.splitlines()[-1]))


def printed_by(script: str, python: str | Path = sys.executable, **more: str) -> str:
    """Run a program beside the recipes to its end, and return what it prints."""
    # litellm would ask the network for prices, three times.
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    environment = {**os.environ, **offline, "PYTHONPATH": str(TOP), **more}
    environment.pop("OPENAI_API_KEY", None)  # no recipe needs a key
    environment.pop("ANTHROPIC_API_KEY", None)
    command = [str(python), "-c", script]
    done = subprocess.run(
        command, check=False, cwd=RECIPES, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


BUNDLED = """
from contextlib import suppress
from simloop import RunawayRun, load_scenario
from simloop.runs.run import Simulation
from simloop.scenario.catalog import bundled
from simloop.trace.codec import digest, encode
for listed in bundled():
    simulation = Simulation(load_scenario(listed.path))
    with suppress(RunawayRun):
        simulation.run()
    print(listed.name, digest(encode(simulation.trace)))
"""
"""A program that prints the name and the digest of each bundled scenario's trace."""
RECORDED = {
    path.name.removesuffix(".trace.jsonl").replace(".", "/", 1): digest(path.read_bytes())
    for path in (TOP / "scenarios" / "__snapshots__").glob("*.trace.jsonl")
    if b'\n{"kind":"footer"' in path.read_bytes()
}
"""The digest of each trace that is recorded whole, by the name of its scenario."""


def digests_of_bundled(python: str | Path, hash_seed: str) -> dict[str, str]:
    """Run the bundled scenarios in a process of `python`; return the digests of their traces."""
    printed = printed_by(BUNDLED, python, PYTHONHASHSEED=hash_seed)
    found = dict(line.split() for line in printed.splitlines())
    return {name: found[name] for name in RECORDED}


@functools.cache
def digests_of_thread_cases(python: str | Path = sys.executable) -> list[str]:
    """Run the cases of threads in a process of `python`; return the digests of their traces."""
    script = "import threadcases; print(*threadcases.digests_of_cases(), sep='\\n')"
    paths = os.pathsep.join((str(TOP), str(TOP / "tests" / "support")))
    return printed_by(script, python, PYTHONPATH=paths).splitlines()


if __name__ == "__main__":  # builds all environments, in the order in which tests ask for them
    _lowest()
    for name in ("async-plugins", "frameworks", "mocks", "sdks", "sdks-older"):
        _packages(name, THIS)
    for version in PYTHONS:
        if version != THIS and interpreter(version) is not None:
            _packages("frameworks", version)

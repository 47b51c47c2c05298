"""`simloop doctor`: check that simloop works here, and report each problem.

At the top this module imports no dependency of simloop, because it reports those that are missing.
"""

import json
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

import click

from simloop.cli.terminal import out, plain, verdict_word
from simloop.errors import ScenarioError, SimloopError

ANSWERED = Path(__file__).with_name("answered.json")
"""The HTTP clients and the wire formats that a run answers; tests/regenerate.py writes it."""

CheckResult: TypeAlias = tuple[bool, str, str]
"""Whether a check has passed, its subject, and what it found, or the remedy."""


@click.command("doctor")
def command() -> int:
    """Check that simloop works on this machine. The exit code is 1 if a check fails."""
    results = [*_checks()]
    for ok, subject, detail in results:
        word = verdict_word("ok" if ok else "FAILED", len("FAILED"))
        out(f"{word}  {plain(subject):<18}  {plain(detail)}")
    wrong = sum(not ok for ok, _, _ in results)
    out("all is well" if not wrong else f"{wrong} of {len(results)} checks failed")
    return 1 if wrong else 0


def _checks() -> Iterator[CheckResult]:
    yield True, "Python", f"{platform.python_version()} ({sys.executable})"
    folder, installed = Path(__file__).resolve().parent.parent, _version_of("agent-simloop")
    missing = f"runs from {folder}, but is not installed; try: pip install {folder}"
    yield bool(installed), "simloop", f"{installed} ({folder})" if installed else missing
    yield _scenarios()
    for subject, (requests, package, tested) in json.loads(ANSWERED.read_text("utf-8")).items():
        version = _version_of(package)
        here = f"here {version}" if version else "not installed here"
        yield True, subject, f"{requests}; tested with {package} {', '.join(tested)}; {here}"


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _scenarios() -> CheckResult:
    try:
        from simloop.runs.run import run  # noqa: PLC0415 - a dependency may be missing
        from simloop.scenario import catalog  # noqa: PLC0415
        from simloop.scenario.loader import load_scenario  # noqa: PLC0415

        folder, listed = catalog.bundled_folder(), list(catalog.bundled())
        if not listed:
            raise ScenarioError(f"none found in {folder}", hint="install simloop again")
        run(load_scenario(listed[0].path))
    except (SimloopError, ImportError, OSError) as error:
        return False, "scenarios", str(error) or type(error).__name__
    return True, "scenarios", f"{len(listed)} in {folder}"

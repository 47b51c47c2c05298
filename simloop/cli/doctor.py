"""`simloop doctor`: check that simloop works here, and report each problem.

At the top this module imports no dependency of simloop, because it reports those that are missing.
Each test takes a moment, and the message of a failure states its consequence for the user.
"""

import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import click

from simloop.cli.terminal import out, plain, verdict_word
from simloop.errors import InternalError, ScenarioError, SimloopError

DISTRIBUTION = "agent-simloop"
ANSWERED = Path(__file__).with_name("answered.json")
"""The HTTP clients and the wire formats that a run answers; tests/regenerate.py writes it."""
_HOUR_S = 3_600
_PATIENCE_S = 60


class CheckResult(NamedTuple):
    """The result of a check; `detail` describes it, or gives the remedy."""

    ok: bool
    subject: str
    detail: str


@click.command("doctor")
def command() -> int:
    """Check that simloop works on this machine. The exit code is 1 if a check fails."""
    results = []
    for result in _checks():
        results.append(result)
        word = verdict_word("ok" if result.ok else "FAILED", len("FAILED"))
        out(f"{word}  {plain(result.subject):<18}  {plain(result.detail)}")
    wrong = sum(not result.ok for result in results)
    out("all is well" if not wrong else f"{wrong} of {len(results)} checks failed")
    return 1 if wrong else 0


def _checks() -> Iterator[CheckResult]:
    python = f"{platform.python_version()} ({sys.executable})"
    yield CheckResult(ok=True, subject="Python", detail=python)
    yield _installed()
    for subject in TESTS:
        yield _self_test(subject)
    for subject, (requests, package, tested) in json.loads(ANSWERED.read_text("utf-8")).items():
        detail = f"{requests}; tested with {package} {', '.join(tested)}; {_installed_of(package)}"
        yield CheckResult(ok=True, subject=subject, detail=detail)


def _installed_of(package: str) -> str:
    try:
        return f"here {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return "not installed here"


def _installed() -> CheckResult:
    folder = Path(__file__).resolve().parent.parent
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        detail = f"runs from {folder}, but is not installed; try: pip install {folder}"
        return CheckResult(ok=False, subject="simloop", detail=detail)
    return CheckResult(ok=True, subject="simloop", detail=f"{version} ({folder})")


def _self_test(subject: str) -> CheckResult:
    try:
        return CheckResult(ok=True, subject=subject, detail=TESTS[subject]())
    except (SimloopError, ImportError, OSError) as error:
        return CheckResult(ok=False, subject=subject, detail=str(error) or type(error).__name__)


def scenarios() -> str:
    """Read the bundled scenarios. Raises ScenarioError if there are none, or a bad one."""
    from simloop.scenario.catalog import bundled, bundled_folder  # noqa: PLC0415 - may be missing

    folder = bundled_folder()
    count = sum(1 for _ in bundled())
    if not count:
        raise ScenarioError(f"none found in {folder}", hint="install simloop again")
    return f"{count} in {folder}"


def determinism() -> str:
    """Run one scenario twice and compare the bytes. Raises InternalError if they differ."""
    from simloop.runs.run import run  # noqa: PLC0415 - may be missing
    from simloop.scenario.catalog import bundled  # noqa: PLC0415 - may be missing
    from simloop.scenario.loader import load_scenario  # noqa: PLC0415 - may be missing
    from simloop.trace.codec import encode  # noqa: PLC0415 - may be missing

    listed = next(bundled(), None)
    if listed is None:
        raise ScenarioError("there is no bundled scenario to run")
    scenario = load_scenario(listed.path)
    first, second = (encode(run(scenario).trace) for _ in range(2))
    if first != second:
        raise InternalError(f"two runs of {listed.name} differ: please report it")
    return f"two runs of {listed.name} gave the same {len(first):,} bytes"


def virtual_clock() -> str:
    """Let a virtual hour pass in a moment. Raises InternalError if it does not."""
    import asyncio  # noqa: PLC0415 - for this test alone

    from simloop.virtual.simulate import simulate  # noqa: PLC0415 - may be missing

    async def slept_s() -> float:
        clock = asyncio.get_running_loop()
        before_s = clock.time()
        await asyncio.sleep(_HOUR_S)
        return clock.time() - before_s

    start_s = time.perf_counter()
    passed_s = simulate(slept_s())
    took_s = time.perf_counter() - start_s
    if passed_s != _HOUR_S or took_s > _PATIENCE_S:
        raise InternalError(f"an hour was {passed_s} s and took {took_s:.3f} s: please report it")
    return f"an hour passed in {took_s * 1e3:.1f} ms"


TESTS: dict[str, Callable[[], str]] = {
    "scenarios": scenarios,
    "determinism": determinism,
    "virtual clock": virtual_clock,
}
"""The tests of simloop itself: each returns its finding, or raises."""

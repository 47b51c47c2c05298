"""`simloop doctor`: check that simloop works here, and report each problem.

Not here: the tests of simloop itself (selftest.py), which need its dependencies. The rule to keep:
this module needs none of them, because it reports a missing dependency.
"""

import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import click

from simloop.cli.terminal import out, plain, verdict_word, wants_colour
from simloop.errors import SimloopError

DISTRIBUTION = "agent-simloop"
_REQUIREMENT = re.compile(r"([\w.-]+)>=([\d.]+)")


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
    yield python_check(sys.version_info[:2])
    yield from _installed()
    for subject in ("scenarios", "determinism", "virtual clock"):
        yield _self_test(subject)
    yield CheckResult(ok=True, subject="terminal", detail=_terminal())


def python_check(version: tuple[int, ...]) -> CheckResult:
    """Return whether this Python is new enough; `version` is its major and minor number."""
    detail = f"{platform.python_version()} ({sys.executable})"
    if version < (3, 11):
        return CheckResult(
            ok=False, subject="Python", detail=f"{detail}; simloop needs 3.11 or newer"
        )
    return CheckResult(ok=True, subject="Python", detail=detail)


def _installed() -> Iterator[CheckResult]:
    folder = Path(__file__).resolve().parent.parent
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        detail = f"runs from {folder}, but is not installed; try: pip install {folder}"
        yield CheckResult(ok=False, subject="simloop", detail=detail)
        return
    yield CheckResult(ok=True, subject="simloop", detail=f"{version} ({folder})")
    yield from dependency_checks(metadata.requires(DISTRIBUTION) or ())


def dependency_checks(requirements: Iterable[str]) -> Iterator[CheckResult]:
    """Yield whether each of `requirements` (`name>=1.2`) is installed; extras are skipped."""
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is None or "extra ==" in requirement:
            continue
        name, least = match.groups()
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            mend = f"not installed; try: pip install '{name}>={least}'"
            yield CheckResult(ok=False, subject=name, detail=mend)
            continue
        new_enough = _numbers(version) >= _numbers(least)
        mend = "" if new_enough else f", which is too old; try: pip install '{name}>={least}'"
        yield CheckResult(ok=new_enough, subject=name, detail=f"{version}{mend}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _self_test(subject: str) -> CheckResult:
    try:
        from simloop.cli import selftest  # noqa: PLC0415 - needs what may be missing

        tests: dict[str, Callable[[], str]] = selftest.TESTS
        return CheckResult(ok=True, subject=subject, detail=tests[subject]())
    except (SimloopError, ImportError, OSError) as error:
        return CheckResult(ok=False, subject=subject, detail=str(error) or type(error).__name__)


def _terminal() -> str:
    stdout: Any = sys.stdout
    kind = "a terminal" if stdout is not None and stdout.isatty() else "no terminal"
    encoding = getattr(stdout, "encoding", None)
    set_here = [
        f"{name}={os.environ[name]}"
        for name in ("TERM", "NO_COLOR", "FORCE_COLOR")
        if name in os.environ
    ]
    colour = "colour" if wants_colour() else "no colour"
    return ", ".join((f"stdout is {kind}", f"{encoding}", colour, *set_here))

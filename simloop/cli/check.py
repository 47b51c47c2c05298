"""`simloop check`: verify the expectations and the determinism of scenarios.

stdout is a function of the scenarios alone; the real duration goes to stderr.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import field

from simloop.check.compare import Row
from simloop.check.trial import verify
from simloop.cli.compare_text import reasons, word_of
from simloop.cli.options import (
    ALL_LOOPS,
    Target,
    check_single_loop,
    formats,
    invariants_of_ones_own,
    scenario_settings_or_all,
    targets_of,
)
from simloop.cli.report import Report, Tally, made, print_json
from simloop.cli.terminal import StatusLine, cells, note, out, out_lines, padded, plain
from simloop.errors import ScenarioError
from simloop.runs.options import RunOptions
from simloop.scenario.designs import DESIGNS
from simloop.scenario.schema import Scenario


class CheckedScenario(Report):
    """A report on a scenario that was run twice; on `loop` instead of its own, if that is given.

    `cannot` is the row with the reason if that loop cannot express the scenario.
    """

    loop: str = ""
    cannot: Row | None = None

    @property
    def exit_code(self) -> int:
        """Return the exit code; a scenario that the loop cannot express has not failed."""
        return 0 if self.cannot else self.verdict.exit_code

    def lines(self, name_width: int = 0) -> Iterator[str]:
        """Yield the lines of the report, or the reason if the loop cannot express the scenario."""
        if self.cannot is None:
            yield from Report.lines(self, name_width)
        else:
            reason = plain(self.cannot.cannot)
            yield f"{word_of(self.cannot)}  {padded(plain(self.name), name_width)}  {reason}"

    def explain(self) -> None:
        """Print the errors to stderr; the reason that a loop cannot express goes to stdout."""
        if self.cannot is None:
            Report.explain(self)

    def json_format(self) -> dict[str, Any]:
        """Return the report by the scenario's name, with the loop even if nothing was run."""
        document = Report.json_format(self)
        if self.loop:
            name = self.name.removesuffix(f" on {self.loop}")
            document |= {"name": name, "loop": self.loop}
        return {**document, "deterministic": self.verdict.deterministic}


class _Count(Tally):
    """A tally in which a scenario that cannot be expressed has neither passed nor failed."""

    cannot: list[Row] = field(default_factory=list)

    def add_report(self, report: CheckedScenario) -> None:
        if report.cannot is None:
            self.add(report.exit_code)
        else:
            self.cannot.append(report.cannot)

    def __str__(self) -> str:
        cannot = f", {len(self.cannot)} cannot be expressed" if self.cannot else ""
        return f"{Tally.__str__(self)}{cannot}"


@click.command("check")
@scenario_settings_or_all
@invariants_of_ones_own
@click.option("-v", "--verbose", is_flag=True, help="List the scenarios that pass, too.")
@formats("json")
def command(
    *, targets: tuple[str, ...], given: RunOptions, verbose: bool, output_format: str
) -> int:
    """Run scenarios twice, check expectations and compare the runs.

    A PATH is a scenario file, or a folder with *.simloop.yaml files in it or below it. A NAME is
    that of a bundled scenario (see: simloop list), `theme/`, or `all`. The command prints the
    scenarios that fail; the exit code is the worst of all. With `--loop all` each scenario is
    checked on every loop. A scenario that the requested loop cannot express is no failure; the
    reason is printed before the count. Each run is also judged by the invariants that
    `simloop invariants` lists. All times on stdout are virtual, so equal scenarios give equal
    bytes. For a JUnit file, let pytest run the scenarios, with --junit-xml.
    """
    check_single_loop(given)
    found = list(targets_of(targets))
    with StatusLine(sys.stderr) as status:
        reports = made(
            (each for one in status.through(found) for each in _checked(one, given, status)),
            given["loop"],
        )
        if output_format == "json":
            return print_json(_apart(reports, status))
        width = max(cells(plain(target.name)) for target in found)
        if given["loop"] == ALL_LOOPS:
            width += max(len(f" on {name}") for name in DESIGNS)
        return _print_text(_apart(reports, status), status, width, verbose=verbose)


def _checked(target: Target, given: RunOptions, status: StatusLine) -> Iterator[CheckedScenario]:
    """Yield a report; one for each loop, if all loops are requested and the file can be read."""
    loop = given.get("loop")
    if loop == ALL_LOOPS and not isinstance(target.file, ScenarioError):
        yield from _checked_on_all(target.name, target.file, given.get("seed"), status)
        return
    report = CheckedScenario.on(target)
    if report.path is not None:
        report.verdict = verify(report.path, watch=status.watch_run, **given)
    yield _on(loop, report) if isinstance(loop, str) else report


def _checked_on_all(
    name: str, path: Path, seed: int | None, status: StatusLine
) -> Iterator[CheckedScenario]:
    source: Scenario | Path = path
    for loop in DESIGNS:
        verdict = verify(source, watch=status.watch_run, seed=seed, loop=loop)
        if verdict.scenario is None:
            yield CheckedScenario(name, path, verdict)
            return
        source = verdict.scenario  # read once
        yield _on(loop, CheckedScenario(f"{name} on {loop}", path, verdict))


def _on(loop: str, report: CheckedScenario) -> CheckedScenario:
    report.loop = loop
    report.cannot = Row.of(loop, report.verdict) if report.verdict.cannot else None
    return report


def _apart(reports: Iterable[CheckedScenario], status: StatusLine) -> Iterator[CheckedScenario]:
    """Yield the reports; wipe the bar before errors are printed, and at the end."""
    for report in reports:
        if report.verdict.errors:
            status.clear()
        yield report
    status.clear()


def _print_text(
    reports: Iterable[CheckedScenario], status: StatusLine, name_width: int, *, verbose: bool
) -> int:
    """Print each failure as soon as it is known, then a count."""
    count, virtual_ns, start_s = _Count(), 0, time.perf_counter()
    for report in reports:
        count.add_report(report)
        virtual_ns += report.elapsed_ns
        if report.exit_code or verbose:
            status.clear()
            out_lines(report.lines(name_width))
        report.explain()
    took_s = time.perf_counter() - start_s
    out_lines(reasons(count.cannot))
    out(f"{count} ({virtual_ns / 1e9:,.3f}s virtual)")
    speed = count.words.total() / took_s
    note(f"took {took_s:.2f}s: {speed:,.0f} scenarios/s, two runs each")
    return count.exit_code

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
from simloop.cli.folding import cells, padded
from simloop.cli.options import (
    ALL_LOOPS,
    check_single_loop,
    invariants_of_ones_own,
    scenario_settings_or_all,
)
from simloop.cli.progress import ProgressLine
from simloop.cli.report import Report, Tally, json_text, made
from simloop.cli.scenario_arguments import Target, targets_of
from simloop.cli.terminal import note, out, out_exactly, out_lines, plain
from simloop.errors import ScenarioError
from simloop.runs.options import RunOptions
from simloop.scenario.designs import DESIGNS
from simloop.scenario.expectations import Expectations
from simloop.scenario.schema import Scenario


class OnLoop(Report):
    """A report on a scenario that was checked on this loop instead of the loop that it names.

    `cannot` is the row with the reason if the loop cannot express the scenario.
    """

    loop: str = ""
    cannot: Row | None = None

    @classmethod
    def of(cls, name: str, loop: str, report: Report) -> "OnLoop":
        """Return the report under that name."""
        cannot = Row.of(loop, report.verdict) if report.verdict.cannot else None
        return cls(name, report.path, report.verdict, loop, cannot)

    @property
    def exit_code(self) -> int:
        """Return the exit code; a scenario that the loop cannot express has not failed."""
        return 0 if self.cannot else self.verdict.exit_code

    def lines(self, name_width: int = 0) -> Iterator[str]:
        """Return the lines of the report, or the reason if the loop cannot express the scenario."""
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
        name = self.name.removesuffix(f" on {self.loop}")
        return {**Report.json_format(self), "name": name, "loop": self.loop}


class _Count(Tally):
    """A tally in which a scenario that cannot be expressed has neither passed nor failed."""

    cannot: list[Row] = field(default_factory=list)

    def add_report(self, report: Report) -> None:
        """Count one more report."""
        if isinstance(report, OnLoop) and report.cannot is not None:
            self.cannot.append(report.cannot)
        else:
            self.add(report.exit_code)

    def __str__(self) -> str:
        cannot = f", {len(self.cannot)} cannot be expressed" if self.cannot else ""
        return f"{Tally.__str__(self)}{cannot}"


@click.command("check")
@scenario_settings_or_all
@invariants_of_ones_own
@click.option("-v", "--verbose", is_flag=True, help="List the scenarios that pass, too.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of the output.",
)
def command(
    *,
    targets: tuple[str, ...],
    seed: int | None,
    loop: str | None,
    judge_as: str,
    loop_options: dict[str, Any],
    expect_on: Expectations | None,
    verbose: bool,
    output_format: str,
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
    given: RunOptions = {
        "seed": seed, "loop": loop, "judge_as": judge_as, "loop_options": loop_options,
        "expect_on": expect_on,
    }  # fmt: skip
    check_single_loop(loop, given)
    found = list(targets_of(targets))
    with ProgressLine(len(found), sys.stderr) as progress:
        verified = (
            report
            for target in progress.through(found)
            for report in _verify(target, given, progress)
        )
        reports = made(verified, loop)
        if output_format == "json":
            return _print_json(reports, progress)
        width = max(cells(plain(target.name)) for target in found)
        if loop == ALL_LOOPS:
            width += max(len(f" on {name}") for name in DESIGNS)
        return _print_text(reports, progress, width, verbose=verbose)


def _verify(target: Target, given: RunOptions, progress: ProgressLine) -> Iterator[Report]:
    """Return a report; one for each loop, if all loops are requested and the file can be read."""
    loop = given.get("loop")
    if loop == ALL_LOOPS and not isinstance(target.file, ScenarioError):
        yield from _verify_on_all(target, target.file, given.get("seed"), progress)
        return
    report = Report.on(target)
    if report.path is not None:
        report.verdict = verify(report.path, watch=progress.watch_run, **given)
    yield report if not isinstance(loop, str) else OnLoop.of(report.name, loop, report)


def _verify_on_all(
    target: Target, path: Path, seed: int | None, progress: ProgressLine
) -> Iterator[Report]:
    source: Scenario | Path = path
    for loop in DESIGNS:
        verdict = verify(source, watch=progress.watch_run, seed=seed, loop=loop)
        report = Report(target.name, path, verdict)
        if report.verdict.scenario is None:
            yield report
            return
        source = report.verdict.scenario  # read once
        yield OnLoop.of(f"{target.name} on {loop}", loop, report)


def _counted(reports: Iterable[Report], progress: ProgressLine, count: _Count) -> Iterator[Report]:
    """Yield the reports; print the errors of each to stderr after it has been used."""
    for report in reports:
        count.add_report(report)
        yield report
        if report.verdict.errors:
            progress.clear()
            report.explain()
    progress.clear()


def _print_json(reports: Iterable[Report], progress: ProgressLine) -> int:
    count = _Count()
    runs = [
        {**report.json_format(), "deterministic": report.verdict.deterministic}
        for report in _counted(reports, progress, count)
    ]
    out_exactly(json_text(runs, count.exit_code))
    return count.exit_code


def _print_text(
    reports: Iterable[Report], progress: ProgressLine, name_width: int, *, verbose: bool
) -> int:
    """Print each failure as soon as it is known, then a count."""
    count, virtual_ns, start_s = _Count(), 0, time.perf_counter()
    for report in _counted(reports, progress, count):
        virtual_ns += report.elapsed_ns
        if report.exit_code or verbose:
            progress.clear()
            out_lines(report.lines(name_width))
    took_s = time.perf_counter() - start_s
    out_lines(reasons(count.cannot))
    out(f"{count} ({virtual_ns / 1e9:,.3f}s virtual)")
    speed = count.words.total() / took_s
    note(f"took {took_s:.2f}s: {speed:,.0f} scenarios/s, two runs each")
    return count.exit_code

"""`simloop check`: is everything as it should be?

Not here: judging (check/verify.py) and how a verdict reads (report.py, junit.py). The rule to keep:
stdout is a function of the scenarios alone; how long it took is told on stderr.
"""

import sys
import time
from collections.abc import Iterable, Iterator

import click

from simloop.check.verify import verify
from simloop.cli.progress import Progress
from simloop.cli.report import Report, Tally, json_text
from simloop.cli.settings import scenario_settings
from simloop.cli.targets import Target, targets_of
from simloop.cli.terminal import note, out, out_lines, plain


@click.command("check")
@scenario_settings
@click.option("-v", "--verbose", is_flag=True, help="Name also the scenarios that pass.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "junit"]),
    default="text",
    show_default=True,
    help="What to print on stdout.",
)
def command(
    targets: tuple[str, ...],
    seed: int | None,
    loop: str | None,
    verbose: bool,  # noqa: FBT001 - as click calls it
    output_format: str,
) -> int:
    """Check scenarios: what they expect, and that they run the same twice.

    A PATH is a scenario file, or a folder with *.simloop.yaml files in it or below it. A NAME is
    that of a bundled scenario (see: simloop list). Named are those that fail; the exit code is the
    worst of all. All times on stdout are virtual, `time` in JUnit too, so that the same scenarios
    give the same bytes.
    """
    found = list(targets_of(targets))
    with Progress(len(found), sys.stderr) as progress:
        reports = (_verify(target, seed, loop) for target in progress.through(found))
        if output_format == "json":
            return _print_json(reports, progress)
        if output_format == "junit":
            return _print_junit(reports, progress)
        width = max(len(plain(target.name)) for target in found)
        return _print_text(reports, progress, width, verbose=verbose)


def _verify(target: Target, seed: int | None, loop: str | None) -> Report:
    report = Report.on(target)
    if report.path is not None:
        report.verdict = verify(report.path, seed=seed, loop=loop)
    return report


def _counted(reports: Iterable[Report], progress: Progress, tally: Tally) -> Iterator[Report]:
    """The reports; after each has been used, its errors are told on stderr."""
    for report in reports:
        tally.add(report.exit_code)
        yield report
        if report.verdict.errors:
            progress.clear()
            report.explain()
    progress.clear()


def _print_json(reports: Iterable[Report], progress: Progress) -> int:
    tally = Tally()
    runs = [
        {**report.json_format(), "deterministic": report.verdict.deterministic}
        for report in _counted(reports, progress, tally)
    ]
    out(json_text(runs))
    return tally.exit_code


def _print_junit(reports: Iterable[Report], progress: Progress) -> int:
    from simloop.cli.junit import Suite  # noqa: PLC0415 - XML, for those who ask for it

    suite, tally = Suite(), Tally()
    for report in _counted(reports, progress, tally):
        suite.add(report)
    out(suite.text())
    return tally.exit_code


def _print_text(
    reports: Iterable[Report], progress: Progress, name_width: int, *, verbose: bool
) -> int:
    """What failed, as soon as it has; then a count."""
    tally, virtual_ns, start_s = Tally(), 0, time.perf_counter()
    for report in _counted(reports, progress, tally):
        virtual_ns += report.elapsed_ns
        if report.exit_code or verbose:
            progress.clear()
            out_lines(report.lines(name_width))
    took_s = time.perf_counter() - start_s
    out(f"{tally} ({virtual_ns / 1e9:,.3f}s virtual)")
    speed = tally.words.total() / took_s
    note(f"took {took_s:.2f}s: {speed:,.0f} scenarios/s, two runs each")
    return tally.exit_code

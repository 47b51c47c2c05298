"""`simloop check`: verify the expectations and the determinism of scenarios."""

import sys
from typing import Any

import click

from simloop.check.trial import verify
from simloop.cli import options
from simloop.cli.compare import Row, reasons
from simloop.cli.report import Report, Tally, made, print_json
from simloop.cli.terminal import StatusLine, cells, out, out_lines, plain
from simloop.runs.options import RunOptions


class CheckedScenario(Report):
    """A report on a scenario that was run twice."""

    def json_format(self) -> dict[str, Any]:
        document = Report.json_format(self)
        loop = self.loop or document["loop"]  # also if nothing was run
        return {**document, "loop": loop, "deterministic": self.verdict.deterministic}


@click.command("check")
@options.scenario_settings
@options.invariants_of_ones_own
@click.option("-v", "--verbose", is_flag=True, help="List the scenarios that pass, too.")
@options.formats
def command(
    *, targets: tuple[str, ...], given: RunOptions, verbose: bool, output_format: str
) -> int:
    """Run scenarios twice, check expectations and compare the runs.

    A PATH is a scenario file, or a folder with *.simloop.yaml files in it or below it. A NAME is
    that of a bundled scenario (see: simloop list), `theme/`, or `all`. The command prints the
    scenarios that fail; the exit code is the worst of all. A scenario that the loop of `--loop`
    cannot express is no failure; the reason is printed before the count. Each run is also judged by
    the invariants that `simloop invariants` lists. All times on stdout are virtual, so equal
    scenarios give equal bytes. For a JUnit file, let pytest run the scenarios, with --junit-xml.
    """
    found = list(options.targets_of(targets))
    with StatusLine(sys.stderr) as status:
        reports = made((_checked(one, given) for one in status.through(found)), given["loop"])
        if output_format == "json":
            return print_json(reports)
        width = max(cells(plain(target.name)) for target in found)
        count, virtual_ns = Tally(), 0
        cannot: list[Row] = []
        for report in reports:
            count.add(report.exit_code, cannot=bool(report.cannot))
            virtual_ns += report.elapsed_ns
            if report.cannot:
                cannot.append(Row.of(report.loop, report.verdict))
            if report.exit_code or verbose:
                out_lines(report.lines(width))
            report.explain()
        out_lines(reasons(cannot))
        out(f"{count} ({virtual_ns / 1e9:,.3f}s virtual)")
        return count.exit_code


def _checked(target: options.Target, given: RunOptions) -> CheckedScenario:
    report = CheckedScenario.on(target)
    if report.path is not None:
        report.verdict = verify(report.path, **given)
    report.loop = str(given["loop"] or "")
    return report

"""`simloop run`: run scenarios and say whether they end as expected."""

import contextlib
from pathlib import Path

import click

from simloop.check.trial import Until, verify
from simloop.cli.options import Target, formats, scenario_settings, targets_of
from simloop.cli.report import Report, made, print_each, print_json
from simloop.cli.terminal import cells, note, out_lines, plain
from simloop.errors import ScenarioError
from simloop.runs.options import RunOptions
from simloop.runs.result import last_raised
from simloop.runs.run import Simulation
from simloop.trace.codec import write_trace
from simloop.trace.timeline import timeline


@click.command("run")
@scenario_settings
@click.option(
    "--trace",
    "trace_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the trace to FILE, even if the run fails. Requires a single scenario.",
)
@formats
def command(
    *, targets: tuple[str, ...], given: RunOptions, trace_file: Path | None, output_format: str
) -> int:
    """Run scenarios and check their expectations.

    A PATH is a scenario file, or a folder with *.simloop.yaml files in it or below it. A NAME is
    that of a bundled scenario (see: simloop list), `theme/`, or `all`. A single scenario is shown
    with its timeline, several with one verdict each and a count. The exit code is the
    worst of all.
    """
    loop = given["loop"]
    found = list(targets_of(targets))
    if trace_file is not None:
        if len(found) != 1:
            raise click.UsageError(f"--trace needs a single scenario, and these are {len(found)}")
        with contextlib.suppress(OSError):  # one of them is not there, so they are not the same
            if isinstance(found[0].file, Path) and trace_file.samefile(found[0].file):
                raise click.UsageError("--trace would overwrite the scenario")
    reports = made((_play(target, given, trace_file) for target in found), loop)
    if output_format == "json":
        return print_json(reports)
    if len(found) == 1:
        return _print_one(next(reports))
    return print_each(reports, max(cells(plain(target.name)) for target in found))


def _play(target: Target, given: RunOptions, trace_file: Path | None) -> Report:
    report = Report.on(target)
    if report.path is not None:
        begun: list[Simulation] = []
        try:
            report.verdict = verify(report.path, Until.END, begun.append, **given)
        finally:  # after any ending, even Ctrl-C
            if trace_file is not None and begun:
                try:
                    write_trace(begun[0].trace, trace_file)
                except ScenarioError as error:
                    report.verdict.errors.append(error)
    return report


def _print_one(report: Report) -> int:
    if report.verdict.trace is not None:
        out_lines(timeline(report.verdict.trace))
        out_lines(("", *report.lines()))
    report.explain()
    if report.exit_code:
        for line in last_raised(report.verdict.raised):
            note(line)
    return report.exit_code

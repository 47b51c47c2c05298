"""`simloop run`: play scenarios and say whether they end as they should.

Not here: which files are meant (targets.py) and how a verdict reads (report.py). The rule to keep:
one bad scenario never keeps the others from running, and nothing of its trace is lost.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from simloop.cli.faults import explain
from simloop.cli.report import FORMAT_VERSION, Report, count
from simloop.cli.targets import Target, targets_of
from simloop.cli.terminal import out, out_lines, plain
from simloop.errors import ScenarioError, SimloopError
from simloop.kernel.limits import Limits
from simloop.scenario.loader import load_scenario
from simloop.scenario.simulation import Simulation
from simloop.scenario.world import machine_for
from simloop.trace.codec import write_trace
from simloop.trace.timeline import timeline

_SEEDS = click.IntRange(0, 2**63, max_open=True)


@click.command("run")
@click.argument("targets", metavar="PATH|NAME...", nargs=-1, required=True)
@click.option("--seed", type=_SEEDS, help="Replace the seed of the scenario.")
@click.option("--loop", metavar="NAME", help="Replace the loop design of the scenario.")
@click.option(
    "--trace",
    "trace_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the trace there, also if the run fails. Needs a single scenario.",
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print on stdout.",
)
def command(
    targets: tuple[str, ...],
    seed: int | None,
    loop: str | None,
    trace_file: Path | None,
    output_format: str,
) -> int:
    """Run scenarios and judge what they expect.

    A PATH is a scenario file, or a folder with *.simloop.yaml files in it or below it. A NAME is
    that of a bundled scenario (see: simloop list). A single scenario is shown with its timeline,
    several with one verdict each and a count. The exit code is the worst of all.
    """
    if loop is not None:
        machine_for(loop, Limits())  # an unknown name is one error, not one for each scenario
    found = list(targets_of(targets))
    if trace_file is not None:
        _check_trace_file(trace_file, found)
    reports = (_play(target, seed, loop, trace_file) for target in found)
    if output_format == "json":
        return _print_json(reports)
    if len(found) == 1:
        return _print_one(next(reports))
    return _print_all(reports, max(len(plain(target.name)) for target in found))


def _check_trace_file(trace_file: Path, found: list[Target]) -> None:
    if len(found) != 1:
        message = f"--trace needs a single scenario, and these are {len(found)}"
        raise click.UsageError(message)
    scenario_file = found[0].file
    with contextlib.suppress(OSError):  # one of them is not there, so they are not the same
        if isinstance(scenario_file, Path) and trace_file.samefile(scenario_file):
            raise click.UsageError("--trace would overwrite the scenario")


def _play(target: Target, seed: int | None, loop: str | None, trace_file: Path | None) -> Report:
    """Read and run a scenario; whatever becomes of it stands in the report."""
    if isinstance(target.file, ScenarioError):
        return Report(target.name, errors=[target.file])
    report = Report(target.name, target.file)
    try:
        report.scenario = load_scenario(target.file)
        simulation = Simulation(report.scenario, seed=seed, loop=loop)
        report.trace = simulation.trace
        try:
            report.result = simulation.run()
        finally:  # whatever ends it, Ctrl-C too
            if trace_file is not None:
                _write(report, trace_file)
    except SimloopError as error:
        if isinstance(error, ScenarioError) and error.path is None:
            error.path = target.file
        report.errors.append(error)
    return report


def _write(report: Report, trace_file: Path) -> None:
    assert report.trace is not None
    try:
        write_trace(report.trace, trace_file)
    except ScenarioError as error:
        report.errors.append(error)


def _print_json(reports: Iterator[Report]) -> int:
    """One object when all have ended; errors are also told on stderr, as they come."""
    runs, worst = [], 0
    for report in reports:
        runs.append(report.json_format())
        worst = max(worst, report.exit_code)
        _explain(report)
    # ASCII escapes, so that whatever a model says, a terminal shows text.
    out(json.dumps({"format_version": FORMAT_VERSION, "runs": runs}, indent=2))
    return worst


def _print_one(report: Report) -> int:
    """The timeline, then the verdict; only the error for what was not run."""
    if report.trace is not None:
        out_lines(timeline(report.trace))
        out_lines(("", *report.verdict()))
    _explain(report)
    return report.exit_code


def _print_all(reports: Iterator[Report], name_width: int) -> int:
    """A verdict as soon as each has ended, then a count."""
    words: Counter[str] = Counter()
    worst = 0
    for report in reports:
        words[report.word] += 1
        worst = max(worst, report.exit_code)
        out_lines(report.verdict(name_width))
        _explain(report)
    out(count(words))
    return worst


def _explain(report: Report) -> None:
    for error in report.errors:
        explain(error)

"""`simloop run`: play scenarios and say whether they end as they should.

Not here: which files are meant (targets.py) and how a verdict reads (report.py). The rule to keep:
one bad scenario never keeps the others from running, and nothing of its trace is lost.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import click

from simloop.cli.faults import explain
from simloop.cli.report import FORMAT_VERSION, Report, count
from simloop.cli.targets import files_for, name_of
from simloop.cli.terminal import out, out_lines
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
    found = list(_found(targets))
    if trace_file is not None:
        _check_trace_file(trace_file, found)
    played = (_play(report, seed, loop, trace_file) for report in found)
    if output_format == "json":
        return _print_json(played)
    return _print_text(played, found)


def _found(targets: tuple[str, ...]) -> Iterator[Report]:
    """A report for each scenario, once, and for each argument that means none."""
    seen: set[Path] = set()
    for target in targets:
        try:
            files = files_for(target)
        except ScenarioError as error:
            yield Report(target, errors=[error])
            continue
        for path in files:
            if path not in seen:
                seen.add(path)
                yield Report(name_of(path), path)


def _check_trace_file(trace_file: Path, found: list[Report]) -> None:
    if len(found) != 1:
        message = f"--trace needs a single scenario, and these are {len(found)}"
        raise click.UsageError(message)
    path = found[0].path
    if path is not None and trace_file.exists() and path.exists() and trace_file.samefile(path):
        raise click.UsageError("--trace would overwrite the scenario")


def _play(report: Report, seed: int | None, loop: str | None, trace_file: Path | None) -> Report:
    """Read and run the scenario of `report`, and note there what became of it."""
    if report.path is None:
        return report
    try:
        report.scenario = load_scenario(report.path)
        simulation = Simulation(report.scenario, seed=seed, loop=loop)
        report.trace = simulation.trace
        try:
            report.result = simulation.run()
        finally:  # whatever ends it, Ctrl-C too
            if trace_file is not None:
                _write(report, trace_file)
    except SimloopError as error:
        if isinstance(error, ScenarioError) and error.path is None:
            error.path = report.path
        report.errors.append(error)
    return report


def _write(report: Report, trace_file: Path) -> None:
    assert report.trace is not None
    try:
        write_trace(report.trace, trace_file)
    except ScenarioError as error:
        report.errors.append(error)


def _print_json(played: Iterator[Report]) -> int:
    """One object when all have ended; errors are also told on stderr, as they come."""
    reports = []
    for report in played:
        reports.append(report)
        _explain(report)
    runs = [report.json_format() for report in reports]
    # ASCII escapes, so that whatever a model says, a terminal shows text.
    out(json.dumps({"format_version": FORMAT_VERSION, "runs": runs}, indent=2))
    return max(report.exit_code for report in reports)


def _print_text(played: Iterator[Report], found: list[Report]) -> int:
    """A single scenario with its timeline; of several one verdict each, and a count."""
    if len(found) == 1:
        report = next(played)
        if report.trace is not None:
            out_lines(timeline(report.trace))
            out_lines(("", *report.verdict()))
        _explain(report)
        return report.exit_code
    width = max(len(report.name) for report in found)
    for report in played:
        out_lines(report.verdict(width))
        _explain(report)
    out(count(found))
    return max(report.exit_code for report in found)


def _explain(report: Report) -> None:
    for error in report.errors:
        explain(error)

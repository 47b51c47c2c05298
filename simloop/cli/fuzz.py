"""`simloop fuzz`: search generated worlds for failures of a loop.

Not here: the search (fuzz/search.py) and its report (fuzz_report.py). The rule to keep: with
`--runs` and `--seed` the report is equal on every machine, except for its times; and after Ctrl-C
the command prints the report so far.
"""

import shlex
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import click

from simloop.cli.completion import loop_names, scenarios_and_files
from simloop.cli.fuzz_jobs import Jobs, search_in_chunks
from simloop.cli.fuzz_report import progress_line, report_json, report_lines
from simloop.cli.options import check_loop_exists
from simloop.cli.progress import StatusLine
from simloop.cli.scenario_arguments import targets_of
from simloop.cli.terminal import note, out, out_exactly, out_lines, plain
from simloop.errors import ScenarioError
from simloop.fuzz.campaign import CampaignSettings
from simloop.fuzz.difference import SENTENCES as DIFFERENCES
from simloop.fuzz.failures import FoundFailure
from simloop.fuzz.play import Failure
from simloop.fuzz.search import FuzzReport, Search
from simloop.fuzz.shrink import smallest
from simloop.fuzz.swarm import Arm
from simloop.fuzz.twin import Twin
from simloop.scenario.catalog import SUFFIX
from simloop.scenario.files import create_schema
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import scenario_text
from simloop.trace.storage import create_folder, write_file

_SECONDS = 30.0
_BETWEEN = 100
"""The runs between two updates of the status line."""


def _shard(_: click.Context, __: click.Parameter, given: str) -> tuple[int, int]:
    """Return the index of this machine's share, from 0, and the number of shares."""
    number, slash, count = given.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise click.BadParameter(f"{plain(given)} is not a share: write 1/2 for the first of two")
    return int(number) - 1, int(count)


@click.command("fuzz")
@click.option(
    "--loop",
    default="reference",
    show_default=True,
    metavar="NAME",
    shell_complete=loop_names,
    help="The loop to test: a design, a version of one, or module:attribute for your own.",
)
@click.option(
    "--against",
    metavar="NAME",
    shell_complete=loop_names,
    help="Another loop; report each world in which the two differ (requests, tools, ends, times).",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help=f"Search for this many seconds; by default {_SECONDS:.0f}.",
)
@click.option(
    "--runs", type=click.IntRange(1), help="Make this many runs, instead of searching for a time."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63, max_open=True), default=0, show_default=True,
    help="The seed of the search.",
)  # fmt: skip
@click.option(
    "--arm",
    type=click.Choice([str(arm) for arm in Arm]),
    default=str(Arm.STEERED),
    show_default=True,
    help="The search method; each one adds to the one before it.",
)
@click.option(
    "--from",
    "sources",
    multiple=True,
    metavar="PATH|NAME",
    shell_complete=scenarios_and_files,
    help="Also search variations of this scenario (default: all bundled ones); may be repeated.",
)
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Shrink each failure, and write it to FOLDER as a scenario file.",
)
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True,
    help="The number of processes that search.",
)  # fmt: skip
@click.option(
    "--dask", default="", metavar="ADDRESS",
    help="Search on the Dask cluster whose scheduler is at ADDRESS; needs the extra `dask`.",
)  # fmt: skip
@click.option(
    "--campaign",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Store the results in FILE. The command resumes the search if FILE exists.",
)
@click.option(
    "--shard", default="1/1", metavar="K/N", callback=_shard,
    help="Search share K of N, if N machines search for one campaign.",
)  # fmt: skip
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
    loop: str,
    against: str | None,
    seconds: float | None,
    runs: int | None,
    seed: int,
    arm: str,
    sources: tuple[str, ...],
    folder: Path | None,
    jobs: int,
    dask: str,
    file: Path | None,
    shard: tuple[int, int],
    output_format: str,
) -> int:
    """Search generated worlds for failures of a loop.

    A run fails if it violates an invariant (see `simloop invariants`), raises an error, or does not
    end although the model answers every request without a fault. With --against, a world in which
    the two loops differ is a failure too. The exit code is 1 if a failure was found.
    """
    check_loop_exists(loop)
    if against is not None:
        check_loop_exists(against)
    if seconds is None and runs is None:
        seconds = _SECONDS
    if folder is not None:
        create_folder(folder)
    scenarios = _read(sources) if sources else None
    many = Jobs(jobs, dask, file, *shard)
    if many.are_asked_for:
        corpus = tuple(scenario_text(scenario) for scenario in scenarios or ())
        settings = CampaignSettings(loop, seed, arm, against=against or "", corpus=corpus)
        report = search_in_chunks(settings, many, runs, seconds)
    else:
        search = Search(loop, seed=seed, arm=arm, against=against, scenarios=scenarios)
        search.twin = Twin(loop)
        _search(search, runs, seconds, as_text=output_format == "text")
        report = search.report()
    written = {} if folder is None else dict(_write(report, folder, against))
    if output_format == "json":
        out_exactly(report_json(report, written))
    else:
        out_lines(report_lines(report, written))
    return 1 if report.failures else 0


def _read(sources: tuple[str, ...]) -> list[Scenario]:
    """Return the scenarios that PATH|NAME select. Raises ScenarioError."""
    found = []
    for target in targets_of(sources):
        if isinstance(target.file, ScenarioError):
            raise target.file
        found.append(load_scenario(target.file))
    return found


def _search(search: Search, runs: int | None, seconds: float | None, *, as_text: bool) -> None:
    """Search to the end, or to Ctrl-C; print each failure when it is found."""
    try:
        with StatusLine(sys.stderr) as status:
            for found in chain(search.steps(runs=runs, seconds=seconds), search.finish()):
                if search.runs % _BETWEEN == 0:
                    status.say(progress_line(search.report()))
                if found is not None and as_text:
                    status.clear()
                    out(f"FAILED {found.name} in run {found.run}: {plain(found.failure.text)}")
    except KeyboardInterrupt:
        note("interrupted: the report covers the runs so far")


def _write(report: FuzzReport, folder: Path, against: str | None) -> Iterator[tuple[int, str]]:
    """Shrink and write each failure; yield its number and its file name.

    Failures that shrink to equal scenarios share one file.
    """
    files: dict[str, Path] = {}
    with StatusLine(sys.stderr) as status:
        for number, found in enumerate(report.failures):
            status.say(f"shrinks failure {number + 1} of {len(report.failures)}")
            scenario, failure = smallest(found, {"loop": report.loop}, against)
            try:
                text = scenario_text(scenario)
            except ScenarioError as error:
                status.clear()
                note(f"cannot write the scenario of {found.name}: {error}")
                continue
            if text not in files:
                files[text] = path = _free(folder, failure.name, files.values())
                comment = _comment(report, found, failure, path, against)
                write_file(path, scenario_text(scenario, comment).encode())
            yield number, str(files[text])
    if files:
        create_schema(folder)


def _free(folder: Path, name: str, taken: Iterable[Path]) -> Path:
    """Return a path that no other failure uses."""
    path, number = folder / f"{name.lower()}{SUFFIX}", 1
    while path in taken:
        number += 1
        path = folder / f"{name.lower()}-{number}{SUFFIX}"
    return path


def _comment(
    report: FuzzReport, found: FoundFailure, failure: Failure, path: Path, against: str | None
) -> str:
    loop = shlex.quote(report.loop)
    seed = report.seed if found.seed is None else found.seed
    other = f" --against {shlex.quote(against)}" if against is not None else ""
    command = f"simloop fuzz --loop {loop}{other} --seed {seed} --runs {found.run}"
    if failure.name in DIFFERENCES:
        again = f"reproduce: simloop shrink {shlex.quote(str(path))}{other}"
    else:
        again = f"pytest: def test_it(simloop_run): simloop_run({path.name!r})"
    return f"{failure.name}: {failure.sentence}\n{failure.text}\nfound by: {command}\n{again}"

"""`simloop record`: write the traces of scenarios to files, for later comparison.

Only a run that came to an end is recorded, so that a broken scenario never replaces a good trace.
No two scenarios of one command share a file.
"""

from pathlib import Path, PurePath

import click

from simloop.check.trial import Until, verify
from simloop.cli.options import Target, scenario_settings, targets_of
from simloop.cli.report import Report, print_each
from simloop.cli.terminal import cells, note, plain
from simloop.errors import ScenarioError
from simloop.runs.options import RunOptions
from simloop.scenario.catalog import SUFFIX, find_folder
from simloop.trace.codec import write_trace
from simloop.trace.storage import create_folder

TRACE_SUFFIX = ".trace.jsonl"


@click.command("record")
@scenario_settings
@click.option(
    "--to",
    "folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write to FOLDER, not beside the scenarios. The command creates the folder if needed.",
)
def command(*, targets: tuple[str, ...], given: RunOptions, folder: Path | None) -> int:
    """Write the traces of scenarios to files.

    The trace of x.simloop.yaml is x.trace.jsonl beside it. The trace of a bundled NAME is written
    to the current folder. FOLDER gets the subfolders of each PATH that is a folder. The command
    replaces an old trace, even if an expectation fails (exit code 1). A run without an outcome is
    not recorded. `simloop replay` runs a recorded trace again.
    """
    found = [(target, _trace_file(target, folder)) for target in targets_of(targets)]
    width = max(cells(plain(str(file or target.name))) for target, file in found)
    written: dict[Path, str] = {}
    reports = (_recorded(target, file, given, written) for target, file in found)
    return print_each(reports, width, counted=len(found) > 1)


def _trace_file(target: Target, folder: Path | None) -> Path | None:
    """Return the file for the trace of a target; None if the target is no scenario."""
    if isinstance(target.file, ScenarioError):
        return None
    name = target.file.name
    stem = name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else target.file.stem
    argument = PurePath(target.argument)
    if not target.file.is_relative_to(argument):  # the name of a bundled scenario, or of several
        theme = target.file.relative_to(find_folder(target.argument) or target.file.parent).parent
        return (folder or Path()) / theme / f"{stem}{TRACE_SUFFIX}"
    beside = target.file.parent
    if folder is not None:
        beside = folder / target.file.relative_to(argument).parent
    return beside / f"{stem}{TRACE_SUFFIX}"


def _recorded(
    target: Target, file: Path | None, given: RunOptions, written: dict[Path, str]
) -> Report:
    """Run a scenario and write the trace; the report then has the name of its file."""
    report = Report.on(target)
    if report.path is not None and file is not None:
        report.verdict = verify(report.path, Until.END, **given)
        _write(report, file, written)
    return report


def _write(report: Report, file: Path, written: dict[Path, str]) -> None:
    verdict = report.verdict
    if verdict.trace is None:
        return
    if verdict.trace.footer is None:
        keep = "keep what there is of it with: simloop run PATH --trace FILE"
        note(f"{plain(report.name)}: not recorded, because the run has no outcome ({keep})")
        return
    try:
        _check_free(file, report.path, written)
        create_folder(file.parent)
        write_trace(verdict.trace, file)
    except ScenarioError as error:
        verdict.errors.append(error)
    else:
        written[file] = report.name
        report.name = str(file)


def _check_free(file: Path, scenario: Path | None, written: dict[Path, str]) -> None:
    """Raise ScenarioError if the trace would overwrite another one of this command, or a scenario.

    A link with the name of a trace may lead to the scenario.
    """
    if file in written:
        hint = "record them one after the other, with another --to"
        raise ScenarioError(f"{written[file]} is recorded there", path=file, hint=hint)
    if scenario is not None and file.exists() and file.samefile(scenario):
        hint = "remove the link, or write elsewhere with --to"
        raise ScenarioError("this is a link to the scenario", path=file, hint=hint)

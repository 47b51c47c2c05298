"""`simloop export`: write a run for other programs, first of all as a page for a browser.

Not here: the formats (simloop.page, trace/exports). The rule to keep: everything that can be wrong
with the call is found before anything is written, and no trace is overwritten.
"""

from pathlib import Path
from typing import Any

import click

from simloop.cli.completion import scenarios_and_files
from simloop.cli.options import run_settings
from simloop.cli.terminal import note, out, out_exactly, plain
from simloop.cursor.opening import is_trace, opened
from simloop.cursor.recorded_run import RecordedRun
from simloop.page.page import page
from simloop.runs.options import RunOptions
from simloop.scenario.expectations import Expectations
from simloop.trace.storage import write_file

_STDOUT = "-"


@click.command("export")
@click.argument("source", metavar="TRACE|SCENARIO|NAME", shell_complete=scenarios_and_files)
@click.option(
    "--html",
    metavar="FILE",
    help="Write a page for a browser, in one file that loads nothing: the timeline, and the facts "
    "at each entry.",
)
@run_settings
def command(
    *,
    source: str,
    html: str | None,
    seed: int | None,
    loop: str | None,
    judge_as: str,
    loop_options: dict[str, Any],
    expect_on: Expectations | None,
) -> None:
    """Write a run as a page for a browser.

    FILE is a file, or - for stdout. TRACE is a file that `simloop record` or `simloop run --trace`
    has written. A SCENARIO, or a bundled scenario by its NAME, is run first, and written however
    the run ends. The exit code is 0 if everything is written. `--loop` names a loop that does not
    come with simloop, whose limits and map the facts of a trace then include.
    """
    if html is None:
        raise click.UsageError("name a format: --html FILE")
    for file in (html,):
        _check_file(file, source)
    if seed is not None and is_trace(source):
        raise click.UsageError("--seed is for a scenario; a trace has the seed of its run")
    given: RunOptions = {
        "seed": seed, "loop": loop, "judge_as": judge_as, "loop_options": loop_options,
        "expect_on": expect_on,
    }  # fmt: skip
    recording = opened(source, **given)
    _write(html, page(recording, Path(source).name))
    _note_gaps_of_knowledge(recording, source)


def _check_file(file: str, source: str) -> None:
    """Raise UsageError if the file is the source, or a trace that would be lost."""
    path = Path(file)
    if file == _STDOUT or not path.is_file():
        return
    if is_trace(file) or (Path(source).exists() and path.samefile(source)):
        raise click.UsageError(f"{plain(file)} is a trace or the source: name another file")


def _write(file: str, text: str) -> None:
    if file == _STDOUT:
        out_exactly(text)
        return
    write_file(Path(file), text.encode())
    out(plain(f"written to {file}"))


def _note_gaps_of_knowledge(recording: RecordedRun, source: str) -> None:
    """Print what the recording lacks, which the output lacks too."""
    if recording.trace.truncated:
        note(plain(f"{source}: the trace is truncated: {recording.trace.truncated}"))

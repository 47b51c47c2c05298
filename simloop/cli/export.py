"""`simloop export`: write a run as a page for a browser, or as OpenTelemetry spans.

Everything that can be wrong with the call is found before anything is written. No trace is
overwritten.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import click

from simloop.cli.options import run_settings, scenarios_and_files
from simloop.cli.terminal import json_text, note, out_exactly, plain
from simloop.cursor.opening import is_trace, opened_run
from simloop.cursor.recorded_run import RecordedRun
from simloop.page.page import page
from simloop.runs.options import RunOptions
from simloop.trace.otel import otel as spans
from simloop.trace.storage import write_file

_STDOUT = "-"
_Format = Callable[[RecordedRun], str]


@click.command("export")
@click.argument("source", metavar="TRACE|SCENARIO|NAME", shell_complete=scenarios_and_files)
@click.option(
    "--html",
    metavar="FILE",
    help="Write a page for a browser, in one file that loads nothing: the timeline, and the facts "
    "at each entry.",
)
@click.option(
    "--otel",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_STDOUT,
    help="Write OpenTelemetry spans with GenAI attributes, as OTLP in JSON.",
)
@run_settings
def command(*, source: str, html: str | None, otel: str | None, given: RunOptions) -> None:
    """Write a run as a page for a browser, or as spans.

    FILE is a file, or - for stdout, which is meant where it is left out. TRACE is a file that
    `simloop record` or `simloop run --trace` has written; write it before the options. A SCENARIO,
    or a bundled scenario by its NAME, is run first, and written however the run ends. The exit code
    is 0 if everything is written. `--loop` names a loop that does not come with simloop, whose
    limits and map the facts of a trace then include.
    """
    formats = _formats(source, ((html, _page_of(source)), (otel, _otel)))
    if given["seed"] is not None and is_trace(source):
        raise click.UsageError("--seed is for a scenario; a trace has the seed of its run")
    recording = opened_run(source, **given)
    for file, as_text in formats.items():
        _write(file, as_text(recording))
    if recording.trace.no_end:
        note(plain(f"{source}: {recording.trace.no_end}"))


def _formats(source: str, chosen: Iterable[tuple[str | None, _Format]]) -> Mapping[str, _Format]:
    """Return the format of each file. Raises UsageError for none, and for a file that is in use."""
    formats: dict[str, _Format] = {}
    for file, as_text in chosen:
        if file in formats:
            raise click.UsageError(f"two formats cannot share {_named(file)}: name another file")
        if file is not None:
            _check_file(file, source)
            formats[file] = as_text
    if not formats:
        raise click.UsageError("name a format: --html FILE or --otel [FILE]")
    return formats


def _page_of(source: str) -> _Format:
    return lambda recording: page(recording, Path(source).name)


def _otel(recording: RecordedRun) -> str:
    return json_text(spans(recording.trace), indent=2) + "\n"


def _named(file: str) -> str:
    return "stdout" if file == _STDOUT else plain(file)


def _check_file(file: str, source: str) -> None:
    """Raise UsageError if the file is the source, or a trace that would be lost."""
    path = Path(file)
    if file == _STDOUT or not path.is_file():
        return
    if is_trace(file) or (Path(source).exists() and path.samefile(source)):
        raise click.UsageError(f"{plain(file)} is a trace or the source: name another file")


def _write(file: str, text: str) -> None:
    if file == _STDOUT:
        out_exactly(text.removesuffix("\n"))
        return
    write_file(Path(file), text.encode())
    note(plain(f"written to {file}"))

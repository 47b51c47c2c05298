"""The verbs around traces: `record`, `replay`, `diff`, `show` and `export`."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

import click

from simloop.check.replay import as_far_as, different_settings, rerun
from simloop.check.trial import Until, verify
from simloop.cli import options
from simloop.cli.report import Report, Tally, indented, print_each, verdict_line, word_for
from simloop.cli.terminal import cells, explain, json_text, note, out, out_lines, plain
from simloop.cursor.keys import FactView
from simloop.cursor.position import Position, place_of
from simloop.cursor.recorded_run import RecordedRun, is_trace, opened_run
from simloop.cursor.views import view
from simloop.errors import CheckFailed, ScenarioError, SimloopError
from simloop.page.page import page
from simloop.recordings.cassettes import cassette
from simloop.recordings.exports import trajectory
from simloop.runs.options import RunOptions
from simloop.scenario.catalog import SUFFIX, find_folder
from simloop.scenario.writing import scenario_text
from simloop.trace.codec import read_trace, write_trace
from simloop.trace.diff import first_difference
from simloop.trace.otel import otel as spans
from simloop.trace.storage import create_folder, write_file
from simloop.trace.timeline import timeline

TRACE_SUFFIX = ".trace.jsonl"
_STDOUT = "-"


@click.command("record")
@options.scenario_settings
@click.option("--to", "folder", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False),
              help="Write to FOLDER, not beside the scenarios. The command creates the folder if "
              "needed.")  # fmt: skip
@click.option("--live", is_flag=True,
              help="Let an agent of your own ask its real provider once, and write what comes into "
              "the scenario, which has a prompt and no script. Needs --loop, the network, and your "
              "keys.")  # fmt: skip
@click.option("--services", is_flag=True, help="With --live, let its other requests out too.")
def record(
    *, targets: tuple[str, ...], given: RunOptions, folder: Path | None, live: bool, services: bool
) -> int:
    """Write the traces of scenarios to files.

    The trace of x.simloop.yaml is x.trace.jsonl beside it. The trace of a bundled NAME is written
    to the current folder. FOLDER gets the subfolders of each PATH that is a folder. The command
    replaces an old trace, even if an expectation fails (exit code 1). A run without an outcome is
    not recorded. `simloop replay` runs a recorded trace again.
    """
    if live:
        from simloop.recordings.live import record_live  # noqa: PLC0415 - few commands need it

        chosen = list(options.targets_of(targets))
        if len(chosen) != 1 or not given.get("loop"):
            raise click.UsageError("--live records one scenario, and needs --loop module:attribute")
        scenario, path = chosen[0].scenario(), Path(str(chosen[0].file))
        recorded, comment, recording = record_live(scenario, path.name, given, services=services)
        write_file(path, scenario_text(recorded, comment).encode())
        for told in recording.counted():
            note(plain(told))
        out(plain(f"{path}: {len(recorded.model)} replies; run it with: simloop run {path}"))
        return 0
    found = [(target, _trace_file(target, folder)) for target in options.targets_of(targets)]
    width = max(cells(plain(str(file or target.name))) for target, file in found)
    written: dict[Path, str] = {}
    reports = (_recorded(target, file, given, written) for target, file in found)
    return print_each(reports, width, counted=len(found) > 1)


def _trace_file(target: options.Target, folder: Path | None) -> Path | None:
    if isinstance(target.file, ScenarioError):
        return None
    name = target.file.name
    stem = name.removesuffix(SUFFIX) if name.endswith(SUFFIX) else target.file.stem
    argument = PurePath(target.argument)
    if not target.file.is_relative_to(argument):  # the name of a bundled scenario, or of several
        theme = target.file.relative_to(find_folder(target.argument) or target.file.parent).parent
        return (folder or Path()) / theme / f"{stem}{TRACE_SUFFIX}"
    inside = target.file.relative_to(argument).parent
    return (target.file.parent if folder is None else folder / inside) / f"{stem}{TRACE_SUFFIX}"


def _recorded(
    target: options.Target, file: Path | None, given: RunOptions, written: dict[Path, str]
) -> Report:
    report = Report.on(target)
    if report.path is None or file is None:
        return report
    verdict = report.verdict = verify(report.path, Until.END, **given)
    if verdict.trace is None:
        return report
    if verdict.trace.footer is None:
        keep = "keep what there is of it with: simloop run PATH --trace FILE"
        note(f"{plain(report.name)}: not recorded, because the run has no outcome ({keep})")
    elif file in written:
        hint = "record them one after the other, with another --to"
        wrong = ScenarioError(f"{written[file]} is recorded there", path=file, hint=hint)
        verdict.errors.append(wrong)
    else:
        try:
            create_folder(file.parent)
            write_trace(verdict.trace, file)
            written[file], report.name = report.name, str(file)
        except ScenarioError as error:
            verdict.errors.append(error)
    return report


@click.command("replay")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True,
                type=click.Path(path_type=Path))  # fmt: skip
@options.replay_loop
def replay(traces: tuple[Path, ...], loop: str | None) -> int:
    """Run recorded traces again and show the first difference.

    A TRACE is a file that `simloop record` or `simloop run --trace` has written. It holds
    everything that its run needs, except a loop of your own, which --loop names. The command shows
    the first entry that differs, after the three entries before it; the exit code is then 1. A
    truncated trace is compared up to its end.
    """
    tally, width = Tally(), max(cells(plain(str(path))) for path in traces)
    for path in traces:
        tally.add(_replay(path, loop, width))
    if len(traces) > 1:
        out(str(tally))
    return tally.exit_code


def _replay(path: Path, loop: str | None, width: int) -> int:
    try:
        recorded = read_trace(path)
        again = rerun(recorded, loop)
    except SimloopError as error:
        if isinstance(error, ScenarioError):
            error.path = error.path or path
        out(verdict_line(word_for(error.exit_code), str(path), "not replayed", width))
        return explain(error)
    difference = first_difference(recorded, again)
    exit_code = CheckFailed.exit_code if difference else 0
    ended = "diverged" if difference else f"identical, {len(recorded.entries)} entries"
    out(verdict_line(word_for(exit_code), str(path), ended, width))
    if difference is not None:
        out_lines(indented(difference.lines("recorded", "replayed")))
        out_lines(indented(iter([f"see it: simloop show {shlex.quote(str(path))}"])))
    if recorded.no_end:
        note(plain(f"{path}: {recorded.no_end}"))
    for name, one, other in different_settings(recorded.header, again.header):
        note(plain(f"{path}: {name} differs: recorded {one}, replayed {other}"))
    return exit_code


@click.command("diff")
@click.argument("one", metavar="A", type=click.Path(path_type=Path))
@click.argument("other", metavar="B", type=click.Path(path_type=Path))
def diff(one: Path, other: Path) -> int:
    """Show where two recorded traces first differ.

    The runs are compared entry by entry. A scenario, loop, seed or limit that differs is printed to
    stderr and is no difference by itself. The exit code is 1 if the runs differ. A truncated
    trace is compared up to its end.
    """
    first, second = read_trace(one), read_trace(other)
    for name, a, b in different_settings(first.header, second.header):
        note(plain(f"{name} differs: {a} and {b}"))
    for path, trace in ((one, first), (other, second)):
        if trace.no_end:
            note(plain(f"{path}: {trace.no_end}"))
    first, second = as_far_as(second, first), as_far_as(first, second)
    if (found := first_difference(first, second)) is None:
        out(f"the runs are the same, {len(first.entries)} entries")
        return 0
    out_lines(plain(line) for line in found.lines(str(one), str(other)))
    return CheckFailed.exit_code


@click.command("show")
@click.option("--at", metavar="N|TIME",
              help="Show the facts at entry number N, or at a virtual time such as 5.2s. The "
              "default is the last entry.")  # fmt: skip
@click.option("--view", "views", type=click.Choice([str(each) for each in FactView]), multiple=True,
              help="Show this view of the facts; may be repeated. The default with --at is all of "
              "them.")  # fmt: skip
@options.replay_loop
@click.argument("trace", type=click.Path(path_type=Path))
def show(trace: Path, at: str | None, views: tuple[str, ...], loop: str | None) -> None:
    """Show a recorded trace as a timeline, or the facts at an entry.

    TRACE is a file that `simloop record` or `simloop run --trace` has written. A truncated trace
    is shown up to its end, and a run that is wrong with its findings. `--loop` names a loop that
    does not come with simloop, whose limits and map the facts then include. An agent is run again
    for that, and the facts then include its timeouts, and the tasks that wait.
    """
    recorded = read_trace(trace)
    recording = RecordedRun.of_trace(recorded, loop)
    wrong = [line for found in recording.findings for line in found.sentence(-1).splitlines()]
    if at is None and not views:
        out_lines(timeline(recorded, wrong))
    else:
        position = Position(recording, place_of(recorded, at))
        if wrong:
            out_lines((*(f"FAILED: {plain(line)}" for line in wrong), ""))
        for name in views or FactView:
            out_lines((f"{name}:", *(f"  {each}" for each in view(FactView(name), position)), ""))
    if recorded.no_end:
        note(plain(f"{trace}: {recorded.no_end}"))


@click.command("export")
@click.argument("source", metavar="TRACE|SCENARIO|NAME", shell_complete=options.scenarios_and_files)
@click.option("--html", metavar="FILE",
              help="Write a page for a browser, in one file that loads nothing: the timeline, and "
              "the facts at each entry.")  # fmt: skip
@click.option("--otel", metavar="[FILE]", is_flag=False, flag_value=_STDOUT,
              help="Write OpenTelemetry spans with GenAI attributes, as OTLP in JSON.")  # fmt: skip
@click.option("--atif", metavar="FILE", help="Write an ATIF trajectory.")
@click.option("--vcr", metavar="FILE", help="Write a VCR cassette: Chat Completions, and services.")
@options.run_settings
def export(*, source: str, given: RunOptions, **named: str | None) -> None:
    """Write a run as a page, as spans, or as a recording.

    FILE is a file, or - for stdout, which is meant where it is left out. TRACE is a file that
    `simloop record` or `simloop run --trace` has written; write it before the options. A SCENARIO,
    or a bundled scenario by its NAME, is run first, and written however the run ends. The exit code
    is 0 if everything is written. `--loop` names a loop that does not come with simloop, whose
    limits and map the facts of a trace then include.
    """
    if not (formats := [(file, name) for name in _EXPORTS if (file := named[name]) is not None]):
        raise click.UsageError("name a format: --html FILE, --otel [FILE], --atif FILE, --vcr FILE")
    if len(dict(formats)) < len(formats):
        raise click.UsageError("two formats cannot share a file: name another one")
    for file in [file for file, _ in formats if file != _STDOUT and Path(file).is_file()]:
        if is_trace(file) or (Path(source).exists() and Path(file).samefile(source)):
            raise click.UsageError(f"{plain(file)} is a trace or the source: name another file")
    if given["seed"] is not None and is_trace(source):
        raise click.UsageError("--seed is for a scenario; a trace has the seed of its run")
    recording = opened_run(source, **given)
    for file, name in formats:
        text = _EXPORTS[name](recording, Path(source).name)
        if file == _STDOUT:
            out(text.removesuffix("\n"))
        else:
            write_file(Path(file), text.encode())
            note(plain(f"written to {file}"))
    if recording.trace.no_end:
        note(plain(f"{source}: {recording.trace.no_end}"))


_EXPORTS: Mapping[str, Callable[[RecordedRun, str], str]] = {
    "html": page, "otel": lambda run, _: json_text(spans(run.trace), indent=2) + "\n",
    "atif": lambda run, _: trajectory(run.trace), "vcr": lambda run, _: cassette(run.trace),
}  # fmt: skip

"""`simloop import`: write recordings of other programs as scenarios."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from simloop.cli.terminal import StatusLine, note, out, out_lines, plain
from simloop.errors import ScenarioError, SimloopError
from simloop.recordings.formats import FORMATS, grouped, is_known, read_recording
from simloop.recordings.recording import ModelCall, Recording, ServiceCall
from simloop.recordings.scenarios import scenario_of
from simloop.scenario.catalog import SUFFIX
from simloop.scenario.writing import content, create, create_schema, pieces


@click.command("import")
@click.argument("files", metavar="FILE|FOLDER...", nargs=-1, required=True,
                type=click.Path(path_type=Path))  # fmt: skip
@click.option("--format", "format_name", type=click.Choice([each.name for each in FORMATS]),
              help="The format of the files. By default the content of each tells it.")  # fmt: skip
@click.option("-o", "--to", "target", metavar="FILE|FOLDER", type=click.Path(path_type=Path),
              help=f"Write to FILE, or each to NAME{SUFFIX} in FOLDER. "
              "The default is stdout, for one file.")  # fmt: skip
@click.option("--scrub", is_flag=True, help="Remove e-mail addresses too, as keys and tokens are.")
def command(
    *, files: tuple[Path, ...], format_name: str | None, target: Path | None, scrub: bool
) -> int:
    """Write recordings of other programs as scenarios.

    A FILE is a recording of an agent's traffic, or a session of it; of a folder, each file in it
    that is one. The files of a session's sub-agents are part of its scenario. The scenario has the
    replies of the model, the failed calls, the results of the tools and the answers of services,
    and expects the requests that were recorded. Keys and tokens are removed. What is left out is
    counted, on stderr. No file is overwritten.
    """
    roots = {each: root for file in files for each, root in _files_in(file)}
    sessions = grouped(list(roots))
    if target is None and len(sessions) > 1:
        raise click.UsageError("several recordings need a FOLDER: -o FOLDER")
    worst = 0
    with StatusLine(sys.stderr) as status:
        for session in status.through(sessions):
            try:
                path = _path_of(session[0], roots[session[0]], target, several=len(roots) > 1)
                recording = read_recording(session, format_name or "", status.say)
                scenario, comment = scenario_of(recording, emails=scrub)
                told = [*_told(recording)]
                del recording  # each of these takes as much memory as the file
                given = content(scenario)
                del scenario
                _write(path, told, pieces(given, comment), session[0])
            except SimloopError as error:
                if isinstance(error, ScenarioError) and error.path in (None, "", session[0].name):
                    error.path = session[0]
                note(plain(str(error)))
                worst = max(worst, error.exit_code)
    return worst


def _files_in(path: Path) -> Iterator[tuple[Path, Path]]:
    if not path.is_dir():
        yield path, path.parent
        return
    files = sorted(each for each in path.rglob("*") if each.is_file())
    known = [each for each in files if is_known(each)]
    if len(known) < len(files):
        note(plain(f"{path}: files that are no recordings: {len(files) - len(known)}"))
    yield from ((each, path) for each in known)


def _path_of(file: Path, root: Path, target: Path | None, *, several: bool) -> Path | None:
    if target is None or not (several or target.is_dir() or not target.suffix):
        return target
    stem = Path(file.name.removesuffix(".gz")).stem
    return target / file.parent.relative_to(root) / f"{stem}{SUFFIX}"


def _write(path: Path | None, told: list[str], lines: list[str], file: Path) -> None:
    head, *others = told
    note("\n".join([plain(f"{file}: {head}"), *(f"  {plain(line)}" for line in others)]))
    if path is None:
        out_lines(lines)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    create(path, (f"{each}\n" for each in lines))
    create_schema(path.parent)
    out(plain(str(path)))


def _told(recording: Recording) -> Iterator[str]:
    calls = [each for each in recording.records if isinstance(each, ModelCall)]
    failed = sum(each.message is None for each in calls)
    asked = sum(isinstance(each, ServiceCall) for each in recording.records)
    told = f"{recording.format}: {len(calls)} calls of the model, {failed} of which failed"
    yield told + (f", {asked} requests to services" if asked else "")
    yield from recording.counted()

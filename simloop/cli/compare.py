"""`simloop compare`: run scenarios on several loop designs, side by side.

The output is a function of the scenarios and the loops alone: two runs give the same bytes.
"""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

import click

from simloop.check.compare import Row
from simloop.cli.compare_text import (
    WIDTH,
    Comparison,
    RowTally,
    calls_of,
    json_text,
    legend,
    reasons,
)
from simloop.cli.options import Target, comparison_settings, formats, settings_by_loop, targets_of
from simloop.cli.report import check_made
from simloop.cli.terminal import (
    StatusLine,
    cells,
    columns_of,
    note,
    out,
    out_exactly,
    out_lines,
    padded,
    plain,
)
from simloop.runs.options import RunOptions
from simloop.scenario.catalog import SUFFIX
from simloop.scenario.designs import DESIGNS
from simloop.trace.storage import write_file

_NARROWEST = 20


@click.command("compare")
@comparison_settings
@formats("json", "html")
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write to FILE instead of stdout.",
)
def command(
    *,
    targets: tuple[str, ...],
    loops: tuple[str, ...],
    given: RunOptions,
    output_format: str,
    file: Path | None,
) -> int:
    """Run scenarios on several loops, side by side.

    A PATH is a scenario file, or a folder with *.simloop.yaml files in it or below it. A NAME is
    that of a bundled scenario (see: simloop list), `theme/`, or `all`. A loop NAME is that of a
    design, of a version of one (opencode@1.18.34), or module:attribute. A single scenario is shown
    with a row for each loop, several with a line each. A scenario that a loop cannot express is
    marked, with the reason, and is no failure. The exit code is the worst of all. `--judge-as` and
    `--option` are for the loop of your own among the loops, or for the only loop.
    """
    settings = settings_by_loop(loops, given)
    seed = given["seed"]
    found = list(targets_of(targets))
    if file is not None:
        _check_output(file, found)
    timelines = None
    if output_format == "html":
        from simloop.page.tables import Timelines  # noqa: PLC0415 - for those who ask for it

        timelines = Timelines()
    made_before: set[object] = set()

    def keep(row: Row) -> None:
        if row.verdict is not None:
            check_made(row.verdict, row.loop, made_before)
        if timelines is not None:
            timelines.add(row.verdict.trace if row.verdict else None)

    with StatusLine(sys.stderr) as status:
        comparisons = [
            Comparison.of(target, settings, seed, status.clear, keep)
            for target in status.through(found)
        ]
    if timelines is not None:
        from simloop.cli.compare_page import page  # noqa: PLC0415 - for those who ask for it

        text = page(comparisons, loops, timelines, seed, settings)
    elif output_format == "json":
        text = json_text(comparisons, loops)
    else:
        width = WIDTH if file else columns_of(sys.stdout) or WIDTH
        text = "\n".join(_table(comparisons, loops, width))
    if file is None:
        (out if output_format == "text" else out_exactly)(text)
    else:
        write_file(file, f"{click.unstyle(text)}\n".encode(errors="backslashreplace"))
        note(f"written: {plain(str(file))}")
    return RowTally.of(comparisons).exit_code


def run_on_all(found: Iterable[Target], seed: int | None, output_format: str) -> int:
    """Run scenarios on each design and print a table for each: `simloop run --loop all`."""
    settings: dict[str, RunOptions] = {loop: {} for loop in DESIGNS}
    comparisons = (Comparison.of(target, settings, seed) for target in found)
    compared = []
    width = columns_of(sys.stdout) or WIDTH
    for one in comparisons:
        if output_format == "text":
            out_lines((*one.table(width), ""))
        compared.append(one)
    count = RowTally.of(compared)
    if output_format == "json":
        out_exactly(json_text(compared, tuple(DESIGNS)))
        return count.exit_code
    out_lines(legend(compared))
    if len(compared) > 1:
        out(str(count))
    return count.exit_code


def _check_output(file: Path, found: Iterable[Target]) -> None:
    for target in found:
        with contextlib.suppress(OSError):  # one of them is not there, so they are not the same
            if isinstance(target.file, Path) and file.samefile(target.file):
                raise click.UsageError("--output would overwrite a scenario")


def _table(comparisons: Sequence[Comparison], loops: Sequence[str], width: int) -> Iterator[str]:
    if len(comparisons) > 1:
        yield from matrix(comparisons, loops, width)
    else:
        yield from (*comparisons[0].table(width), *legend(comparisons))


def matrix(
    comparisons: Sequence[Comparison], loops: Sequence[str], width: int = WIDTH
) -> Iterator[str]:
    """Yield a line for each scenario with a column for each loop, the findings, count and legend.

    Names of scenarios are shortened so that a line takes `width` cells, if there is room for that.
    """
    lines = [[_cell(one, row) for row in one.rows] for one in comparisons]
    heads = [f"   {plain(loop)}" for loop in loops]
    widths = [max(map(cells, column)) for column in zip(heads, *lines, strict=True)]
    names = ["scenario", *_short_names([plain(one.name) for one in comparisons])]
    room = max(_NARROWEST, width - sum(one + 2 for one in widths))
    name_width = min(room, max(map(cells, names)))
    for name, texts in zip(names, [heads, *lines], strict=True):
        fitted = [padded(_shortened(name, name_width), name_width), *map(padded, texts, widths)]
        yield "  ".join(fitted).rstrip()
    rows = [row for one in comparisons for row in one.rows]
    wrong = [line for one in comparisons for line in one.wrong()]
    yield from ("", *wrong) if wrong else ()
    yield from ("", str(RowTally.of(comparisons)), *legend(comparisons), *reasons(rows))


def _cell(comparison: Comparison, row: Row) -> str:
    calls = f" {calls_of(row)}" if row.model_calls is not None else ""
    return f"{comparison.marks(row)} {row.ending}{calls}"


def _short_names(names: list[str]) -> list[str]:
    """Return the names without their common folder and without the ending of a scenario file."""
    parents = [PurePath(name).parent for name in names]
    mixed = len({parent.is_absolute() for parent in parents}) > 1  # they share no folder
    folder = "" if mixed else f"{os.path.commonpath(parents)}/"
    return [name.removeprefix(folder).removesuffix(SUFFIX) for name in names]


def _shortened(name: str, width: int) -> str:
    """Shorten a name at its start, because the end distinguishes names that share a folder."""
    return name if len(name) <= width else f"…{name[len(name) - width + 1 :]}"

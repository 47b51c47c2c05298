"""`simloop compare`: run scenarios on several loop designs, side by side.

Not here: one scenario's rows (compare_text.py) and the page (compare_page.py). The rule to keep:
the output is a function of the scenarios and the loops alone, so that two runs give the same bytes.
"""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

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
from simloop.cli.folding import cells, padded
from simloop.cli.options import comparison_settings, settings_by_loop
from simloop.cli.progress import ProgressLine
from simloop.cli.report import check_made
from simloop.cli.scenario_arguments import Target, targets_of
from simloop.cli.terminal import columns_of, note, out_exactly, out_lines, plain
from simloop.runs.options import RunOptions
from simloop.scenario.catalog import SUFFIX
from simloop.scenario.expectations import Expectations
from simloop.trace.storage import write_file

if TYPE_CHECKING:
    from simloop.page.timelines import Timelines

_NARROWEST = 20


@click.command("compare")
@comparison_settings
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
    help="The format of the output.",
)
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
    seed: int | None,
    loops: tuple[str, ...],
    judge_as: str,
    loop_options: dict[str, Any],
    expect_on: Expectations | None,
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
    of_one: RunOptions = {
        "judge_as": judge_as, "loop_options": loop_options, "expect_on": expect_on
    }  # fmt: skip
    settings = settings_by_loop(loops, of_one)
    found = list(targets_of(targets))
    if file is not None:
        _check_output(file, found)
    timelines = _timelines() if output_format == "html" else None

    made_before: set[object] = set()

    def keep(row: Row) -> None:
        if row.verdict is not None:
            check_made(row.verdict, row.loop, made_before)
        if timelines is not None:
            timelines.add(row.verdict.trace if row.verdict else None)

    with ProgressLine(len(found), sys.stderr) as progress:
        comparisons = [
            Comparison.of(target, settings, seed, progress.clear, keep)
            for target in progress.through(found)
        ]
    width = WIDTH if file else columns_of(sys.stdout) or WIDTH
    if timelines is not None:
        from simloop.cli.compare_page import page  # noqa: PLC0415 - for those who ask for it

        text = page(comparisons, loops, timelines, seed, settings)
    else:
        text = _written(comparisons, loops, output_format, width)
    if file is None and output_format == "text":
        out_lines(text.split("\n"))
    elif file is None:
        out_exactly(text)
    else:
        write_file(file, f"{click.unstyle(text)}\n".encode(errors="backslashreplace"))
        note(f"written: {plain(str(file))}")
    return RowTally.of(comparisons).exit_code


def _check_output(file: Path, found: Iterable[Target]) -> None:
    for target in found:
        with contextlib.suppress(OSError):  # one of them is not there, so they are not the same
            if isinstance(target.file, Path) and file.samefile(target.file):
                raise click.UsageError("--output would overwrite a scenario")


def _timelines() -> "Timelines":
    from simloop.page.timelines import Timelines  # noqa: PLC0415 - for those who ask for the page

    return Timelines()


def _written(
    comparisons: Sequence[Comparison],
    loops: Sequence[str],
    output_format: str,
    width: int,
) -> str:
    if output_format == "json":
        return json_text(comparisons, loops)
    if len(comparisons) > 1:
        return "\n".join(matrix(comparisons, loops, width))
    return "\n".join((*comparisons[0].table(width), *legend(comparisons)))


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

"""`simloop compare`: run scenarios on several loop designs, side by side.

The output is a function of the scenarios and the loops alone. No meaning is by colour alone: a mark
stands before each row that differs or is not as expected.
"""

import dataclasses
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import click

from simloop.check.compare import Row, compare, unread
from simloop.cli import report
from simloop.cli.options import Target, comparison_settings, formats, settings_by_loop, targets_of
from simloop.cli.terminal import (
    StatusLine,
    cells,
    columns_of,
    explain,
    json_text,
    out,
    out_lines,
    padded,
    plain,
    verdict_word,
)
from simloop.errors import InternalError, ScenarioError
from simloop.escape import escape
from simloop.kernel.durations import format_duration
from simloop.runs.options import RunOptions
from simloop.scenario.catalog import SUFFIX

_WIDTH = 120
_NARROWEST = 20
_INDENT = " " * 8
_NOT_RUN = "not run"

_OWN, _DIFFERS, _WRONG, _NEITHER = "*", "~", "!", " "
_SUMMARY = "2+1"
_LEGEND = {
    _OWN: "the scenario's own loop",
    _DIFFERS: "differs from that loop in its outcome, text, time or counts",
    _WRONG: "an expectation for this loop does not hold",
    _SUMMARY: "two model calls, and one for a summary",
}
_HEADINGS = ("", "loop", "outcome", "model calls", "tool runs", "time", "text")


@click.command("compare")
@comparison_settings
@formats("json")
def command(
    *, targets: tuple[str, ...], loops: tuple[str, ...], given: RunOptions, output_format: str
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
    with StatusLine(sys.stderr) as status:
        comparisons = [
            Comparison.of(target, settings, given["seed"], status.clear)
            for target in status.through(list(targets_of(targets)))
        ]
    exit_code = max(row.exit_code for one in comparisons for row in one.rows)
    width = columns_of(sys.stdout) or _WIDTH
    if output_format == "json":
        document = {
            "format_version": report.FORMAT_VERSION,
            "status": report.status_for(exit_code),
            "loops": list(loops),
            "scenarios": [one.json_format() for one in comparisons],
        }
        out(json_text(document, indent=2))
    elif len(comparisons) == 1:
        out_lines((*comparisons[0].table(width), *_legend(comparisons)))
    else:
        out_lines(matrix(comparisons, loops, width))
    return exit_code


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scenario under the name that the user gave, and its rows; `loop` is its own.

    `title` and `loop` are None, and all rows have the same error, if it could not be read.
    """

    name: str
    path: str | None
    title: str | None
    loop: str | None
    rows: tuple[Row, ...]

    @classmethod
    def of(
        cls,
        target: Target,
        loops: Mapping[str, RunOptions],
        seed: int | None,
        before_note: Callable[[], None],
    ) -> Self:
        """Run a scenario on each loop, with the settings of that loop.

        An error of the file, or of simloop, is printed to stderr, after a call of `before_note`.
        Raises the error of an agent that cannot be made.
        """
        if isinstance(target.file, ScenarioError):
            path, rows = None, unread(target.file, tuple(loops))
        else:
            path, rows = str(target.file), compare(target.file, loops, seed=seed)
        _explain(rows, before_note)
        for row in rows:
            if row.verdict is not None:
                report.check_made(row.verdict)
        scenario = rows[0].verdict.scenario if rows[0].verdict else None
        title, loop = (scenario.title, scenario.loop) if scenario else (None, None)
        # A trace can have millions of entries, and there are as many as scenarios and loops.
        short = tuple(replace(row, verdict=None) for row in rows)
        return cls(target.name, path, title, loop, short)

    @property
    def was_read(self) -> bool:
        return self.loop is not None

    def mark(self, row: Row) -> str:
        """Return the mark of a row; none if the scenario's own loop has no row."""
        if row.loop == self.loop:
            return _OWN
        own = next((one for one in self.rows if one.loop == self.loop), row)
        return _NEITHER if row.cannot or own.cannot or row.went_as(own) else _DIFFERS

    def marks(self, row: Row) -> str:
        """Return both marks of a row; an unreadable file is not blamed on a loop."""
        return f"{self.mark(row)}{_WRONG if row.exit_code and self.was_read else _NEITHER}"

    def json_format(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "status": report.status_for(max(row.exit_code for row in self.rows)),
            "path": self.path,
            "title": self.title,
            "loop": self.loop,
            "rows": [_row_json(row) for row in self.rows],
        }

    def table(self, width: int = _WIDTH) -> Iterator[str]:
        """Yield the rows below one another, and below each row its findings; safe to print.

        The texts are cut so that a row takes `width` cells, if there is room for that.
        """
        if not self.was_read:  # stderr has the reason
            yield report.verdict_line(report.word_for(self.rows[0].exit_code), self.name, _NOT_RUN)
            return
        yield f"{plain(self.name)}  {escape(self.title or '', width)}".rstrip()
        texts = [(self.marks(row), *_cells_of(row)) for row in self.rows]
        widths = [max(map(cells, column)) for column in zip(_HEADINGS, *texts, strict=True)]
        taken = len(_INDENT) + sum(width + 2 for width in widths[:-1])
        widths[-1] = max(_NARROWEST, width - taken)
        yield f"{_INDENT}{_laid_out(_HEADINGS, widths)}"
        for row, one in zip(self.rows, texts, strict=True):
            yield f"{_coloured(row)}  {_laid_out(one, widths)}"
            yield from _below(row)


def matrix(
    comparisons: Sequence[Comparison], loops: Sequence[str], width: int = _WIDTH
) -> Iterator[str]:
    """Yield a line for each scenario with a column for each loop, the findings, count and legend.

    Names of scenarios are shortened so that a line takes `width` cells, if there is room for that.
    """
    lines = [[_cell(one, row) for row in one.rows] for one in comparisons]
    heads = [f"   {plain(loop)}" for loop in loops]
    widths = [max(map(cells, column)) for column in zip(heads, *lines, strict=True)]
    names = ["scenario", *(plain(one.name).removesuffix(SUFFIX) for one in comparisons)]
    room = max(_NARROWEST, width - sum(one + 2 for one in widths))
    name_width = min(room, max(map(cells, names)))
    for name, texts in zip(names, [heads, *lines], strict=True):
        # Shortened at the start, because the end distinguishes names that share a folder.
        short = name if len(name) <= name_width else f"…{name[1 - name_width :]}"
        fitted = [padded(short, name_width), *map(padded, texts, widths)]
        yield "  ".join(fitted).rstrip()
    wrong = [
        line
        for one in comparisons
        for row in one.rows
        if one.was_read and row.exit_code
        for line in (f"{_coloured(row)}  {plain(one.name)} on {plain(row.loop)}", *_below(row))
    ]
    yield from ("", *wrong) if wrong else ()
    rows = [row for one in comparisons for row in one.rows]
    yield from ("", _count(comparisons), *_legend(comparisons), *reasons(rows))


def _cell(comparison: Comparison, row: Row) -> str:
    calls = f" {_calls_of(row)}" if row.model_calls is not None else ""
    return f"{comparison.marks(row)} {row.ending}{calls}"


def _cells_of(row: Row) -> tuple[str, ...]:
    """Return the cells below the headings but the first, safe to print; `-` if unknown."""
    time = "-" if row.elapsed_ns is None else format_duration(row.elapsed_ns)
    tools = "-" if row.tool_runs is None else str(row.tool_runs)
    return plain(row.loop), row.endings, _calls_of(row), tools, time, plain(row.text) or "-"


def _calls_of(row: Row) -> str:
    """Return the calls as `2`, or as `2+1` with one for a summary."""
    if row.model_calls is None:
        return "-"
    return f"{row.model_calls}+{row.summaries}" if row.summaries else str(row.model_calls)


def _word(row: Row) -> str:
    return "cannot" if row.cannot else report.word_for(row.exit_code)


def _coloured(row: Row) -> str:
    return _word(row) if row.cannot else verdict_word(_word(row), len(_INDENT) - 2)


def _laid_out(texts: Sequence[str], widths: Sequence[int]) -> str:
    fitted = (escape(text, width) for text, width in zip(texts, widths, strict=True))
    return "  ".join(map(padded, fitted, widths)).rstrip()


def _below(row: Row) -> Iterator[str]:
    findings = [line for failure in row.failures for line in failure.split("\n")]
    for finding in (row.cannot, *findings) if row.cannot else findings:
        yield from textwrap.wrap(
            plain(finding), _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT + "  "
        )
    if row.reproduce:
        yield f"{_INDENT}reproduce: {plain(row.reproduce)}"


def _legend(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the meaning of the marks that are used, and the loops missing from the comparison."""
    used = {mark for one in comparisons for row in one.rows for mark in one.marks(row)}
    used |= {_SUMMARY for one in comparisons for row in one.rows if row.summaries}
    yield from (f"{mark.ljust(3)}  {meaning}" for mark, meaning in _LEGEND.items() if mark in used)
    missing = [one.loop for one in comparisons if one.loop and _OWN not in map(one.mark, one.rows)]
    for loop, count in Counter(missing).items():
        yield f"{plain(loop)}, the own loop of {_scenarios(count)}, was not run"


def reasons(rows: Iterable[Row]) -> list[str]:
    """Return why loops cannot express something: each reason once, with its count."""
    cannot = [row for row in rows if row.cannot]
    counts = Counter((row.loop, reason) for row in cannot for reason in row.cannot.split("; "))
    return [
        f"{plain(loop)} cannot express {_scenarios(count)}: {plain(reason)}"
        for (loop, reason), count in counts.items()
    ]


def _count(comparisons: Sequence[Comparison]) -> str:
    """Return `3 scenarios: 8 as expected, 4 differ from their own loop`; no count is zero."""
    words = Counter(_word(row) for one in comparisons if one.was_read for row in one.rows)
    counts = {
        "not as expected": words["FAILED"] + words["ERROR"],
        "cannot be expressed": words["cannot"],
        "differ from their own loop": sum(
            one.mark(row) == _DIFFERS for one in comparisons if one.was_read for row in one.rows
        ),
        _NOT_RUN: sum(not one.was_read for one in comparisons),
    }
    others = [f"{count} {what}" for what, count in counts.items() if count]
    return ", ".join((f"{_scenarios(len(comparisons))}: {words['ok']} as expected", *others))


def _scenarios(count: int) -> str:
    return f"{count} scenario{'s' * (count != 1)}"


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "loop": row.loop,
        "status": report.status_for(row.exit_code, cannot=bool(row.cannot)),
        "outcome": row.outcome or None,
        "outcomes": [*row.earlier, *filter(None, [row.outcome])],
        "error": row.error or None,
        "cannot": row.cannot or None,
        "model_calls": row.model_calls,
        "summaries": row.summaries,
        "tool_runs": row.tool_runs,
        "elapsed_ns": row.elapsed_ns,
        "text": row.text if row.outcome else None,
        "failures": report.failures_of(row.mismatches),
        "errors": [dataclasses.asdict(error) for error in row.errors],
        "reproduce": row.reproduce or None,
    }


def _explain(rows: Sequence[Row], before_note: Callable[[], None]) -> None:
    errors = [(row.verdict, error) for row in rows if row.verdict for error in row.verdict.errors]
    shown = (e for verdict, e in errors if isinstance(e, InternalError) or not verdict.scenario)
    for error in dict.fromkeys(shown):
        before_note()
        explain(error)

"""Scenarios on several loop designs, as text and as JSON.

Not here: running them (check/compare.py) and the page (compare_page.py). The rule to keep: no
meaning by colour alone; a mark stands before each row that differs or is not as expected.
"""

import dataclasses
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from simloop.check.compare import Row, compare, unread
from simloop.cli import terminal
from simloop.cli.options import Target
from simloop.cli.report import FORMAT_VERSION, failures_of, status_for, verdict_line, word_for
from simloop.cli.terminal import cells, explain, padded, plain, verdict_word
from simloop.errors import InternalError, ScenarioError
from simloop.escape import escape
from simloop.kernel.durations import format_duration
from simloop.runs.options import RunOptions

WIDTH = 120
_NARROWEST = 20
_INDENT = " " * 8
_NOT_RUN = "not run"

OWN, DIFFERS, WRONG, NEITHER = "*", "~", "!", " "
_SUMMARY = "2+1"
LEGEND = {
    OWN: "the scenario's own loop",
    DIFFERS: "differs from that loop in its outcome, text, time or counts",
    WRONG: "an expectation for this loop does not hold",
    _SUMMARY: "two model calls, and one for a summary",
}
HEADINGS = ("loop", "outcome", "model calls", "tool runs", "time", "text")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scenario under the name that the user gave, and its rows; `loop` is its own.

    `title` and `loop` are None, and all rows have the same error, if it could not be read.
    """

    name: str
    path: Path | None
    title: str | None
    loop: str | None
    rows: tuple[Row, ...]

    @classmethod
    def of(
        cls,
        target: Target,
        loops: Mapping[str, RunOptions],
        seed: int | None,
        before_note: Callable[[], None] = lambda: None,
        on_row: Callable[[Row], None] = lambda _row: None,
    ) -> Self:
        """Run a scenario on each loop, with the settings of that loop.

        An error of the file, or of simloop, is printed to stderr, after a call of `before_note`.
        `on_row` gets each row with its verdict, which the rows do not keep.
        """
        if isinstance(target.file, ScenarioError):
            path, rows = None, unread(target.file, tuple(loops))
        else:
            path, rows = target.file, compare(target.file, loops, seed=seed)
        _explain(rows, before_note)
        verdict = rows[0].verdict
        scenario = verdict.scenario if verdict else None
        title, loop = (scenario.title, scenario.loop) if scenario else (None, None)
        for row in rows:
            on_row(row)
        # A trace can have millions of entries, and there are as many as scenarios and loops.
        return cls(
            target.name, path, title, loop, tuple(replace(row, verdict=None) for row in rows)
        )

    @property
    def was_read(self) -> bool:
        """Return whether the scenario could be read."""
        return self.loop is not None

    @property
    def exit_code(self) -> int:
        """Return the worst exit code of the rows."""
        return max(row.exit_code for row in self.rows)

    def mark(self, row: Row) -> str:
        """Return OWN, DIFFERS or NEITHER; always NEITHER if the scenario's own loop has no row."""
        if row.loop == self.loop:
            return OWN
        own = next((one for one in self.rows if one.loop == self.loop), row)
        return NEITHER if row.cannot or own.cannot or row.went_as(own) else DIFFERS

    def marks(self, row: Row) -> str:
        """Return the mark, and WRONG or NEITHER; an unreadable file is not blamed on a loop."""
        return f"{self.mark(row)}{WRONG if row.exit_code and self.was_read else NEITHER}"

    def json_format(self) -> dict[str, Any]:
        """Return one of `scenarios`, with null for an unknown value."""
        return {
            "name": self.name,
            "status": status_for(self.exit_code),
            "path": str(self.path) if self.path else None,
            "title": self.title,
            "loop": self.loop,
            "rows": [_row_json(row) for row in self.rows],
        }

    def table(self, width: int = WIDTH) -> Iterator[str]:
        """Yield the rows below one another, and below each row its findings; safe to print.

        The texts are cut so that a row takes `width` cells, if there is room for that.
        """
        if not self.was_read:  # stderr has the reason
            yield verdict_line(word_for(self.exit_code), self.name, _NOT_RUN)
            return
        yield f"{plain(self.name)}  {escape(self.title or '', width)}".rstrip()
        texts = [(self.marks(row), *cells_of(row)) for row in self.rows]
        widths = [max(map(cells, column)) for column in zip(("", *HEADINGS), *texts, strict=True)]
        taken = len(_INDENT) + sum(width + 2 for width in widths[:-1])
        widths[-1] = max(_NARROWEST, width - taken)
        yield f"{_INDENT}{_laid_out(('', *HEADINGS), widths)}"
        for row, one in zip(self.rows, texts, strict=True):
            yield f"{_word(row)}  {_laid_out(one, widths)}"
            yield from _below(row)

    def wrong(self) -> Iterator[str]:
        """Yield the rows that are not as expected, and below each the reason, safe to print."""
        for row in self.rows if self.was_read else ():
            if row.exit_code:
                yield f"{_word(row)}  {plain(self.name)} on {plain(row.loop)}"
                yield from _below(row)


def cells_of(row: Row) -> tuple[str, str, str, str, str, str]:
    """Return the cells below HEADINGS, safe to print; `-` for an unknown value."""
    time = "-" if row.elapsed_ns is None else format_duration(row.elapsed_ns)
    tools = "-" if row.tool_runs is None else str(row.tool_runs)
    return plain(row.loop), row.endings, calls_of(row), tools, time, plain(row.text) or "-"


def calls_of(row: Row) -> str:
    """Return the calls as `2`, or as `2+1` with one for a summary."""
    if row.model_calls is None:
        return "-"
    return f"{row.model_calls}+{row.summaries}" if row.summaries else str(row.model_calls)


def word_of(row: Row) -> str:
    """Return one word that describes a row."""
    return "cannot" if row.cannot else word_for(row.exit_code)


def findings_of(row: Row) -> Iterator[str]:
    """Return why a row is not as expected or the loop cannot express it, safe to print."""
    if row.cannot:
        yield plain(row.cannot)
    for failure in row.failures:
        yield from (plain(line) for line in failure.split("\n"))


def legend(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Return the meaning of the marks that are used, and the loops missing from the comparison."""
    used: set[str] = set()
    missing: Counter[str] = Counter()
    for one in comparisons:
        used.update(*map(one.marks, one.rows))
        used |= {_SUMMARY for row in one.rows if row.summaries}
        missing.update({one.loop} if one.loop and OWN not in map(one.mark, one.rows) else ())
    yield from (f"{mark.ljust(3)}  {meaning}" for mark, meaning in LEGEND.items() if mark in used)
    whose = "the scenario" if len(comparisons) == 1 else _scenarios(missing.total())
    if len(missing) == 1:
        yield f"{plain(next(iter(missing)))}, the own loop of {whose}, was not run"
    elif missing:
        each = ", ".join(f"{plain(loop)} ({count})" for loop, count in missing.items())
        yield f"the own loops of {whose} were not run: {each}"


def reasons(rows: Iterable[Row]) -> list[str]:
    """Return why loops cannot express something: each reason once, with its count."""
    cannot = [row for row in rows if row.cannot]
    counts = Counter((row.loop, reason) for row in cannot for reason in row.cannot.split("; "))
    return [
        f"{plain(loop)} cannot express {_scenarios(count)}: {plain(reason)}"
        for (loop, reason), count in counts.items()
    ]


def json_text(comparisons: Sequence[Comparison], loops: Sequence[str]) -> str:
    """Return the one object that is printed when all have ended."""
    document = {
        "format_version": FORMAT_VERSION,
        "status": status_for(RowTally.of(comparisons).exit_code),
        "loops": list(loops),
        "scenarios": [one.json_format() for one in comparisons],
    }
    return terminal.json_text(document, indent=2)


@dataclass(slots=True)
class RowTally:
    """The number of runs by result; its text is the closing line."""

    scenarios: int = 0
    words: Counter[str] = field(default_factory=Counter)
    exit_code: int = 0

    @classmethod
    def of(cls, comparisons: Iterable[Comparison]) -> Self:
        """Return the count of these comparisons."""
        count = cls()
        for comparison in comparisons:
            count.add(comparison)
        return count

    def add(self, comparison: Comparison) -> None:
        """Count the rows of one more comparison, or count it as unread."""
        self.scenarios += 1
        self.exit_code = max(self.exit_code, comparison.exit_code)
        if not comparison.was_read:
            self.words[_NOT_RUN] += 1
            return
        for row in comparison.rows:
            self.words[word_of(row)] += 1
            self.words[comparison.mark(row)] += 1

    def __str__(self) -> str:
        """Return `3 scenarios: 8 as expected, 4 differ from their own loop`; no count is zero."""
        words = self.words
        counts = {
            "not as expected": words["FAILED"] + words["ERROR"],
            "cannot be expressed": words["cannot"],
            "differ from their own loop": words[DIFFERS],
            _NOT_RUN: words[_NOT_RUN],
        }
        others = [f"{count} {what}" for what, count in counts.items() if count]
        return ", ".join((f"{_scenarios(self.scenarios)}: {words['ok']} as expected", *others))


def _scenarios(count: int) -> str:
    return f"{count} scenario{'s' * (count != 1)}"


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "loop": row.loop,
        "status": status_for(row.exit_code, cannot=bool(row.cannot)),
        "outcome": row.outcome or None,
        "outcomes": [*row.earlier, *filter(None, [row.outcome])],
        "error": row.error or None,
        "cannot": row.cannot or None,
        "model_calls": row.model_calls,
        "summaries": row.summaries,
        "tool_runs": row.tool_runs,
        "elapsed_ns": row.elapsed_ns,
        "text": row.text if row.outcome else None,
        "failures": failures_of(row.mismatches),
        "errors": [dataclasses.asdict(error) for error in row.errors],
        "reproduce": row.reproduce or None,
    }


def _word(row: Row) -> str:
    word = word_of(row)
    return word if row.cannot else verdict_word(word, len(_INDENT) - 2)


def _laid_out(cells: Sequence[str], widths: Sequence[int]) -> str:
    fitted = (escape(cell, width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(map(padded, fitted, widths)).rstrip()


def _below(row: Row) -> Iterator[str]:
    """Yield the findings folded, then the command unfolded, because users copy it."""
    for finding in findings_of(row):
        yield from textwrap.wrap(
            finding, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT + "  "
        )
    if row.reproduce:
        yield f"{_INDENT}reproduce: {plain(row.reproduce)}"


def _explain(rows: Sequence[Row], before_note: Callable[[], None]) -> None:
    """Print once to stderr each error that is no finding about a loop."""
    errors = [(row.verdict, error) for row in rows if row.verdict for error in row.verdict.errors]
    shown = (e for verdict, e in errors if isinstance(e, InternalError) or not verdict.scenario)
    for error in dict.fromkeys(shown):
        before_note()
        explain(error)

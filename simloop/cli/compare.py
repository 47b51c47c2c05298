"""`simloop compare`: run scenarios on several loop designs, side by side.

No meaning is by colour alone: a mark stands before each row that differs or is not as expected.
"""

import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import click
from msgspec import Struct

from simloop.check.trial import Until, Verdict, verify
from simloop.cli import report, terminal
from simloop.cli.options import Target, comparison_settings, formats, settings_by_loop, targets_of
from simloop.errors import CheckFailed, InternalError, ScenarioError, SimloopError
from simloop.escape import escape
from simloop.kernel.durations import format_duration
from simloop.runs.options import RunOptions
from simloop.runs.result import calls_of
from simloop.trace import entries
from simloop.trace.looptrace import LoopTrace

_WIDTH = 120
_NARROWEST = 20
_INDENT = " " * 8
_FINDINGS = textwrap.TextWrapper(_WIDTH, _INDENT, f"{_INDENT}  ")
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
_WAY = (
    "outcome", "outcomes", "error", "cannot", "model_calls", "summaries", "tool_runs", "elapsed_ns",
    "text",
)  # fmt: skip
"""The facts that are equal for two loops which go the same way."""


@click.command("compare")
@comparison_settings
@formats
def command(
    *, targets: tuple[str, ...], loops: tuple[str, ...], given: RunOptions, output_format: str
) -> int:
    """Run scenarios on several loops, side by side.

    A PATH is a scenario file, or a folder with *.simloop.yaml files in it or below it. A NAME is
    that of a bundled scenario (see: simloop list), `theme/`, or `all`. A loop NAME is that of a
    design, of a version of one (opencode@1.18.34), or module:attribute. A scenario is shown with a
    row for each loop; of several, only those are shown that differ from their own loop or are not
    as expected, before a count. A scenario that a loop cannot express is marked, with the reason,
    and is no failure. The exit code is the worst of all. `--judge-as` and `--option` are for the
    loop of your own among the loops, or for the only loop.
    """
    settings = settings_by_loop(loops, given)
    with terminal.StatusLine(sys.stderr) as status:
        found = status.through(list(targets_of(targets)))
        comparisons = [Comparison.of(each, settings, given["seed"]) for each in found]
    exit_code = max(row.exit_code for one in comparisons for row in one.rows)
    if output_format == "json":
        scenarios = [one.json_format() for one in comparisons]
        report.print_document(exit_code, loops=list(loops), scenarios=scenarios)
    else:
        terminal.out_lines(lines_of(comparisons, terminal.columns_of(sys.stdout) or _WIDTH))
    return exit_code


class Row(Struct, frozen=True):
    """The run of a scenario on one loop."""

    facts: Mapping[str, Any]  # those of the JSON, null where nothing is known
    findings: tuple[str, ...] = ()  # unmet expectations and errors, or why the loop cannot run it
    exit_code: int = 0

    @classmethod
    def of(cls, loop: str, verdict: Verdict) -> Self:
        cannot, exit_code = verdict.cannot, 0 if verdict.cannot else verdict.exit_code
        facts = {
            "loop": loop, "status": report.status_for(exit_code, cannot=bool(cannot)),
            **_course(None if cannot else verdict.trace), "cannot": cannot or None,
            "failures": report.failures_of(() if cannot else verdict.mismatches),
            "errors": report.errors_of(verdict.errors),
            "reproduce": None if cannot else _reproduce(verdict),
        }  # fmt: skip
        if cannot:
            return cls(facts, (cannot,))
        ended_by = verdict.worst or verdict.ended_by
        facts["error"] = None if ended_by is None else type(ended_by).__name__
        return cls(facts, (*verdict.failures, *map(_told, verdict.errors)), exit_code)

    @property
    def loop(self) -> str:
        return str(self.facts["loop"])

    @property
    def cannot(self) -> str:
        return self.facts["cannot"] or ""

    @property
    def ending(self) -> str:
        return "cannot" if self.cannot else self.facts["outcome"] or self.facts["error"] or ""

    @property
    def word(self) -> str:
        return "cannot" if self.cannot else report.word_for(self.exit_code)

    def went_as(self, other: "Row") -> bool:
        return all(self.facts[name] == other.facts[name] for name in _WAY)

    def cells(self) -> tuple[str, ...]:
        """Return the cells below the headings but the first, safe to print; `-` if unknown."""
        facts, ns = self.facts, self.facts["elapsed_ns"]
        earlier = facts["outcomes"][:-1] if facts["outcome"] else facts["outcomes"]
        calls, summaries = facts["model_calls"], facts["summaries"]
        return (
            terminal.plain(self.loop), ", ".join((*earlier, self.ending)),
            "-" if calls is None else f"{calls}+{summaries}" if summaries else str(calls),
            "-" if facts["tool_runs"] is None else str(facts["tool_runs"]),
            "-" if ns is None else format_duration(ns), terminal.plain(facts["text"] or "") or "-",
        )  # fmt: skip

    def below(self) -> Iterator[str]:
        for line in (line for each in self.findings for line in each.split("\n")):
            yield from _FINDINGS.wrap(terminal.plain(line))
        if self.facts["reproduce"]:
            yield f"{_INDENT}reproduce: {terminal.plain(self.facts['reproduce'])}"


def _course(trace: LoopTrace | None) -> dict[str, Any]:
    if trace is None:
        return {**dict.fromkeys(_WAY), "outcomes": []}
    outcomes, has_end = [*map(str, trace.outcomes)], trace.footer is not None
    sent = Counter(each.purpose for each in trace.entries if type(each) is entries.Request)
    return {
        "outcome": outcomes[-1] if has_end else None, "outcomes": outcomes, "error": None,
        "cannot": None, "model_calls": sent["main"], "summaries": sent["summary"],
        "tool_runs": len(calls_of(trace)), "elapsed_ns": trace.elapsed_ns,
        "text": trace.ends[-1].text if has_end else None,
    }  # fmt: skip


def _told(error: SimloopError) -> str:
    said = error.finding() if isinstance(error, CheckFailed) else str(error)
    return f"{type(error).__name__}: {said}"


def _reproduce(verdict: Verdict) -> str | None:
    if verdict.failures and verdict.result:
        return verdict.result.reproduce
    found = (error.reproduce for error in verdict.errors if isinstance(error, CheckFailed))
    return next(found, "") or None


class Comparison(Struct, frozen=True):
    """One scenario and its rows. `title` and `loop` are None if it could not be read."""

    name: str
    path: str | None
    title: str | None
    loop: str | None
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, target: Target, loops: Mapping[str, RunOptions], seed: int | None) -> Self:
        """Run a scenario on each loop; errors go to stderr. Raises AgentNotMade."""
        path = str(target.file) if isinstance(target.file, Path) else None
        try:
            scenario = target.scenario()
        except ScenarioError as error:
            terminal.explain(error)
            unread = Verdict(errors=[error])
            return cls(target.name, path, None, None, tuple(Row.of(name, unread) for name in loops))
        rows: list[Row] = []
        for name, given in loops.items():
            options: RunOptions = {**given, "loop": name, "seed": seed}
            verdict = verify(scenario, Until.END, **options)
            rows.append(Row.of(name, verdict))  # without the trace, which may be long
            for wrong in [each for each in verdict.errors if isinstance(each, InternalError)]:
                terminal.explain(wrong)
            report.check_made(verdict)
        return cls(target.name, path, scenario.title, scenario.loop, tuple(rows))

    @property
    def was_read(self) -> bool:
        return self.loop is not None

    @property
    def is_remarkable(self) -> bool:
        return any(row.exit_code or self.mark(row) == _DIFFERS for row in self.rows)

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
            "name": self.name, "status": report.status_for(max(row.exit_code for row in self.rows)),
            "path": self.path, "title": self.title, "loop": self.loop,
            "rows": [row.facts for row in self.rows],
        }  # fmt: skip

    def table(self, width: int = _WIDTH) -> Iterator[str]:
        """Yield the rows, and below each its findings; safe to print, and cut to `width` cells."""
        if not self.was_read:  # stderr has the reason
            yield report.verdict_line(report.word_for(self.rows[0].exit_code), self.name, _NOT_RUN)
            return
        yield f"{terminal.plain(self.name)}  {escape(self.title or '', width)}".rstrip()
        texts = [(self.marks(row), *row.cells()) for row in self.rows]
        columns = zip(_HEADINGS, *texts, strict=True)
        widths = [max(map(terminal.cells, column)) for column in columns]
        widths[-1] = max(_NARROWEST, width - len(_INDENT) - sum(each + 2 for each in widths[:-1]))
        yield f"{_INDENT}{_laid_out(_HEADINGS, widths)}"
        for row, one in zip(self.rows, texts, strict=True):
            word = row.word if row.cannot else terminal.verdict_word(row.word, len(_INDENT) - 2)
            yield f"{word}  {_laid_out(one, widths)}"
            yield from row.below()


def lines_of(comparisons: Sequence[Comparison], width: int) -> Iterator[str]:
    """Yield the tables, and the legend; of several only the remarkable ones, and a count."""
    if len(comparisons) == 1:
        yield from (*comparisons[0].table(width), *_legend(comparisons))
        return
    for one in comparisons:
        if one.is_remarkable:
            yield from (*one.table(width), "")
    rows = [row for one in comparisons for row in one.rows]
    yield from (_count(comparisons), *_legend(comparisons), *reasons(rows))


def _laid_out(texts: Sequence[str], widths: Sequence[int]) -> str:
    fitted = (escape(text, width) for text, width in zip(texts, widths, strict=True))
    return "  ".join(map(terminal.padded, fitted, widths)).rstrip()


def _legend(comparisons: Sequence[Comparison]) -> Iterator[str]:
    shown = [one for one in comparisons if one.is_remarkable or len(comparisons) == 1]
    used = {mark for one in shown for row in one.rows for mark in one.marks(row)}
    used |= {_SUMMARY for one in shown for row in one.rows if row.facts["summaries"]}
    yield from (f"{mark.ljust(3)}  {meaning}" for mark, meaning in _LEGEND.items() if mark in used)
    missing = [one.loop for one in comparisons if one.loop and _OWN not in map(one.mark, one.rows)]
    for loop, count in Counter(missing).items():
        yield f"{terminal.plain(loop)}, the own loop of {_scenarios(count)}, was not run"


def reasons(rows: Iterable[Row]) -> list[str]:
    """Return why loops cannot express something: each reason once, with its count."""
    cannot = [row for row in rows if row.cannot]
    counts = Counter((row.loop, reason) for row in cannot for reason in row.cannot.split("; "))
    return [
        f"{terminal.plain(loop)} cannot express {_scenarios(count)}: {terminal.plain(reason)}"
        for (loop, reason), count in counts.items()
    ]


def _count(comparisons: Sequence[Comparison]) -> str:
    """Return `3 scenarios: 8 as expected, 4 differ from their own loop`; no count is zero."""
    words = Counter(row.word for one in comparisons if one.was_read for row in one.rows)
    marks = (one.mark(row) for one in comparisons if one.was_read for row in one.rows)
    counts = {
        "not as expected": words["FAILED"] + words["ERROR"], "cannot be expressed": words["cannot"],
        "differ from their own loop": sum(mark == _DIFFERS for mark in marks),
        _NOT_RUN: sum(not one.was_read for one in comparisons),
    }  # fmt: skip
    others = [f"{count} {what}" for what, count in counts.items() if count]
    return ", ".join((f"{_scenarios(len(comparisons))}: {words['ok']} as expected", *others))


def _scenarios(count: int) -> str:
    return f"{count} scenario{'s' * (count != 1)}"

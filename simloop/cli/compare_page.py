"""The page of `simloop compare --format html`: the matrix, and the data of the panel of each run.

Not here: the text of a row (compare_text.py), the style, the script and the policy (simloop.page).
The rules to keep: the matrix and its notes are there without a script, every text is escaped, and
no meaning is by colour alone.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from simloop.check.compare import Row
from simloop.cli.compare_text import (
    DIFFERS,
    OWN,
    WRONG,
    Comparison,
    RowTally,
    calls_of,
    cells_of,
    findings_of,
    legend,
    reasons,
    word_of,
)
from simloop.cli.terminal import plain
from simloop.escape import escape
from simloop.page.document import document, safe_text
from simloop.page.tables import Timelines
from simloop.runs.options import RunOptions
from simloop.runs.plan import flags_of
from simloop.scenario.catalog import SUFFIX

_WIDEST = 500
_MOST_LINES = 400
_TITLE = "Scenarios on several loops"
_NO_THEME = "no folder"
_CANNOT = "cannot run"
_VERDICTS = {
    "ok": "as expected",
    "FAILED": "not as expected",
    "ERROR": "error",
    "cannot": "cannot be expressed",
    DIFFERS: "differs from its own loop",
}
_NOTES = {OWN: "* own", DIFFERS: "~ differs"}
_CLASSES = {"ok": "ok", "FAILED": "wrong", "ERROR": "wrong", "cannot": "cannot"}
"""The style of each verdict: a run that fails as its scenario expects is as it should be."""


def page(
    comparisons: Sequence[Comparison],
    loops: Sequence[str],
    timelines: Timelines | None = None,
    seed: int | None = None,
    settings: Mapping[str, RunOptions] | None = None,
) -> str:
    """Return the whole page. `timelines` has a run for each row of each comparison, in order.

    `seed` is that of the runs, or None if each scenario has its own. `settings` are those of each
    loop.
    """
    found = timelines or Timelines()
    data = {
        **found.data(),
        "loops": [plain(loop) for loop in loops],
        "runs": found.runs,
        "scenarios": [_scenario(one, seed, settings or {}) for one in comparisons],
    }
    parts = {
        "title": _TITLE,
        "summary": _text(str(RowTally.of(comparisons))),
        "table": "\n".join(_table(comparisons, loops)),
        "notes": "\n".join(_notes(comparisons)),
    }
    return document("matrix", data, parts).removesuffix("\n")


def _text(text: str | None) -> str:
    return safe_text(text or "", _WIDEST)


def _theme(name: str) -> str:
    return name.rpartition("/")[0] or _NO_THEME


def _table(comparisons: Sequence[Comparison], loops: Sequence[str]) -> Iterator[str]:
    heads = "".join(f'<th scope="col">{_text(loop)}</th>' for loop in ("scenario", *loops))
    yield "<table>"
    yield (
        "<caption>The ending of each scenario on each loop, and its model calls. "
        "The marks are explained below the table; a click on a cell opens the run.</caption>"
    )
    yield f"<thead><tr>{heads}</tr></thead>"
    numbered = enumerate(comparisons)
    for theme, group in groupby(numbered, key=lambda each: _theme(each[1].name)):
        lines = [_line(number, one, loops) for number, one in group]
        head = f"<span>{_text(theme)} <small>{len(lines)}</small></span>"
        yield "<tbody>"
        yield f'<tr class="theme"><th scope="rowgroup" colspan="{len(loops) + 1}">{head}</th></tr>'
        yield from lines
        yield "</tbody>"
    yield "</table>"


def _line(number: int, one: Comparison, loops: Sequence[str]) -> str:
    short = one.name.rpartition("/")[2].removesuffix(SUFFIX)
    cells = "".join(
        _cell(f"#run={number}.{column}", one, row, loop)
        for column, (row, loop) in enumerate(zip(one.rows, loops, strict=True))
    )
    return (
        f'<tr data-name="{_text(one.name)}">'
        f'<th scope="row"><span class="name">{_text(short)}</span> '
        f'<span class="title">{_text(one.title)}</span></th>{cells}</tr>'
    )


def _cell(address: str, one: Comparison, row: Row, loop: str) -> str:
    mark, is_wrong = one.mark(row), WRONG in one.marks(row)
    verdict = _CLASSES[word_of(row)]
    style = "differs" if verdict == "ok" and mark == DIFFERS else verdict
    notes = [*filter(None, [_NOTES.get(mark)]), *["! not as expected"] * is_wrong]
    plural = "call" if calls_of(row) == "1" else "calls"
    calls = f"{calls_of(row)} {plural}" if row.model_calls is not None else ""
    shown = (("on", loop), ("ending", _endings(row)), ("calls", calls))
    spans = (*shown, *(("note", note) for note in notes))
    inside = " ".join(f'<span class="{name}">{_text(said)}</span>' for name, said in spans if said)
    return f'<td class="{style}"><a href="{address}" title="{_text(_more(row))}">{inside}</a></td>'


def _ending(row: Row) -> str:
    return _CANNOT if row.cannot else plain(row.ending) or "no outcome"


def _endings(row: Row) -> str:
    return escape(", ".join((*row.earlier, _ending(row))), _WIDEST)


def _more(row: Row) -> str:
    """Return the details for which the cell of the matrix has no room."""
    _, _, _, tools, time, text = cells_of(row)
    ran = [] if row.tool_runs is None else [f"tool runs: {tools}", f"time: {time}", f"text: {text}"]
    return "; ".join([*ran, *findings_of(row)])


def _notes(comparisons: Sequence[Comparison]) -> Iterator[str]:
    rows = [row for one in comparisons for row in one.rows]
    wrong = [
        f'<li><a href="#run={number}.{column}">{_text(one.name)} on {_text(row.loop)}</a>: '
        f"{_text('; '.join(findings_of(row)))}</li>"
        for number, one in enumerate(comparisons)
        for column, row in enumerate(one.rows)
        if row.exit_code
    ]
    for head, items in (
        ("Not as expected", wrong),
        ("Marks", [f"<li>{_text(line)}</li>" for line in legend(comparisons)]),
        ("What cannot be expressed", [f"<li>{_text(line)}</li>" for line in reasons(rows)]),
    ):
        if items:
            yield f"<h2>{head}</h2><ul>{''.join(items)}</ul>"


def _scenario(
    one: Comparison, seed: int | None, settings: Mapping[str, RunOptions]
) -> dict[str, Any]:
    return {
        "name": escape(one.name, _WIDEST),
        "title": escape(one.title or "", _WIDEST),
        "source": _source(one),
        "rows": [_facts(one, row, seed, settings.get(row.loop, {})) for row in one.rows],
    }


def _source(one: Comparison) -> str:
    """Return the lines of the scenario file, or why there are none."""
    if one.path is None:
        return "There is no such file."
    try:
        lines = one.path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        return f"The file cannot be read: {plain(error.strerror or '')}"
    left = len(lines) - _MOST_LINES
    more = [f"... {left} lines left out"] if left > 0 else []
    return "\n".join([*map(escape, lines[:_MOST_LINES]), *more])


def _facts(one: Comparison, row: Row, seed: int | None, given: RunOptions) -> dict[str, Any]:
    _, _, calls, tools, time, text = cells_of(row)
    counts = f"model calls: {calls}, tool runs: {tools}, time: {time}"
    said = [_ending(row), _VERDICTS[word_of(row)]]
    said += [_VERDICTS[DIFFERS]] if one.mark(row) == DIFFERS else []
    step = f"simloop step {shlex.quote(one.name)} --loop {shlex.quote(row.loop)}"
    step += flags_of(given.get("judge_as", ""), given.get("loop_options", {}))
    step += "" if seed is None else f" --seed {seed}"
    return {
        "ending": _endings(row),
        "verdict": ", ".join(said),
        "findings": list(findings_of(row)),
        "counts": "" if row.tool_runs is None else counts,
        "text": "" if text == "-" else text,
        "reproduce": plain(row.reproduce),
        "step": "" if row.tool_runs is None else plain(step),
    }

"""The page of `simloop compare --format html`: the matrix, and each scenario's rows below it.

Not here: the text of a row (compare_text.py). The rules to keep: one file that needs no network and
no script, ASCII for any model output, every text escaped by `_text`, and no meaning by colour or
style alone.
"""

import html
from collections.abc import Iterable, Iterator, Sequence

from simloop.check.compare import Row
from simloop.cli.compare_text import (
    DIFFERS,
    HEADINGS,
    LEGEND,
    NEITHER,
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
from simloop.escape import escape

_WIDEST = 500
_TITLE = "Scenarios on several loops"
_CLASSES = {OWN: "own", DIFFERS: "differs", WRONG: "wrong"}
_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }}
body {{ margin: 2rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; }}
caption {{ font-weight: bold; text-align: left; padding: .3rem 0; }}
th, td {{ border: 1px solid GrayText; padding: .2rem .5rem; }}
th, td {{ text-align: left; vertical-align: top; }}
thead th {{ background: Canvas; position: sticky; top: 0; }}
tbody th {{ font-weight: normal; }}
td, code {{ font-family: ui-monospace, monospace; overflow-wrap: anywhere; }}
td ul {{ margin: 0; padding-left: 1.2rem; }}
abbr {{ font-weight: bold; text-decoration: none; }}
.own {{ font-weight: bold; }}
.differs {{ border-left: 3px dashed CanvasText; }}
.wrong {{ border-right: 3px double CanvasText; }}
.cannot {{ font-style: italic; }}
summary {{ cursor: pointer; }}
@media print {{
  body {{ margin: 0; font-size: 10px; }}
  thead th {{ position: static; }}
  tr {{ break-inside: avoid; }}
  details::details-content {{ content-visibility: visible; block-size: auto; }}
}}
</style>
</head>
<body>
<main>
<h1>{title}</h1>"""
_FOOT = """\
</main>
</body>
</html>"""


def page(comparisons: Sequence[Comparison], loops: Sequence[str]) -> str:
    """Return the whole page."""
    lines = [
        _HEAD.format(title=_TITLE),
        f"<p>{_text(str(RowTally.of(comparisons)))}</p>",
        *_list(legend(comparisons)),
        *_matrix(comparisons, loops),
        *_reasons(comparisons),
        "<h2>Each scenario</h2>",
    ]
    for number, comparison in enumerate(comparisons, start=1):
        lines += _details(comparison, f"s{number}", opened=len(comparisons) == 1)
    lines.append(_FOOT)
    return "\n".join(lines).encode("ascii", "xmlcharrefreplace").decode()


def _text(text: str | None) -> str:
    return html.escape(escape(text or "", _WIDEST))


def _list(lines: Iterable[str]) -> Iterator[str]:
    yield "<ul>"
    for line in lines:
        yield f"<li>{_text(line)}</li>"
    yield "</ul>"


def _matrix(comparisons: Sequence[Comparison], loops: Sequence[str]) -> Iterator[str]:
    yield "<table>"
    yield "<caption>How each scenario ends on each loop, and after how many model calls</caption>"
    yield _headings("scenario", *loops)
    yield "<tbody>"
    for number, comparison in enumerate(comparisons, start=1):
        name = f'<a href="#s{number}">{_text(comparison.name)}</a>'
        cells = "".join(_cell(comparison, row) for row in comparison.rows)
        yield f'<tr><th scope="row" title="{_text(comparison.title)}">{name}</th>{cells}</tr>'
    yield "</tbody>"
    yield "</table>"


def _headings(*names: str) -> str:
    cells = "".join(f'<th scope="col">{_text(name)}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def _cell(comparison: Comparison, row: Row) -> str:
    marks = comparison.marks(row)
    classes = [_CLASSES[mark] for mark in marks if mark != NEITHER] + ["cannot"] * bool(row.cannot)
    classed = f' class="{" ".join(classes)}"' if classes else ""
    shown = f"{row.endings} {calls_of(row)}".removesuffix(" -")
    said = f"{_marked(marks)} {_text(shown)}".lstrip()
    return f'<td{classed} title="{_text(_more(row))}">{said}</td>'


def _marked(marks: Iterable[str]) -> str:
    """Return the marks, each with its meaning."""
    used = (mark for mark in marks if mark != NEITHER)
    return "".join(f'<abbr title="{_text(LEGEND[mark])}">{mark}</abbr>' for mark in used)


def _more(row: Row) -> str:
    """Return the details for which the cell of the matrix has no room."""
    _, _, _, tools, time, text = cells_of(row)
    ran = [] if row.tool_runs is None else [f"tool runs: {tools}", f"time: {time}", f"text: {text}"]
    return "; ".join([*ran, *findings_of(row)])


def _reasons(comparisons: Iterable[Comparison]) -> Iterator[str]:
    found = reasons(row for comparison in comparisons for row in comparison.rows)
    if found:
        yield "<h2>What cannot be expressed</h2>"
        yield from _list(found)


def _details(comparison: Comparison, anchor: str, *, opened: bool) -> Iterator[str]:
    """Return the details; a link opens the element around its anchor, so the anchor is inside."""
    yield f"<details{' open' * opened}>"
    yield f"<summary><code>{_text(comparison.name)}</code> {_text(comparison.title)}</summary>"
    yield f'<table id="{anchor}">'
    yield f"<caption>{_text(comparison.name)}</caption>"
    yield _headings(*HEADINGS, "judged")
    yield "<tbody>"
    for row in comparison.rows:
        yield _row(comparison, row)
    yield "</tbody>"
    yield "</table>"
    yield "</details>"


def _row(comparison: Comparison, row: Row) -> str:
    loop, *cells = cells_of(row)
    head = f"{_marked(comparison.marks(row))} {_text(loop)}".lstrip()
    row_cells = "".join(f"<td>{_text(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{head}</th>{row_cells}<td>{_judged(row)}</td></tr>'


def _judged(row: Row) -> str:
    found = "".join(f"<li>{_text(finding)}</li>" for finding in findings_of(row))
    if row.reproduce:
        found += f"<li>reproduce: <code>{_text(row.reproduce)}</code></li>"
    return f"{word_of(row)}<ul>{found}</ul>" if found else word_of(row)

"""The report of a benchmark of hooks: its JSON, its comparison with limits, and its plot.

A limit is passed only where the whole interval lies above it.
"""

import html
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from simloop.bench.hook_bench import HookRow, Interval
from simloop.errors import ScenarioError
from simloop.escape import escape
from simloop.kernel.durations import format_duration, rounded_duration
from simloop.trace.storage import read_file

FORMAT = "simloop-hook-bench 3"
_OF_ANOTHER_TIME = 0.1
"""Equal hooks of two reports differ by up to so much: they lie elsewhere in memory, and a busy
machine slows them and the unit of cost differently."""

_INK, _HOOK = "#7d8590", "#2f81f7"
_WIDTH, _ROW = 480, 40
"""The colours are readable on a light and on a dark page."""


class HookReport(Struct, kw_only=True):
    """The results of one benchmark. Times are real nanoseconds, `virtual_ns` excepted."""

    format: str = FORMAT
    python: str = field(default_factory=platform.python_version)
    machine: str = field(default_factory=platform.machine)
    round_ns: float
    hooks: list[HookRow]

    def compare_with(self, earlier: "HookReport") -> None:
        """State the growth of each hook since an earlier report, which may be of another machine.

        The costs are compared in units of a fixed computation, measured beside each hook. Hooks of
        one name at one point are compared in their order.
        """
        known: dict[tuple[str, str], list[HookRow]] = {}
        for row in earlier.hooks:
            known.setdefault((row.hook, row.point), []).append(row)
        for row in self.hooks:
            if found := known.get((row.hook, row.point)):
                row.growth = _growth(row.units, found.pop(0).units)

    def failures(self, *, max_ns: int | None, fail_on: float | None) -> Iterator[str]:
        for row in self.hooks:
            costs, growth = f"{row.hook} at {row.point} costs at least", row.growth
            if max_ns is not None and row.cost.low > max_ns:
                low, most = rounded_duration(row.cost.low, 3), format_duration(max_ns)
                yield f"{costs} {low} per call, and --max is {most}"
            if fail_on is not None and growth is not None and growth.low > fail_on:
                yield f"{costs} {growth.low:.0%} more, and --fail-on is {fail_on:.0%}"


def _growth(now: Interval, before: Interval) -> Interval:
    """Return the growth of a cost; the bounds are those of the two intervals at their worst."""
    lowest, highest = now.low / before.high - 1, now.high / before.low - 1
    middle = now.median / before.median - 1
    return Interval(lowest - _OF_ANOTHER_TIME, middle, highest + _OF_ANOTHER_TIME)


def read_report(path: Path) -> HookReport:
    """Read a report that `--format json` has written. Raises ScenarioError if it is none."""
    text = read_file(path, 10_000_000)
    try:
        report = msgspec.json.decode(text, type=HookReport)
        sound = [0 < row.units.low <= row.units.median <= row.units.high for row in report.hooks]
        wrong = "" if all(sound) else "the bounds of a cost are not above 0, or not in order"
        if report.format != FORMAT:
            wrong = f"this is {report.format}, and not {FORMAT}"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        wrong = f"this is no {FORMAT}: {error}"
    if wrong:
        hint = "write one with: simloop bench hooks MODULE:ATTRIBUTE --format json > FILE"
        raise ScenarioError(wrong, path=str(path), hint=hint)
    return report


def plot_of(report: HookReport) -> str:
    """Return a bar for each hook, as SVG."""
    return _svg(len(report.hooks), _parts(report))


def plot_of_calls(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a bar for each command hook, as SVG: what half of its calls take, and 95 of 100."""
    scale, parts = _WIDTH / max(1, *(row["p95_ns"] for row in rows)), list[str]()
    for y, row in zip(range(0, 10**6, _ROW), rows, strict=False):
        half, most = row["p50_ns"], row["p95_ns"]
        words = f"{rounded_duration(half)}, p95 {rounded_duration(most)}, {row['calls']} calls"
        bars = _bar(0, y + 17, scale * most, 14, _INK), _bar(0, y + 17, scale * half, 14, _HOOK)
        parts += [_text(0, y + 12, f"{row['point']}: {row['hook']}"), *bars]
        parts.append(_text(scale * most + 6, y + 28, words))
    return _svg(len(rows), parts)


def _svg(rows: int, parts: Iterable[str]) -> str:
    box = f'viewBox="0 0 720 {_ROW * rows + 24}" font-family="sans-serif"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-size="12" fill="{_INK}">'
    return "\n".join((start, *parts, "</svg>\n"))


def _parts(report: HookReport) -> Iterator[str]:
    scale = _WIDTH / max(1, *(row.cost.high for row in report.hooks))
    for y, row in zip(range(0, 10**6, _ROW), report.hooks, strict=False):
        cost = row.cost
        yield _text(0, y + 12, f"{row.hook} at {row.point}")
        yield _bar(0, y + 17, scale * cost.median, 14, _HOOK)
        yield _bar(0, y + 17, scale * min(row.engine_ns, cost.median), 14, _INK)
        yield _bar(scale * cost.low, y + 24, scale * (cost.high - cost.low), 1, _INK)
        yield _text(scale * cost.high + 6, y + 28, f"{rounded_duration(cost.median)} per call")
    for x, colour, name in ((0, _INK, "simloop around the hook"), (180, _HOOK, "the hook")):
        yield _bar(x, _ROW * len(report.hooks) + 8, 10, 10, colour)
        yield _text(x + 16, _ROW * len(report.hooks) + 17, name)


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    place = f'x="{max(0, x):.1f}" y="{y:g}" width="{max(0, width):.1f}" height="{height:g}"'
    return f'<rect {place} fill="{colour}"/>'


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:g}">{html.escape(escape(words))}</text>'

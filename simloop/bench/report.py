"""The report of a benchmark of hooks: its JSON, its comparison with a limit, and its plot.

A limit is passed only where the whole interval lies above it.
"""

import html
import platform
from collections.abc import Iterator

from msgspec import Struct, field

from simloop.bench.hook_bench import HookRow
from simloop.escape import escape
from simloop.kernel.durations import format_duration, rounded_duration

FORMAT = "simloop-hook-bench 4"

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

    def failures(self, max_ns: int | None) -> Iterator[str]:
        for row in self.hooks:
            if max_ns is not None and row.cost.low > max_ns:
                low, most = rounded_duration(row.cost.low, 3), format_duration(max_ns)
                costs = f"{row.hook} at {row.point} costs at least {low} per call"
                yield f"{costs}, and --max is {most}"


def plot_of(report: HookReport) -> str:
    """Return a bar for each hook, as SVG."""
    height = _ROW * len(report.hooks) + 24
    box = f'viewBox="0 0 720 {height}" font-family="sans-serif" font-size="12" fill="{_INK}"'
    return "\n".join((f'<svg xmlns="http://www.w3.org/2000/svg" {box}>', *_parts(report)))


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
    yield "</svg>\n"


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    place = f'x="{max(0, x):.1f}" y="{y:g}" width="{max(0, width):.1f}" height="{height:g}"'
    return f'<rect {place} fill="{colour}"/>'


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:g}">{html.escape(escape(words))}</text>'

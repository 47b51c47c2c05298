"""The tables of `simloop bench hooks` and of `simloop run --hook-cost`.

The rules to keep: the text says how the figures were made; real and virtual time stand in columns
of their own; and the lines of a benchmark fit in 80 columns, but for the names of the user.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec.structs import astuple

from simloop.bench.alternating import BATCH_NS, ENOUGH_TURNS, FEWEST_TURNS, WARM_UP_TURNS
from simloop.bench.hook_bench import COUNTS, CountRow, HookRow, PolicyRow
from simloop.bench.intervals import Interval
from simloop.bench.report import HookReport
from simloop.cli.terminal import plain
from simloop.kernel.durations import format_duration
from simloop.runs.hook_cost import HookCost

_HEADINGS = ("", "min", "median", "p95", "in a run", "simloop", "share", "virtual")


def lines_of(report: HookReport, against: str) -> Iterator[str]:
    """Yield the lines of a report: the given hooks last, where a terminal shows them.

    `against` names the hook or the report that they are compared with.
    """
    yield f"Real nanoseconds per call, on Python {report.python}, {report.machine}."
    yield f"A round of the reference loop without hooks takes {report.round_ns / 1000:,.1f} us."
    yield from ("", *_shapes(report.shapes), "", *_counts(report.counts))
    yield from ("", *_policies(report.policies), "", *_method(report))
    if report.hooks or report.unfit:
        yield from ("", "Your hooks:")
    for row in report.hooks:
        yield from _hook(row, plain(against))
    for unfit in report.unfit:
        name, detail = plain(unfit.hook), plain(unfit.detail)
        yield f"{name} is not measured at {unfit.point}, where it fails: {detail}"


def hook_costs(costs: Sequence[HookCost]) -> Iterator[str]:
    """Yield a table of the hooks of a run, and a line for each that is slow or blocks."""
    if not costs:
        yield "This run has no hooks."
        return
    yield "Real nanoseconds of the hooks alone; no trace has them:"
    headings = ("hook", "point", "calls", "median", "p95", "total", "of the run")
    yield from table(headings, [_cells_of_run(cost) for cost in costs], 2)
    for cost in costs:
        name = f"{plain(cost.hook)} at {cost.point}"
        if cost.blocked_ns:
            slept = format_duration(cost.blocked_ns)
            yield f"{name} blocks the event loop: it slept for {slept} of virtual time"
        elif cost.blocks:
            yield f"{name} blocks the event loop: {cost.longest_ns / 1e6:,.0f} ms without a wait"
        if cost.is_slow:
            yield f"{name} is slow: one call in twenty takes {cost.p95_ns / 1e6:,.1f} ms or more"


def _cells_of_run(cost: HookCost) -> tuple[str, ...]:
    return (
        plain(cost.hook),
        cost.point,
        f"{cost.calls:,}",
        f"{cost.median_ns:,}",
        f"{cost.p95_ns:,}",
        f"{cost.total_ns:,}",
        f"{cost.share:.1%}",
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> Iterator[str]:
    """Yield aligned lines; the first `texts` columns are texts, the others numbers."""
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (
            cell.ljust(width) if index < texts else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _shapes(rows: Sequence[HookRow]) -> Iterator[str]:
    """Yield one table, with a line before the rows of each point."""
    lines = list(table(_HEADINGS, [_cells(row) for row in rows], 1))
    yield f"Built-in hooks, {min(row.calls for row in rows):,} calls of each:"
    yield lines.pop(0)
    for point, _ in groupby(rows, key=lambda row: row.point):
        yield f"at {point}"
        for _ in range(sum(row.point == point for row in rows)):
            yield lines.pop(0)


def _cells(row: HookRow) -> tuple[str, ...]:
    return (
        plain(row.hook),
        f"{row.min_ns:,}",
        f"{row.median_ns:,}",
        f"{row.p95_ns:,}",
        _cost(row.cost),
        f"{row.engine_ns:,.0f}",
        f"{row.share:.1%}",
        format_duration(row.virtual_ns),
    )


def _cost(interval: Interval) -> str:
    """Return a median and its distance to the farther bound."""
    bound = max(interval.high - interval.median, interval.median - interval.low)
    return f"{interval.median:,.0f} ± {bound:,.0f}"


def _hook(row: HookRow, against: str) -> Iterator[str]:
    """Yield what a hook costs: alone, with simloop around it, and less another one."""
    yield f"{plain(row.hook)} at {row.point}, {row.calls:,} calls"
    figures = (
        ("the hook alone", f"{row.median_ns:,} ns", f"min {row.min_ns:,}, p95 {row.p95_ns:,}"),
        ("simloop around it", f"{row.engine_ns:,.0f} ns", ""),
        ("both, in a run", f"{row.cost.median:,.0f} ns", _between(row.cost, ",.0f")),
        ("of a round", f"{row.share:.1%}", ""),
        ("virtual time", format_duration(row.virtual_ns), ""),
    )
    width = max(len(figure) for _, figure, _ in figures)
    for name, figure, detail in figures:
        yield f"  {name:17}  {figure:>{width}}  {detail}".rstrip()
    if row.growth is not None:
        yield f"  against {against}: {_verdict(row.growth)}"
        if row.against is not None:
            yield f"    {row.against.median:+,.0f} ns, {_between(row.against, '+,.0f')}"
        yield f"    {row.growth.median:+.1%}, {_between(row.growth, '+.1%')}"


def _between(interval: Interval, style: str) -> str:
    return f"between {interval.low:{style}} and {interval.high:{style}}"


def _verdict(growth: Interval) -> str:
    if growth.has_zero:
        return "no difference is seen"
    return "slower" if growth.low > 0 else "faster"


def _counts(rows: Sequence[CountRow]) -> Iterator[str]:
    cells: dict[str, list[str]] = {}
    for row in rows:
        cells.setdefault(row.way, [row.way]).append(_cost(row.cost))
    counts = (f"{count} hooks" if count != 1 else "1 hook" for count in COUNTS)
    yield "Hooks that do nothing, by their number at one point, per hook:"
    yield from table(("called by", *counts), list(cells.values()), 1)


def _policies(rows: Sequence[PolicyRow]) -> Iterator[str]:
    yield "Policies, per passage of a point:"
    cells = [
        (row.hook, row.policy, _cost(row.cost), format_duration(row.virtual_ns)) for row in rows
    ]
    yield from table(("hook", "policy", "in a run", "virtual"), cells, 2)


def _method(report: HookReport) -> Iterator[str]:
    call_ns, step_ns, loop_ns = (f"{each:,.0f} ns" for each in astuple(report.harness))
    batch_us = BATCH_NS // 1000
    yield f"""\
min, median, p95: single calls of the hook alone, without its waits.
in a run: the hook and the work of simloop around it, measured as batches of
  passages with the hook less passages of the empty point. The two alternate in
  one process. A median of differences, ± the distance to the farther bound of
  its {report.confidence * 100:g} % interval by ranks, which is widened by 2 % or 10 ns, because
  equal functions differ by that. The interval decides, not the median.
simloop: the part of it that a hook that does nothing costs too: the input, the
  isolation, the timeout and the record.
share: the part of a round. virtual: the time that passes on the virtual clock.
harness: the timing of a call takes {call_ns}, of each step of an awaitable
  {step_ns}, and the loop of a batch {loop_ns} per call. They are subtracted.
warm-up: {WARM_UP_TURNS} turns are not counted. A turn is a batch of about {batch_us} us of each.
  At least {ENOUGH_TURNS} turns are counted, or {FEWEST_TURNS} if a hook is slow.
garbage collection: once before each row and off during it, so the figures do
  not contain it.
outliers: none is removed. They hardly move medians and ranks; p95 shows them."""

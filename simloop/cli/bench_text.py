"""The tables of `simloop bench hooks` and of `simloop run --hook-cost`.

The rule to keep: the text says how the figures were made, and real and virtual time stand in
columns of their own.
"""

from collections.abc import Iterator, Sequence

from simloop.bench.alternating import BATCH_NS, FEWEST_TURNS, WARM_UP_TURNS
from simloop.bench.hook_bench import COUNTS, CountRow, HookRow, PolicyRow
from simloop.bench.intervals import Interval
from simloop.bench.report import HookReport
from simloop.cli.terminal import plain
from simloop.kernel.durations import format_duration
from simloop.runs.hook_cost import HookCost

_HEADINGS = (
    "hook", "point", "calls", "min", "median", "p95", "cost in the engine", "of it engine",
    "of a round", "virtual",
)  # fmt: skip


def lines_of(report: HookReport) -> Iterator[str]:
    """Yield the lines of a report."""
    yield f"Real nanoseconds per call, on Python {report.python}, {report.machine}."
    yield f"A round of the reference loop without hooks takes {report.round_ns / 1000:,.1f} us."
    if report.hooks:
        yield from ("", *_hooks(report.hooks))
    for row in report.unfit:
        name, detail = plain(row.hook), plain(row.detail)
        yield f"{name} is not measured at {row.point}, where it fails: {detail}"
    yield from ("", *_hooks(report.shapes), "", *_counts(report.counts))
    yield from ("", *_policies(report.policies), "", *_method(report))


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


def _hooks(rows: Sequence[HookRow]) -> Iterator[str]:
    yield from table(_HEADINGS, [_cells(row) for row in rows], 2)
    for row in rows:
        if row.growth is not None:
            yield f"{plain(row.hook)} at {row.point}: {_verdict(row.growth)}"


def _cells(row: HookRow) -> tuple[str, ...]:
    return (
        plain(row.hook),
        row.point,
        f"{row.calls:,}",
        f"{row.min_ns:,}",
        f"{row.median_ns:,}",
        f"{row.p95_ns:,}",
        _interval(row.cost),
        f"{row.engine_ns:,.0f}",
        f"{row.share:.1%}",
        format_duration(row.virtual_ns),
    )


def _interval(interval: Interval) -> str:
    return f"{interval.median:,.0f} [{interval.low:,.0f} to {interval.high:,.0f}]"


def _verdict(growth: Interval) -> str:
    bounds = f"{growth.median:+.1%} [{growth.low:+.1%} to {growth.high:+.1%}]"
    if growth.has_zero:
        return f"no difference, {bounds}"
    return f"{'slower' if growth.low > 0 else 'faster'}, {bounds}"


def _counts(rows: Sequence[CountRow]) -> Iterator[str]:
    cells: dict[str, list[str]] = {}
    for row in rows:
        cells.setdefault(row.way, [row.way]).append(_interval(row.cost))
    counts = (f"{count} hooks" if count != 1 else "1 hook" for count in COUNTS)
    yield "Hooks that do nothing, by their number at one point, per hook:"
    yield from table(("called by", *counts), list(cells.values()), 1)


def _policies(rows: Sequence[PolicyRow]) -> Iterator[str]:
    yield "Policies, per passage of a point:"
    cells = [
        (row.hook, row.policy, _interval(row.cost), format_duration(row.virtual_ns)) for row in rows
    ]
    yield from table(("hook", "policy", "cost in the engine", "virtual"), cells, 2)


def _method(report: HookReport) -> Iterator[str]:
    confidence, batch_us = f"{report.confidence:.1%}", BATCH_NS // 1000
    yield f"""\
cost in the engine: calls with the hook less passages of a point without hooks. The two alternate
  in one process. A median of differences with its {confidence} interval by ranks, widened by
  1 % or 10 ns, because equal functions differ by that. The interval decides, not the median.
of it engine: the cost of a hook that does nothing: input, isolation, timeout and record.
min, median, p95: single calls of the hook alone, without its waits and without the measurement.
warm-up: {WARM_UP_TURNS} turns are not counted. A turn is a batch of about {batch_us} us of each;
  at least {FEWEST_TURNS} turns are counted.
garbage collection: once before each row and off during it, so the figures do not contain it.
outliers: none is removed. They hardly move medians and ranks, and p95 shows them."""

"""Command hooks: a process for each call, and the figures of its real times."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from simloop.kernel.durations import rounded_duration

Times: TypeAlias = dict[tuple[str, str], list[int]]
"""Nanoseconds, by the point of a program and the hook there."""


def figures_of(times: Times, session_ns: int = 0) -> list[dict[str, Any]]:
    """Return the figures of each hook and point; `share` is that of sessions, if there were any."""
    rows: list[dict[str, Any]] = []
    for (point, hook), took_ns in times.items():
        ordered, total, last = sorted(took_ns), sum(took_ns), len(took_ns) - 1
        row = {"hook": hook, "point": point, "calls": len(took_ns), "total_ns": total}
        row |= {f"p{each}_ns": ordered[min(last, each * len(ordered) // 100)] for each in (50, 95)}
        rows.append(row | ({"share": total / session_ns} if session_ns else {}))
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each hook and point, those that took longest first."""
    yield f"{'calls':>5}  {'p50':>7}  {'p95':>7}  {'total':>7}  {'share':>6}  hook"
    for each in sorted(rows, key=lambda row: -row["total_ns"]):
        times = (f"{rounded_duration(each[name]):>7}" for name in ("p50_ns", "p95_ns", "total_ns"))
        share = f"{each['share']:.1%}" if "share" in each else "-"
        yield f"{each['calls']:>5}  {'  '.join(times)}  {share:>6}  {each['point']}: {each['hook']}"

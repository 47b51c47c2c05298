"""Command hooks: a process for each call, in real time."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from time import perf_counter_ns
from typing import Any

import msgspec

from simloop.bench.hook_bench import INPUTS
from simloop.errors import ScenarioError
from simloop.kernel.durations import rounded_duration
from simloop.runs.command_hooks import BLOCKED, EVENTS, HookTimes, input_of, run_real_command

_TURNS, _FEWEST_TURNS, _ENOUGH_NS = 21, 5, 10 * 10**9


def figures_of(times: HookTimes, session_ns: int = 0) -> list[dict[str, Any]]:
    """Return the figures of each hook and point; `share` is that of sessions, if there were any."""
    rows: list[dict[str, Any]] = []
    for (point, hook), took_ns in times.items():
        ordered, total, last = sorted(took_ns), sum(took_ns), len(took_ns) - 1
        row = {"hook": hook, "point": point, "calls": len(took_ns), "total_ns": total}
        row |= {f"p{each}_ns": ordered[min(last, each * len(ordered) // 100)] for each in (50, 95)}
        rows.append(row | ({"share": total / session_ns} if session_ns else {}))
    return rows


def measured(commands: Sequence[str], point: str) -> HookTimes:
    """Call hooks as Claude Code does: each alone, then all at once. Raises ScenarioError."""
    given = msgspec.json.encode(input_of(point, INPUTS[point]()))
    times, start_ns = HookTimes(), perf_counter_ns()
    with ThreadPoolExecutor(len(commands)) as pool:
        for turn in range(_TURNS):
            if turn >= _FEWEST_TURNS and perf_counter_ns() - start_ns > _ENOUGH_NS:
                break
            took = [(command, "alone", _call(command, given)) for command in commands]
            if len(commands) > 1:
                at_once = pool.map(_call, commands, [given] * len(commands))
                took += zip(commands, repeat("together"), at_once, strict=False)
            for command, way, ns in took:
                times.setdefault((f"{EVENTS[point]}, {way}", command), []).append(ns)
    return times


def _call(command: str, given: bytes) -> int:
    done, took_ns = run_real_command(command, given)
    if done.returncode not in (0, BLOCKED):
        said = done.stderr.decode(errors="replace").strip() or "it says nothing"
        message = f"the hook `{command}` fails with the exit status {done.returncode}: {said}"
        raise ScenarioError(message, key="--command", hint="mend the hook")
    return took_ns


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each hook and point, those that took longest first."""
    yield f"{'calls':>5}  {'p50':>7}  {'p95':>7}  {'total':>7}  {'share':>6}  hook"
    for each in sorted(rows, key=lambda row: -row["total_ns"]):
        times = (f"{rounded_duration(each[name]):>7}" for name in ("p50_ns", "p95_ns", "total_ns"))
        share = f"{each['share']:.1%}" if "share" in each else "-"
        yield f"{each['calls']:>5}  {'  '.join(times)}  {share:>6}  {each['point']}: {each['hook']}"

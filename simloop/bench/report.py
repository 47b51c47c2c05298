"""The JSON of a benchmark of hooks, and its limits: one is passed by a whole interval alone."""

import platform
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, field

from simloop.bench.hook_bench import HookRow, Interval
from simloop.errors import ScenarioError
from simloop.kernel.durations import format_duration, rounded_duration
from simloop.trace.storage import read_file

FORMAT = "simloop-hook-bench 3"
_OF_ANOTHER_TIME = 0.1
"""Equal hooks of two reports differ by up to so much: they lie elsewhere in memory, and a busy
machine slows them and the unit of cost differently."""


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
                now, before = row.units, found.pop(0).units
                # The bounds are those of the two intervals at their worst.
                low, high = now.low / before.high - 1, now.high / before.low - 1
                middle = now.median / before.median - 1
                row.growth = Interval(low - _OF_ANOTHER_TIME, middle, high + _OF_ANOTHER_TIME)

    def failures(self, *, max_ns: int | None, fail_on: float | None) -> Iterator[str]:
        for row in self.hooks:
            costs, growth = f"{row.hook} at {row.point} costs at least", row.growth
            if max_ns is not None and row.cost.low > max_ns:
                low, most = rounded_duration(row.cost.low, 3), format_duration(max_ns)
                yield f"{costs} {low} per call, and --max is {most}"
            if fail_on is not None and growth is not None and growth.low > fail_on:
                yield f"{costs} {growth.low:.0%} more, and --fail-on is {fail_on:.0%}"


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

"""The report of a benchmark of hooks: its JSON, and its comparison with limits.

The rule to keep: a limit is passed only where the whole interval lies above it.
"""

import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from simloop.bench.hook_bench import CountRow, Harness, HookRow, PolicyRow, UnfitRow
from simloop.bench.intervals import CONFIDENCE, Interval
from simloop.errors import ScenarioError
from simloop.kernel.durations import format_duration

FORMAT = "simloop-hook-bench"
VERSION = 2
_OF_ANOTHER_TIME = 0.1
"""Equal hooks of two reports differ by up to so much: they lie elsewhere in memory, and a busy
machine slows them and the unit of cost differently."""


class HookReport(Struct, kw_only=True):
    """The results of one benchmark. Times are real nanoseconds, `virtual_ns` excepted.

    `hooks` are those that the user named, and `unfit` has the points where one of them fails and is
    not measured. The others are built in.
    """

    format: str = FORMAT
    version: int = VERSION
    python: str = field(default_factory=platform.python_version)
    machine: str = field(default_factory=platform.machine)
    confidence: float = CONFIDENCE
    round_ns: float
    harness: Harness
    hooks: list[HookRow]
    unfit: list[UnfitRow]
    shapes: list[HookRow]
    counts: list[CountRow]
    policies: list[PolicyRow]

    def compare_with(self, earlier: "HookReport") -> None:
        """State the growth of each hook since an earlier report, which may be of another machine.

        The costs are compared in units of a fixed computation, measured beside each hook.
        """
        known = dict(_numbered(earlier.hooks))
        for place, row in _numbered(self.hooks):
            if place in known:
                row.growth = _growth(row.units, known[place].units)

    def failures(self, *, max_ns: int | None, fail_on: float | None) -> Iterator[str]:
        """Yield a sentence for each hook that passes a limit."""
        for row in self.hooks:
            name, growth = f"{row.hook} at {row.point}", row.growth
            if max_ns is not None and row.cost.low > max_ns:
                costs, most = f"{row.cost.low:,.0f}", format_duration(max_ns)
                yield f"{name} costs at least {costs} ns per call, and --max is {most}"
            if fail_on is not None and growth is not None and growth.low > fail_on:
                yield f"{name} costs at least {growth.low:.0%} more, and --fail-on is {fail_on:.0%}"


def _numbered(rows: Sequence[HookRow]) -> Iterator[tuple[tuple[str, str, int], HookRow]]:
    """Yield each row with its hook, its point, and its number among rows with both."""
    seen: Counter[tuple[str, str]] = Counter()
    for row in rows:
        yield (row.hook, row.point, seen[row.hook, row.point]), row
        seen[row.hook, row.point] += 1


def _growth(now: Interval, before: Interval) -> Interval:
    """Return the growth of a cost; the bounds are those of the two intervals at their worst."""
    lowest, highest = now.low / before.high - 1, now.high / before.low - 1
    growth = Interval(lowest, now.median / before.median - 1, highest)
    return growth.widened(_OF_ANOTHER_TIME)


class _Format(Struct):
    """The keys that every version of a report has."""

    format: str
    version: int


def read_report(path: Path) -> HookReport:
    """Read a report that `--format json` has written. Raises ScenarioError if it is none."""
    hint = "write one with: simloop bench hooks MODULE:ATTRIBUTE --format json > FILE"
    try:
        text = path.read_bytes()
        known = msgspec.json.decode(text, type=_Format)
        if (known.format, known.version) == (FORMAT, VERSION):
            report = msgspec.json.decode(text, type=HookReport)
        else:
            message = f"this is {known.format} {known.version}, and not {FORMAT} {VERSION}"
            raise ScenarioError(message, path=str(path), hint=hint)
    except OSError as error:
        raise ScenarioError(
            f"the report cannot be read: {error.strerror}", path=str(path)
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"this is no report of hooks: {error}"
        raise ScenarioError(message, path=str(path), hint=hint) from None
    for index, row in enumerate(report.hooks):
        if not 0 < row.units.low <= row.units.median <= row.units.high:
            message = "these are no bounds of a cost above 0"
            raise ScenarioError(message, path=str(path), key=f"hooks.{index}.units", hint=hint)
    return report

"""Reports are compared hook by hook, name those above a limit, are read back, and are drawn."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simloop.bench.hook_bench import HookRow, Interval
from simloop.bench.report import HookReport, read_report
from simloop.errors import ScenarioError

AT = "before_tool_call"


def row(cost: float, hook: str = "guard", unit_ns: float = 100, **known: Any) -> HookRow:
    """Return a row whose intervals are 10 % to both sides."""
    interval = Interval(0.9 * cost, cost, 1.1 * cost)
    return HookRow(
        hook=hook, point=AT, cost=interval, hook_ns=cost - 100, engine_ns=100,
        units=interval.over(unit_ns), share=0.1, virtual_ns=0, **known,
    )  # fmt: skip


def report(*rows: HookRow) -> HookReport:
    return HookReport(round_ns=1, hooks=[*rows])


def growth(now: HookReport, earlier: HookReport) -> list[float | None]:
    """Return the median growth of each hook."""
    now.compare_with(earlier)
    return [None if each.growth is None else each.growth.median for each in now.hooks]


class TestTheGrowth:
    def test_of_an_equal_hook_is_nothing_and_that_of_a_slower_one_is_seen(self) -> None:
        earlier = report(row(1_000))
        assert growth(report(row(1_000)), earlier) == [0]
        assert growth(report(row(3_000)), earlier) == [2]

    def test_is_in_units_so_that_another_machine_makes_none(self) -> None:
        assert growth(report(row(4_000, unit_ns=200)), report(row(2_000))) == [0]

    def test_has_bounds_that_are_both_intervals_at_their_worst_and_ten_points_more(self) -> None:
        now = report(row(1_000))
        now.compare_with(report(row(1_000)))
        (interval,) = [each.growth for each in now.hooks]
        assert interval is not None
        assert interval.low == pytest.approx(0.9 / 1.1 - 1 - 0.1)
        assert interval.high == pytest.approx(1.1 / 0.9 - 1 + 0.1)

    def test_of_hooks_of_one_name_at_one_point_is_in_their_order(self) -> None:
        assert growth(report(row(100), row(400)), report(row(100), row(200))) == [0, 1]

    def test_of_a_hook_that_an_earlier_report_lacks_is_unknown(self) -> None:
        assert growth(report(row(100), row(400)), report(row(100))) == [0, None]


def failures(row: HookRow, **limits: Any) -> list[str]:
    return list(report(row).failures(**{"max_ns": None, "fail_on": None, **limits}))


def test_a_limit_is_passed_only_where_the_whole_interval_is_above_it() -> None:
    assert failures(row(1_000), max_ns=900) == []
    assert failures(row(1_000), max_ns=899) == [
        f"guard at {AT} costs at least 900 ns per call, and --max is 899ns"
    ]
    grown = row(1_000, growth=Interval(0.29, 0.4, 0.5))
    assert failures(grown, fail_on=0.29) == []
    assert failures(grown, fail_on=0.2) == [
        f"guard at {AT} costs at least 29% more, and --fail-on is 20%"
    ]


def test_a_report_reads_back(tmp_path: Path) -> None:
    path, written = tmp_path / "report.json", report(row(1_000))
    path.write_bytes(msgspec.json.encode(written))
    assert read_report(path) == written


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw.update(format="simloop-hook-bench 1"), "this is simloop-hook-bench 1, "),
        (lambda raw: raw["hooks"][0]["units"].update(low=0), "bounds of a cost are not above 0"),
        (lambda raw: raw.pop("hooks"), "this is no simloop-hook-bench 3: "),
    ],
)
def test_a_foreign_or_broken_report_is_refused_with_its_place(
    change: Callable[[Any], object], message: str, tmp_path: Path
) -> None:
    path, raw = tmp_path / "report.json", json.loads(msgspec.json.encode(report(row(1_000))))
    change(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(ScenarioError, match=message) as caught:
        read_report(path)
    assert (caught.value.path, bool(caught.value.hint)) == (str(path), True)

from simloop.bench.hook_bench import Harness, HookRow
from simloop.bench.intervals import Interval
from simloop.bench.report import HookReport

AT = "before_tool_call"


def row(units: float) -> HookRow:
    cost = Interval(900, 1_000, 1_100)
    return HookRow(
        hook="guard",
        point=AT,
        calls=10,
        min_ns=1,
        median_ns=2,
        p95_ns=3,
        cost=cost,
        engine_ns=500,
        units=Interval(units, units, units),
        share=0.1,
        virtual_ns=0,
    )


def report(*rows: HookRow) -> HookReport:
    return HookReport(
        round_ns=1, harness=Harness(1, 1, 1), hooks=[*rows],
        unfit=[], shapes=[], counts=[], policies=[],
    )  # fmt: skip


def test_hooks_of_one_name_at_one_point_are_compared_in_their_order() -> None:
    now = report(row(1), row(4))
    now.compare_with(report(row(1), row(2)))
    assert [each.growth for each in now.hooks] == [
        Interval(-0.1, 0, 0.1),
        Interval(0.9, 1, 1.1),
    ]


def test_a_hook_that_an_earlier_report_lacks_has_no_growth() -> None:
    now = report(row(1), row(4))
    now.compare_with(report(row(1)))
    assert [each.growth is None for each in now.hooks] == [False, True]

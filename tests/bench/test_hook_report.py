"""Reports name the hooks above a limit."""

from simloop.bench.hook_bench import HookReport, HookRow, Interval

AT = "before_tool_call"


def row(cost: float, hook: str = "guard") -> HookRow:
    """Return a row whose intervals are 10 % to both sides."""
    interval = Interval(0.9 * cost, cost, 1.1 * cost)
    return HookRow(
        hook=hook, point=AT, cost=interval, hook_ns=cost - 100, engine_ns=100,
        share=0.1, virtual_ns=0,
    )  # fmt: skip


def report(*rows: HookRow) -> HookReport:
    return HookReport(round_ns=1, hooks=[*rows])


def test_a_limit_is_passed_only_where_the_whole_interval_is_above_it() -> None:
    assert [*report(row(1_000)).failures(None)] == []
    assert [*report(row(1_000)).failures(900)] == []
    assert [*report(row(1_000)).failures(899)] == [
        f"guard at {AT} costs at least 900 ns per call, and --max is 899ns"
    ]

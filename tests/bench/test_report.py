"""Reports name the hooks above a limit, and are drawn."""

import xml.etree.ElementTree as ET

from simloop.bench.hook_bench import HookRow, Interval
from simloop.bench.report import HookReport, plot_of

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


class TestThePlot:
    def texts(self, drawn: str) -> list[str]:
        return [text for each in ET.fromstring(drawn).iter() if (text := (each.text or "").strip())]

    def test_has_the_users_hooks_with_their_cost(self) -> None:
        drawn = plot_of(report(row(1_100, "m:guard"), row(2_129_027, "m:slow")))
        assert self.texts(drawn) == [
            f"m:guard at {AT}", "1.1 us per call", f"m:slow at {AT}", "2.1 ms per call",
            "simloop around the hook", "the hook",
        ]  # fmt: skip

    def test_draws_names_as_they_are(self) -> None:
        drawn = plot_of(report(row(1_000, "<b>\x1b[2J&")))
        assert self.texts(drawn)[0].startswith("<b>")
        assert "\x1b" not in drawn

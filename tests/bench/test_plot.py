import sys
from collections.abc import Sequence

import pytest

from simloop.bench.hook_bench import CountRow
from simloop.bench.intervals import Interval
from simloop.bench.plot import check_plots, plot_of
from simloop.errors import ScenarioError

WAYS = {
    "engine": "simloop, sync",
    "engine, async": "simloop, async",
    "pluggy": "pluggy, sync",
    "plain calls": "plain calls, sync",
    "plain calls, async": "plain calls, async",
}


def rows(ways: Sequence[str] = tuple(WAYS)) -> list[CountRow]:
    return [
        CountRow(way, hooks, Interval(900 / hooks, 1_000 / hooks, 1_200 / hooks))
        for way in ways
        for hooks in (1, 4, 16)
    ]


@pytest.mark.slow
def test_equal_figures_give_equal_bytes() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plots`")
    assert plot_of(rows()) == plot_of(rows())


@pytest.mark.slow
def test_the_plot_names_each_way_to_call_hooks_and_each_number_of_hooks() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plots`")
    svg = plot_of(rows())
    for word in (*WAYS.values(), ">1<", ">4<", ">16<", "hooks at one point", "real ns per hook"):
        assert word in svg


@pytest.mark.slow
def test_a_way_without_figures_is_left_out() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plots`")
    svg = plot_of(rows([way for way in WAYS if way != "pluggy"]))
    assert "pluggy" not in svg
    assert "simloop, async" in svg


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ScenarioError, match="plots need the extra `plots`"):
        check_plots()

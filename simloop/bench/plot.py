"""The plot of the cost of hooks by their number, drawn by matplotlib as SVG.

The rules to keep: equal figures give equal bytes, so the file has no date and no random ids; and
the colours are readable on a light and on a dark page.
"""

import io
from collections.abc import Sequence
from typing import Any

from simloop.bench.hook_bench import CountRow
from simloop.bench.intervals import CONFIDENCE
from simloop.errors import ScenarioError

_INK = "#7d8590"
_STYLES = {
    "engine": ("simloop, sync", "#2f81f7", "o", "-"),
    "engine, async": ("simloop, async", "#2f81f7", "s", "--"),
    "pluggy": ("pluggy, sync", "#db6d28", "^", "-"),
    "plain calls": ("plain calls, sync", "#2da44e", "o", "-"),
    "plain calls, async": ("plain calls, async", "#2da44e", "s", "--"),
}
"""The legend, the colour, the marker and the line of each way to call hooks."""


def check_plots() -> None:
    """Raise ScenarioError if matplotlib is not installed."""
    _figure_class()


def plot_of(rows: Sequence[CountRow]) -> str:
    """Return the plot as SVG. Raises ScenarioError if matplotlib is not installed."""
    figure = _figure_class()(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    counts = sorted({row.hooks for row in rows if row.hooks})
    for way, (name, colour, marker, line) in _STYLES.items():
        shown = [row.cost for row in rows if row.way == way and row.hooks]
        if not shown:
            continue  # pluggy is not installed
        medians = [cost.median for cost in shown]
        axes.errorbar(
            range(len(counts)),
            medians,
            yerr=[
                [cost.median - cost.low for cost in shown],
                [cost.high - cost.median for cost in shown],
            ],
            label=name,
            color=colour,
            marker=marker,
            linestyle=line,
            capsize=4,
        )
    axes.set_xticks(range(len(counts)), [str(count) for count in counts])
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("hooks at one point")
    axes.set_ylabel(f"real ns per hook, {CONFIDENCE * 100:g} % interval")
    _recolour(axes)
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    return svg[svg.index("<svg") :]


def _recolour(axes: Any) -> None:
    """Draw texts, ticks and the frame in a grey that a light and a dark page both show."""
    axes.tick_params(which="both", colors=_INK)
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    axes.grid(visible=True, axis="y", color=_INK, alpha=0.25)
    for side in axes.spines.values():
        side.set_color(_INK)
    axes.legend(frameon=False, labelcolor=_INK, loc="center left", bbox_to_anchor=(1, 0.5))


def _figure_class() -> Any:
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, which takes long to import
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise ScenarioError(
            "plots need the extra `plots`", key="--plot", hint="pip install 'agent-simloop[plots]'"
        ) from error
    mpl.rcParams["svg.hashsalt"] = "simloop"  # otherwise the ids in the file are random
    mpl.rcParams["svg.fonttype"] = "none"
    return Figure

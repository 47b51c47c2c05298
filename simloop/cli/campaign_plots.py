"""The plots of a campaign, drawn by matplotlib as SVG.

The rule to keep: equal campaigns give equal bytes, so an SVG has no date and no random ids.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from simloop.errors import ScenarioError
from simloop.escape import escape
from simloop.fuzz.campaign import ChunkResult, Totals

_NS_PER_S = 1_000_000_000
_LONGEST_NAME = 60


def plots(results: Sequence[ChunkResult], sums: Totals) -> Iterator[tuple[str, str]]:
    """Yield the title and the SVG of each plot. Raises ScenarioError without matplotlib."""
    figure = _figure_class()
    seconds = list(accumulate(result.cpu_ns / _NS_PER_S for result in results))
    runs = list(accumulate(result.runs for result in results))
    yield "Runs", _svg(figure, lambda axes: _lines(axes, seconds, runs, "runs"))
    reached = list(_reached(results))
    yield "Goals reached", _svg(figure, lambda axes: _lines(axes, seconds, reached, "goals"))
    if sums.failures:
        yield "Failures by invariant", _svg(figure, lambda axes: _bars(axes, sums))
        yield "Time to the first failure", _svg(figure, lambda axes: _first(axes, sums))


def _figure_class() -> Any:
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra, which takes long to import
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise ScenarioError(
            "plots need the extra `plots`",
            key="--format html",
            hint="pip install 'agent-simloop[plots]'",
        ) from error
    mpl.rcParams["svg.hashsalt"] = "simloop"  # otherwise the ids in the file are random
    mpl.rcParams["svg.fonttype"] = "none"
    return Figure


def _svg(figure: Any, draw: Callable[[Any], None]) -> str:
    drawn = figure(figsize=(8, 3), layout="constrained")
    draw(drawn.subplots())
    file = io.StringIO()
    drawn.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    return svg[svg.index("<svg") :]


def _lines(axes: Any, seconds: list[float], counts: list[int], name: str) -> None:
    axes.plot([0, *seconds], [0, *counts], marker=".")
    axes.set_xlabel("seconds of processor time")
    axes.set_ylabel(name)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def _reached(results: Sequence[ChunkResult]) -> Iterator[int]:
    goals: set[str] = set()
    for result in results:
        goals.update(goal for goal, count in result.goals.items() if count)
        yield len(goals)


def _bars(axes: Any, sums: Totals) -> None:
    counts: dict[str, int] = {}
    for failure in sums.failures.values():
        counts[failure.name] = counts.get(failure.name, 0) + failure.count
    names = sorted(counts, key=lambda name: (counts[name], name))
    axes.barh([_shown(name) for name in names], [counts[name] for name in names])
    axes.set_xlabel("failing runs")


def _first(axes: Any, sums: Totals) -> None:
    firsts = sorted(cpu_ns / _NS_PER_S for _, cpu_ns in sums.first.values())
    axes.step(firsts, range(1, len(firsts) + 1), where="post", marker="o")
    axes.set_xlabel("seconds of processor time until a failure was first found")
    axes.set_ylabel("failures found")
    axes.set_ylim(bottom=0)


def _shown(name: str) -> str:
    # A dollar sign begins a formula in matplotlib.
    return escape(name, _LONGEST_NAME).replace("$", r"\$")

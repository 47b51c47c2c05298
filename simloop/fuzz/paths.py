"""Paths: worlds that lead to each edge of a machine's map on the shortest way.

Random generation reaches an edge that needs several circumstances late or never; the explored graph
has the way. Not here: exploring (prove) and the script of a way (check/counterexamples.py). The
rule to keep: the limits are small, because a graph with large limits takes seconds to explore.
"""

from collections.abc import Iterator

from simloop.check.counterexamples import scenario_of_way
from simloop.errors import SimloopError
from simloop.kernel.limits import Limits
from simloop.prove.explore import count_states, explore
from simloop.prove.visited import Graph, Step
from simloop.runs.options import RunOptions
from simloop.runs.own_loop import GivenLoop
from simloop.runs.registry import machine_for
from simloop.scenario.designs import LoopOptions
from simloop.scenario.schema import Scenario

_LIMITS = (
    Limits(max_steps=2, max_steps_per_round=1, max_error_count=2, max_compaction_attempts=1),
    Limits(max_steps=3, max_steps_per_round=2, max_error_count=1, max_compaction_attempts=2),
)
_STATES = 5_000
"""The largest number of states of an explored graph."""


def worlds_of_paths(loop: GivenLoop, given: RunOptions) -> Iterator[Scenario]:
    """Yield the world of the shortest way to each edge of the map, and to each end.

    A machine that cannot be explored gives no worlds; runs of the search report its fault.
    """
    name = loop if isinstance(loop, str) else "reference"
    options = LoopOptions().joined(name, given.get("loop_options") or {})
    for limits in _LIMITS:
        try:
            machine = machine_for(loop, limits, options, given.get("judge_as") or "")
            if count_states(machine, limits, _STATES) is None:
                continue
            graph, _, _ = explore(machine, limits)
        except SimloopError:
            continue
        for steps in _ways(graph):
            try:
                yield scenario_of_way(steps, loop=name, limits=limits, options=options)
            except SimloopError:
                continue  # no scripted world can lead there


def _ways(graph: Graph) -> Iterator[tuple[Step, ...]]:
    """Yield a shortest way to each edge; the nodes are in the order of their distance."""
    taken: set[tuple[type, type, type]] = set()
    ends: set[object] = set()
    for node, arrows in enumerate(graph.arrows):
        state = type(graph.runs[node].state)
        for arrow in arrows:
            signal, target = arrow
            end = graph.ends.get(target)
            edge = state, type(signal), type(graph.runs[target].state)
            if edge in taken and (end is None or end in ends):
                continue
            taken.add(edge)
            ends.add(end)
            yield graph.way_to(node, (arrow,))

"""What is found in a graph is what looking at every way through it finds."""

from collections.abc import Callable, Collection, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simloop.kernel import effects, signals
from simloop.kernel.machine import Run
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished, Measuring
from simloop.messages import Outcome
from simloop.prove.graph import (
    Graph,
    Lasso,
    Step,
    ends_first,
    first_endings,
    heaviest,
    shortest_lasso,
    trapped,
)

SEEDED = settings(derandomize=True)
MOST_NODES = 6
Arrows = list[list[tuple[Signal, int]]]
Follow = Callable[[Signal], bool]

PLAIN, TALKING = signals.StepClosed(), signals.StepClosed(steering=True)
SAYS_MORE = signals.StepClosed(follow_up=True)
COMPACTED, ABORT = signals.ContextCompacted(shrunk=True), signals.AbortRequested()
SIGNALS: tuple[Signal, ...] = (PLAIN, TALKING, SAYS_MORE, COMPACTED, ABORT)


def graph_of(arrows: Arrows, *, ends: Collection[int] = ()) -> Graph:
    """A graph of what can be reached from node 0, in the order of the distance, as explored."""
    order, parents = [0], {0: None}
    known: dict[int, tuple[int, Signal] | None] = dict(parents)
    for node in order:
        for signal, target in arrows[node]:
            if target not in known:
                known[target] = (order.index(node), signal)
                order.append(target)
    number = {node: index for index, node in enumerate(order)}
    graph = Graph()
    for node in order:
        graph.add(run(node, ends=node in ends), asked(node), known[node])
    graph.arrows = [[(signal, number[to]) for signal, to in arrows[node]] for node in order]
    return graph


def run(node: int, *, ends: bool) -> Run:
    return Run(Finished(Outcome.COMPLETED) if ends else Measuring(), total_steps=node)


def asked(node: int) -> tuple[effects.Effect, ...]:
    return (effects.CallModel(),) * (node % 3)


def weight(effects_: tuple[effects.Effect, ...]) -> int:
    return len(effects_) * 2


@st.composite
def graphs(draw: st.DrawFn, *, forwards: bool = False) -> Graph:
    """Some nodes, arrows from each to some, and ends that lead nowhere."""
    count = draw(st.integers(1, MOST_NODES))
    ends = draw(st.sets(st.integers(1, MOST_NODES), max_size=2))
    arrows: Arrows = []
    for node in range(count):
        targets = st.integers(node + 1 if forwards else 0, count - 1)
        leads = st.lists(st.tuples(st.sampled_from(SIGNALS), targets), max_size=4)
        last = node in ends or (forwards and node == count - 1)
        arrows.append([] if last else draw(leads))
    return graph_of(arrows, ends=ends)


def ways(graph: Graph, node: int = 0) -> Iterator[list[int]]:
    """Every way from a node to where it goes no further."""
    if not graph.arrows[node]:
        yield [node]
    for _, target in graph.arrows[node]:
        for way in ways(graph, target):
            yield [node, *way]


def reached(graph: Graph, node: int, follow: Follow = lambda _: True) -> set[int]:
    """What one arrow or more lead to."""
    found: set[int] = set()
    waiting = [node]
    while waiting:
        for signal, target in graph.arrows[waiting.pop()]:
            if follow(signal) and target not in found:
                found.add(target)
                waiting.append(target)
    return found


def walks(graph: Graph, start: int, follow: Follow) -> Iterator[set[int]]:
    """Where walks of 1, 2, ... arrows lead."""
    places = {start}
    for _ in range(MOST_NODES + 1):
        places = {
            target for node in places for signal, target in graph.arrows[node] if follow(signal)
        }
        yield places


def shortest_length(graph: Graph, follow: Follow) -> int | None:
    """The length of the shortest way in and round, by trying all of them."""
    lengths = []
    for node in range(len(graph)):
        ins = [0] if node == 0 else []
        ins += [length for length, at in enumerate(walks(graph, 0, follow), 1) if node in at]
        backs = [length for length, at in enumerate(walks(graph, node, follow), 1) if node in at]
        if ins and backs:
            lengths.append(min(ins) + min(backs))
    return min(lengths, default=None)


def anything(_: Signal) -> bool:
    return True


def nobody_talks(signal: Signal) -> bool:
    return signal not in (TALKING, SAYS_MORE)


def check_closes(graph: Graph, lasso: Lasso) -> None:
    """Each step is an arrow from where the one before it led, and the last leads back."""
    node = 0
    for step in lasso.prefix:
        node = follow_step(graph, node, step)
    begins = node
    for step in lasso.cycle:
        node = follow_step(graph, node, step)
    assert lasso.cycle
    assert node == begins


def follow_step(graph: Graph, node: int, step: Step) -> int:
    (target,) = {
        target
        for signal, target in graph.arrows[node]
        if (signal, graph.runs[target], graph.asked[target]) == (step.signal, step.run, step.asked)
    }
    return target


# The order of the ends


@SEEDED
@given(graphs())
def test_there_is_an_order_of_ends_exactly_if_there_is_no_way_round(graph: Graph) -> None:
    goes_round = any(node in reached(graph, node) for node in range(len(graph)))
    assert (ends_first(graph) is None) == goes_round


# The heaviest run


@SEEDED
@given(graphs(forwards=True))
def test_the_heaviest_run_is_the_heaviest_of_all_ways(graph: Graph) -> None:
    order = ends_first(graph)
    assert order is not None
    # Nothing is asked for before a run begins, so the first node weighs nothing.
    all_weights = [sum(weight(graph.asked[node]) for node in way[1:]) for way in ways(graph)]
    assert heaviest(graph, order, weight) == max(all_weights)
    assert heaviest(graph, order, lambda _: 1) == max(len(way) for way in ways(graph)) - 1


# The shortest way round


@SEEDED
@given(graphs())
def test_the_shortest_lasso_is_as_short_as_any(graph: Graph) -> None:
    lasso = shortest_lasso(graph)
    quiet = shortest_length(graph, nobody_talks)
    length = shortest_length(graph, anything) if quiet is None else quiet
    assert (None if lasso is None else len(lasso.prefix) + len(lasso.cycle)) == length
    if lasso is not None:
        check_closes(graph, lasso)


# The ends


@SEEDED
@given(graphs())
def test_the_way_to_an_end_is_a_shortest_one(graph: Graph) -> None:
    endings = first_endings(graph)
    lengths = {0: 0}
    for length, places in enumerate(walks(graph, 0, anything), 1):
        for node in places:
            lengths.setdefault(node, length)
    ends = [
        node for node, reached_ in enumerate(graph.runs) if isinstance(reached_.state, Finished)
    ]
    if 0 in ends:
        ends.remove(0)
    assert [len(steps) for steps in endings.values()] == (
        [min(lengths[node] for node in ends)] if ends else []
    )


@pytest.mark.parametrize("waits", [True, False])
def test_time_runs_out_first_where_something_takes_time(*, waits: bool) -> None:
    out = signals.WallClockExpired()
    graph = graph_of([[(PLAIN, 1), (out, 2)], [(out, 2)], []], ends={2})
    graph.asked[0] = ()
    graph.asked[1] = (effects.CallModel(),) if waits else ()
    (steps,) = first_endings(graph).values()
    assert [step.signal for step in steps] == ([PLAIN, out] if waits else [out])


# A trap


@SEEDED
@given(graphs())
def test_a_run_is_trapped_exactly_if_some_node_leads_to_no_end_but_from_outside(
    graph: Graph,
) -> None:
    def inside(signal: Signal) -> bool:
        return signal != ABORT

    ends = {node for node, one in enumerate(graph.runs) if isinstance(one.state, Finished)}
    for node in set(range(len(graph))) - ends:  # one that cannot be left at all is no trap
        if not any(inside(signal) for signal, _ in graph.arrows[node]):
            graph.arrows[node].append((PLAIN, node))
    caught = {
        node for node in range(len(graph)) if not ends & {node, *reached(graph, node, inside)}
    }
    assert (trapped(graph) is not None) == bool(caught)
    assert trapped(graph) in {*caught, None}

"""The graph of every visited run, with its shortest paths and its longest run."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from msgspec import Struct, field

from simloop.kernel import signals
from simloop.kernel.effects import Backoff, CallModel, Effect, RunTools
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Run
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished
from simloop.prove.alphabet import ENDINGS

T = TypeVar("T")
Arrow = tuple[Signal, int]
"""A signal, and the node that it leads to."""
Parent = tuple[int, Signal]
"""The node before a node, and the signal from there."""
Came = dict[int, tuple[int, Signal, bool]]
"""For each node of a search: the node and the signal before it, and whether the search began so."""
Weigh = Callable[[tuple[Effect, ...]], int]

_FROM_OUTSIDE = frozenset((*ENDINGS, signals.HookFailed(), signals.CallBlocked()))
_TAKING_TIME = (CallModel, RunTools, Backoff)


class Step(Struct, frozen=True):
    """One transition of an example: the signal, the run that it led to, and what was asked then."""

    signal: Signal
    run: Run
    asked: tuple[Effect, ...]


class RuleViolation(Struct, frozen=True):
    """Something wrong with a machine, and the shortest way there."""

    what: str
    counterexample: tuple[Step, ...]


class Graph(Struct):
    """Every reachable run. A node is a run with its effects; nodes are in the order of distance."""

    runs: list[Run] = field(default_factory=list)
    asked: list[tuple[Effect, ...]] = field(default_factory=list)
    arrows: list[list[Arrow]] = field(default_factory=list)  # the signals that can arrive
    parents: list[Parent | None] = field(default_factory=list)  # on a shortest way
    ends: dict[int, Finished] = field(default_factory=dict)  # the nodes at which a run is over
    cut: set[int] = field(default_factory=set)  # where a wrong transition was not followed

    def add(self, run: Run, asked: tuple[Effect, ...], parent: Parent | None) -> int:
        self.runs.append(run)
        self.asked.append(asked)
        self.arrows.append([])
        self.parents.append(parent)
        if isinstance(run.state, Finished):
            self.ends[len(self.runs) - 1] = run.state
        return len(self.runs) - 1

    def of_each_asked(self, value: Callable[[tuple[Effect, ...]], T]) -> list[T]:
        """Return the `value` of what each node has asked, computed once for equal effects."""
        values = {asked: value(asked) for asked in dict.fromkeys(self.asked)}
        return [values[asked] for asked in self.asked]

    def way_to(self, node: int, then: Iterable[Arrow] = ()) -> tuple[Step, ...]:
        """Return a shortest way from the start to `node`, continued by the arrows of `then`."""
        return self.steps((*_way_to(self.parents.__getitem__, node), *then))

    def steps(self, way: Iterable[Arrow]) -> tuple[Step, ...]:
        return tuple(Step(signal, self.runs[node], self.asked[node]) for signal, node in way)

    def __len__(self) -> int:
        return len(self.runs)


def way_back(came: Came, node: int) -> tuple[int, tuple[Arrow, ...]]:
    """Return the node at which a search began, and the arrows from there to `node`."""
    way: list[Arrow] = []
    first = False
    while not first:
        before, signal, first = came[node]
        way.append((signal, node))
        node = before
    return node, tuple(reversed(way))


@dataclass(frozen=True, slots=True)
class Lasso:
    """A run without an end: `prefix` leads to where `cycle` begins, and `cycle` back there."""

    prefix: tuple[Step, ...]
    cycle: tuple[Step, ...]


def ends_first(graph: Graph) -> dict[int, list[int]] | None:
    """Return the nodes, each after all its successors and with them; None if there is a cycle."""
    leads = {n: [*{target for _, target in arrows}] for n, arrows in enumerate(graph.arrows)}
    try:
        return {node: leads[node] for node in TopologicalSorter(leads).static_order()}
    except CycleError:
        return None


def heaviest(graph: Graph, order: Mapping[int, list[int]], weigh: Weigh) -> int:
    """Return the highest cost of a run. `order` is the result of `ends_first`."""
    cost = graph.of_each_asked(weigh)
    from_here = [0] * len(graph)  # with the cost of the node itself
    for node, leads in order.items():
        from_here[node] = cost[node] + max(map(from_here.__getitem__, leads), default=0)
    return from_here[0] - cost[0]


def first_endings(graph: Graph) -> dict[Finished, tuple[Step, ...]]:
    """Return a shortest run to each end, if possible one that is possible in every design."""
    found: dict[Finished, tuple[int, Arrow]] = {}
    plain: set[Finished] = set()
    for node, arrows in enumerate(graph.arrows):
        for arrow in arrows:
            if (state := graph.ends.get(arrow[1])) is None or state in plain:
                continue
            if _is_plain(graph.asked[node], arrow[0]):
                plain.add(state)
                found[state] = node, arrow
            else:
                found.setdefault(state, (node, arrow))
    return {state: graph.way_to(node, (arrow,)) for state, (node, arrow) in found.items()}


def _is_plain(asked: tuple[Effect, ...], signal: Signal) -> bool:
    if isinstance(signal, signals.WallClockExpired):
        return any(isinstance(effect, _TAKING_TIME) for effect in asked)
    if isinstance(signal, signals.ModelFailed) and signal.error is ErrorClass.ABORTED:
        return any(isinstance(effect, CallModel) and effect.aborted for effect in asked)
    return True


def trapped(graph: Graph) -> int | None:
    """Return the first node that runs stay in or come back to until ended from outside."""
    inside = [[arrow for arrow in row if arrow[0] not in _FROM_OUTSIDE] for row in graph.arrows]
    sources: list[list[int]] = [[] for _ in graph.runs]
    for node, arrows in enumerate(inside):
        for _, target in arrows:
            sources[target].append(node)
    can_end = bytearray(node in graph.ends for node in range(len(graph)))
    waiting = deque(graph.ends)
    while waiting:
        for source in sources[waiting.popleft()]:
            if not can_end[source]:
                can_end[source] = 1
                waiting.append(source)
    caught = {node for node, ends in enumerate(can_end) if not ends}
    return min(without_dead_ends(inside, caught), default=None)


def shortest_lasso(graph: Graph) -> Lasso | None:
    """Return the shortest lasso, if possible without further messages of the user, or None."""
    sent = signals.StepClosed  # with messages of the user
    alone = _shortest(graph, lambda s: not (isinstance(s, sent) and (s.steering or s.follow_up)))
    return alone or _shortest(graph, lambda _: True)


def _shortest(graph: Graph, follow: Callable[[Signal], bool]) -> Lasso | None:
    arrows = [[arrow for arrow in row if follow(arrow[0])] for row in graph.arrows]
    came = _breadth_first(arrows, 0, len(graph))  # no arrow leads back to the start
    on_cycles = without_dead_ends(arrows, {0, *came})
    inside = [[arrow for arrow in row if arrow[1] in on_cycles] for row in arrows]
    best, found = len(graph) * 2 + 1, None
    for node in (node for node in (0, *came) if node in on_cycles):
        way_in = _way_to(came.get, node)
        if (longest := best - len(way_in) - 1) <= 0:
            break  # only to be quick: a graph of many nodes would take the square of them
        back = _breadth_first(inside, node, longest)
        if node in back:
            before, signal = back[node]
            cycle = [*_way_to(back.get, before, node), (signal, node)]
            best = len(way_in) + len(cycle)
            found = Lasso(graph.steps(way_in), graph.steps(cycle))
    return found


def _way_to(came: Callable[[int], Parent | None], goal: int, start: int = 0) -> list[Arrow]:
    way: list[Arrow] = []
    while goal != start and (step := came(goal)) is not None:
        way.append((step[1], goal))
        goal = step[0]
    return way[::-1]


def _breadth_first(arrows: list[list[Arrow]], start: int, longest: int) -> dict[int, Parent]:
    """Return the nodes up to so many arrows from `start`, to it at most, each as it is reached."""
    came: dict[int, Parent] = {}
    frontier = [start]
    while start not in came and frontier and longest:
        longest -= 1
        reached = []
        for node in frontier:
            for signal, target in arrows[node]:
                if target not in came:
                    came[target] = node, signal
                    reached.append(target)
        frontier = reached
    return came


def without_dead_ends(arrows: list[list[Arrow]], left: set[int]) -> frozenset[int]:
    """Return the nodes of `left` on a cycle within it, or between two cycles. Empties `left`."""
    leads = {node: {target for _, target in arrows[node]} & left for node in left}
    sources: dict[int, set[int]] = {node: set() for node in left}
    for node, targets in leads.items():
        for target in targets:
            sources[target].add(node)
    for ahead, behind in ((leads, sources), (sources, leads)):
        counts = {node: len(ahead[node] & left) for node in left}
        waiting = deque(node for node, count in sorted(counts.items()) if not count)
        while waiting:
            node = waiting.popleft()
            left.discard(node)
            for source in behind[node] & left:
                counts[source] -= 1
                if not counts[source]:
                    waiting.append(source)
    return frozenset(left)
